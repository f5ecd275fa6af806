// The list of steps: rename, colour, filter, merge, and play one step in all videos.

import { codes, setCode } from "./codes.js";
import { compareStep } from "./compare.js";
import { askMerge } from "./dialogs.js";
import { el, icon, iconButton } from "./dom.js";
import { changed, edit, matches, send, stepOf, store } from "./store.js";
import { S } from "./strings.js";

let drawing = false;

export function drawSteps() {
  const list = document.getElementById("steps");
  const held = document.activeElement?.closest?.("#steps [data-key]");
  drawing = true; // removing a field blurs it, which must not rename the step
  list.replaceChildren(...store.data.steps.filter((step) => !store.query || matches(step.name))
    .map(makeRow));
  if (!list.childElementCount) list.append(el("li", { class: "empty", text: S.noStepFound }));
  drawing = false;
  const again = held && list.querySelector(`[data-key="${held.dataset.key}"]`);
  again?.focus();
  if (again && held.value !== held.dataset.name && held.matches(".name")) { // keep unfinished input
    again.value = held.value;
    again.setSelectionRange(held.selectionStart, held.selectionEnd);
  }
}

function makeRow(step) {
  const { number, name } = step;
  const colour = el("input", { type: "color", value: step.colour, title: S.colour,
    "aria-label": S.colourOf(name),
    onchange: () => edit({ do: "colour", step: number, colour: colour.value.toLowerCase() }) });
  const field = el("textarea", { class: "name", value: name, rows: 1, maxLength: 200,
    "aria-label": S.nameOf(number + 1),
    spellcheck: false, onkeydown: (event) => {
      if (event.key === "Enter") { event.preventDefault(); field.blur(); }
      if (event.key === "Escape") { field.value = stepOf(number).name; field.blur(); }
    },
    onblur: () => rename(number, field) });
  const code = el("input", { class: "code", value: codes().get(number) ?? "", maxLength: 2,
    autocomplete: "off", title: S.codeTitle, "aria-label": S.codeOf(name),
    onkeydown: (event) => event.key === "Enter" && code.blur(), onchange: () => {
      if (setCode(step, code.value)) changed("codes");
      else code.value = codes().get(number) ?? "";
    } });
  const only = iconButton("filter", S.showOnly(name), () => {
    if (!store.filter.delete(number)) store.filter.add(number);
    changed("filter");
  });
  only.setAttribute("aria-pressed", store.filter.has(number));
  const all = iconButton("grid", S.playEverywhere(name), () => compareStep(number));
  const more = iconButton("more", S.mergeStep(name), () => askMerge(number));
  field.dataset.name = name;
  for (const [key, node] of Object.entries({ name: field, colour, code, only, all,
    more })) node.dataset.key = `${key}${number}`;
  return el("li", { class: store.filter.size && !store.filter.has(number) ? "off" : "" },
    el("div", { class: "mark" }, colour, code), el("div", { class: "what" }, field, ...hints(step),
      el("span", { class: "facts" }, el("span", { text: facts(number), title: S.factsTitle }),
        ...severity(step))),
    el("div", { class: "acts" }, only, all, more));
}

// Suggested names.
function hints({ number, suggested }) {
  if (!suggested.length) return [];
  const words = suggested.map((name) => el("button", { class: "hint", type: "button", text: name,
    title: S.nameIt(name),
    onclick: () => edit({ do: "rename", step: number, name }) }));
  return [el("span", { class: "hints" }, ...words)];
}

// Severity of the step in a check, stored in severity.json.
function severity({ number, name, learned, severity: value }) {
  if (!learned || !store.data.learned) return [];
  const which = el("select", { class: `severity ${value || ""}`, "aria-label": S.severityOf(name),
    title: S.severityTitle,
    onchange: () => send("severity", { step: number, severity: which.value || null }) },
    ...S.severities.map(([key, text]) => el("option", { value: key, text,
      selected: key === (value || "") })));
  return [which];
}

function rename(number, field) {
  const step = stepOf(number);
  const name = field.value.trim();
  if (drawing || !step || name === step.name) return;
  if (name) edit({ do: "rename", step: number, name });
  else field.value = step.name;
}

function facts(number) {
  const videos = store.data.videos.filter((video) => video.editable);
  const parts = videos.map((video) => video.parts.filter((part) => part[2] === number));
  const doing = parts.filter((mine) => mine.length);
  if (!doing.length) return S.inNoVideo;
  const lengths = doing.map((mine) => mine.reduce((sum, [start, end]) => sum + end - start, 0))
    .sort((a, b) => a - b);
  const usual = (lengths[(lengths.length - 1) >> 1] + lengths[lengths.length >> 1]) / 2;
  return S.facts(doing.length, videos.length, usual.toFixed(0));
}

export function addIcons() {
  document.getElementById("add").prepend(icon("plus"));
}
