// Dialogs: merge a step, export the timelines, the list of keys.

import { button, el } from "./dom.js";
import { edit, reach, refusal, say, stepOf, store, work } from "./store.js";

const KEYS = [
  ["Space", "play or pause"], ["← →", "one second back or on; with Shift, five"], [", .", "one frame back or on"],
  ["< >", "slower, faster"], ["↑ ↓", "previous or next segment"], ["[ ]", "previous or next boundary"],
  ["J K", "move the boundary here by a frame, back or on"], ["PgUp PgDn", "previous or next video"],
  ["L", "loop the segment"], ["A", "play this step in all videos"], ["I O", "start or end of the segment: here"],
  ["Tab, then ← →", "move a boundary by a frame; with Shift, by a second"], ["S", "split the segment here; both halves keep the step"], ["N", "what follows becomes a new step"],
  ["M", "begin a stretch here; again: end it here"], ["1 … 9", "give the segment or stretch to this step"],
  ["B", "mark it as background"], ["Y", "this video is right as it is"], ["X", "this video holds a mistake, or none"], ["T", "learn from corrections"],
  ["+ − 0", "zoom into the timeline, out, all of it"], ["/", "find a step"],
  ["Ctrl Z, Ctrl Shift Z", "undo, redo"], ["C", "check this video"], ["D", "next difference, beside other timelines"], ["G", "how far to trust the steps; more or fewer of them"], ["E", "export"], ["Esc", "close, or let go"],
  ["?", "this list"],
];

// A dialog of these nodes, with a row of buttons at its end.
export function open(title, body, ...buttons) {
  const dialog = el("dialog", { "aria-label": title, onclose: () => dialog.remove() },
    el("h2", { text: title }), ...body, el("div", { class: "end" }, ...buttons));
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// A button that acts and closes its dialog.
export function closer(text, act = () => {}, props = {}) {
  const node = button(text, () => {
    act();
    node.closest("dialog").close();
  }, props);
  return node;
}

export function showHelp() {
  const rows = KEYS.map(([keys, words]) => el("tr", {}, el("th", { scope: "row" }, el("kbd", { text: keys })), el("td", { text: words })));
  open("Keys", [el("div", { class: "scroll" }, el("table", { class: "keys" }, el("tbody", {}, ...rows)))], closer("Close"));
}

export function askMerge(number) {
  const step = stepOf(number);
  const others = store.data.steps.filter((each) => each.number !== number);
  const into = el("select", { "aria-label": "Merge into" },
    ...others.map((each) => el("option", { value: each.number, text: each.name })),
    el("option", { value: "", text: "background (no step)" }));
  const go = () => edit({ do: "merge", step: number, into: into.value === "" ? null : Number(into.value) });
  open(`Merge “${step.name}”`, [el("p", { text: "All its segments, in all videos, become segments of:" }), into],
    closer("Cancel"), closer("Merge", go, { class: "main" }));
}

export function askExport() {
  const format = el("select", { id: "format", "aria-label": "Format" },
    ...store.data.formats.map((each) => el("option", { value: each.name, text: each.title })));
  const rate = el("input", { id: "rate", placeholder: "30 or 30000/1001", "aria-label": "Frames per second", size: 14 });
  const frames = el("label", { class: "line-up" }, "Frames per second ", rate);
  const sync = () => { frames.hidden = !store.data.formats.find((each) => each.name === format.value).frames; };
  format.addEventListener("change", sync);
  sync();
  const go = async () => {
    try {
      await save(`api/export?format=${encodeURIComponent(format.value)}&rate=${encodeURIComponent(rate.value)}`);
      dialog.close();
    } catch (error) {
      problem.textContent = error.message;
    }
  };
  const problem = el("p", { class: "bad", role: "alert" });
  const words = el("p", { text: "As they stand now, with your corrections." });
  const dialog = open("Export the timelines", [words, format, frames, problem],
    closer("Cancel"), button("Export", go, { class: "main" }));
}

export function askName(title, then) {
  const field = el("input", { "aria-label": "Name", maxLength: 200, size: 36,
    onkeydown: (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault(); // or it presses the button that gets the focus back
      go();
    } });
  const go = () => {
    if (!field.value.trim()) return;
    then(field.value.trim());
    dialog.close();
  };
  const dialog = open(title, [field], closer("Cancel"), button("Add", go, { class: "main" }));
  field.focus();
}

async function save(address) {
  const answer = await reach(address);
  if (!answer.ok) throw new Error((await refusal(answer)).error);
  const named = /filename\*=utf-8''(.*)$/.exec(answer.headers.get("content-disposition") || "");
  const name = named ? decodeURIComponent(named[1]) : "timelines";
  const url = URL.createObjectURL(await answer.blob());
  const link = el("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
  say(`Exported ${name}`);
}

export async function check(place) {
  say("Checking…");
  try {
    const job = await work(`api/check/${place}`, {}, () => {});
    say(job.report.summary, !job.report.ok);
    return job.report;
  } catch (error) {
    say(error.message, true);
    return null;
  }
}
