// Learn from annotations: they are kept, the other videos are segmented again, and it can be
// undone. Or add a checked video to those that are learned from.

import { ask, follow, isOpen, work } from "./api.js";
import { closer, open } from "./dialogs.js";
import { button, el } from "./dom.js";
import { current, goTo, load, say, send, settled, showView, store } from "./store.js";
import { S } from "./strings.js";

export const canTeach = () => store.data.learned && (store.data.taught
  || store.data.videos.some((video) => video.corrected));

export function askTeach() {
  const { videos, taught } = store.data;
  const mine = videos.filter((video) => video.editable);
  const annotated = mine.filter((video) => video.annotated.length || video.clicks.length).length;
  const fresh = mine.some((video) => video.corrected);
  const words = el("p", { text: fresh ? S.teachWords(annotated, mine.length) : S.teachNothing });
  const next = el("ul", { class: "next" });
  listNext(next);
  const bar = el("progress", { max: 1, value: 0, hidden: true, "aria-label": S.learning });
  const left = el("p", {});
  const problem = el("p", { class: "bad", role: "alert" });
  let running = null;
  const go = button(S.learn, async () => {
    go.disabled = true;
    bar.hidden = false;
    try {
      const job = await work("api/teach", { revision: store.data.revision }, (now) => {
        running = now;
        bar.value = now.share;
        left.textContent = now.left ? S.timeLeft(now.left) : "";
      });
      await load();
      dialog.close();
      showChanges(job.result);
    } catch (error) {
      problem.textContent = error.message;
      say(error.message, true); // the dialog may be closed
      bar.hidden = true;
      go.disabled = false;
      running = null;
    }
  }, { class: "main", disabled: !fresh });
  const back = taught ? [closer(S.takeBackLast, takeBack)] : [];
  // Esc closes the dialog and the job continues; Cancel stops it.
  const cancel = closer(S.cancel, () => running && isOpen(running)
    && ask(`api/jobs/${running.id}/cancel`, {}));
  const dialog = open(S.teachQuestion, [words, next, bar, left, problem], ...back, cancel, go);
  (fresh ? go : cancel).focus(); // Enter must not undo the learning
}

// List the videos whose annotations help most, with reasons.
async function listNext(list) {
  if (store.data.learned) list.replaceChildren(el("li", { text: S.suggesting }));
  const { result } = await work("api/suggest", {}).catch(() => ({ result: [] }));
  list.replaceChildren(...result.map(([video, reason]) =>
    el("li", {}, leadTo(video), el("span", { text: reason }))));
  if (result.length) list.prepend(el("li", { text: S.teachNext }));
}

let again = false;

// Learn in the background; the video on the stage keeps its segments.
export async function learnQuietly() {
  again = true;
  if (store.learning) return;
  store.learning = true;
  try {
    while (again) {
      again = false;
      await settled();
      const job = await ask("api/teach", { revision: store.data.revision, keep: [current().name] });
      again = Boolean(job.running); // another one, which began before the confirmation
      await follow(job);
    }
    say(S.refreshed);
  } catch (error) {
    say(error.message, true);
  }
  await load().catch(() => {});
  store.learning = false;
}

// Add checked videos (`keys`) or files (`videos`); their segments are a proposal to correct.
export async function adopt(chosen) {
  say(S.adopting);
  try {
    const { result } = await work("api/adopt", { revision: store.data.revision, ...chosen });
    await load();
    showView("correct");
    goTo(result.video);
    const failed = Object.values(result.failed);
    say([S.adopted(result.added.join(", ")), ...failed].join(" "), failed.length > 0);
  } catch (error) {
    say(error.message, true);
  }
}

// Changes by video: the timeline before above the timeline after.
function showChanges({ changes, before, after }) {
  const rows = changes.map(({ video, share, labelled }) => el("tr", {},
    el("td", {}, leadTo(video), el("div", { text: labelled ? S.asLabelled : share < 0.005
      ? S.asBefore : S.another(S.percent(share)) })),
    el("td", { class: "two" }, strip(before[video], after[video], S.before),
      strip(after[video], before[video], S.after))));
  const keep = closer(S.keep, undefined, { class: "main" });
  open(S.whatChanged, [el("div", { class: "scroll" }, el("table", { class: "changes" },
    el("tbody", {}, ...rows)))],
    closer(S.takeBack, takeBack), keep);
  keep.focus();
  say(S.learned);
}

function strip(segments, others, label) {
  const end = Math.max(...[...segments, ...others].map((each) => each[1]), 1);
  const names = segments.map((each) => each[2]).join(", ");
  return el("div", { class: "strip" }, el("span", { text: label }),
    el("div", { class: "blocks", role: "img", "aria-label": `${label}: ${names}` },
    ...segments.map(([start, stop, name, colour]) => el("div", { class: "block", "data-tip": name,
      style: { left: `${(100 * start) / end}%`, width: `${(100 * (stop - start)) / end}%`,
        background: colour } }))));
}

// Close the dialog and show a video.
const leadTo = (name) => closer(name, () => goTo(name), { class: "quiet" });
const takeBack = () => send("back", {});
