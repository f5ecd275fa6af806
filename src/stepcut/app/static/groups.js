// Compare two groups of videos: differences and times.

import { ask } from "./api.js";
import { button, el } from "./dom.js";
import { pickLabels } from "./picker.js";
import { showView, store, take } from "./store.js";
import { S } from "./strings.js";

const ticks = el("tbody", {});
const answer = el("div", { class: "answer", "aria-live": "polite" });
const beside = button("", () => chooseBeside());
const groups = { a: new Set(), b: new Set() };
let drawn = null;

export function buildGroups(section) {
  const head = el("thead", {}, el("tr", {}, ...[S.groupA, S.groupB, S.video].map((text) =>
    el("th", { scope: "col", text }))));
  section.append(el("h2", { text: S.compareHead }), el("p", { class: "soft",
    text: S.compareWords }),
    el("div", { class: "scroll-y" }, el("table", { class: "figures ticks" }, head, ticks)),
      button(S.compareGo, go, { class: "main" }), answer,
    el("h2", { text: S.besideHead }), el("p", { class: "soft", text: S.besideWords }), beside);
}

export function drawGroups() {
  beside.disabled = !store.data.home && !store.data.beside; // files are chosen in the app
  beside.textContent = store.data.beside ? S.besideNone(store.data.beside) : S.beside;
  if (drawn === store.data) return;
  drawn = store.data;
  ticks.replaceChildren(...store.data.videos.map((video) =>
    el("tr", {}, tick(video, "a"), tick(video, "b"), el("th",
    { scope: "row", text: video.name }))));
}

function tick(video, group) {
  const box = el("input", { type: "checkbox", checked: groups[group].has(video.key),
    "aria-label": S.inGroup(video.name, group.toUpperCase()),
    onchange: () => {
      const other = group === "a" ? "b" : "a";
      if (!box.checked) groups[group].delete(video.key);
      else {
        groups[group].add(video.key);
        groups[other].delete(video.key); // a video is in at most one group
      }
      drawn = null;
      drawGroups();
      ticks.querySelector(`[aria-label="${CSS.escape(box.getAttribute("aria-label"))}"]`)?.focus();
    } });
  return el("td", {}, box);
}

async function go() {
  try {
    const found = await ask("api/compare", { a: [...groups.a], b: [...groups.b] });
    answer.replaceChildren(el("h3", { text: S.whatDiffers }),
      el("p", { class: "words", text: found.words }),
      el("h3", { text: S.lengthsHead }), lengths(found.times),
      el("details", {}, el("summary", { text: S.details }), table(found.columns, found.rows)));
    answer.scrollIntoView({ block: "nearest" });
  } catch (error) {
    answer.replaceChildren(el("p", { class: "bad", role: "alert", text: error.message }));
  }
}

// The labels of another person under each timeline, or no longer.
async function chooseBeside() {
  const labels = store.data.beside ? null : await pickLabels(S.beside);
  if (labels === null && !store.data.beside) return;
  try {
    take((await ask("api/beside", { labels: labels === "" ? "." : labels })).state);
    if (store.data.beside) showView("correct");
  } catch (error) {
    answer.replaceChildren(el("p", { class: "bad", role: "alert", text: error.message }));
  }
}

// Median seconds of each step in both groups, as numbers and bars.
function lengths({ columns, rows }) {
  const at = (name) => columns.indexOf(name);
  const steps = store.data.steps.map((step) => {
    const [a, b] = ["A", "B"].map((group) => median(rows.filter((row) => row[at("group")] === group
      && row[at("step")] === step.name).map((row) => row[at("total s")])));
    return { step, a, b };
  });
  const most = Math.max(...steps.flatMap(({ a, b }) => [a, b]), 1);
  const bar = (value, step, group) => el("div", { class: `length ${group}` },
    el("span", { class: "fill", style: { width: `${(100 * value) / most}%`,
      background: step.colour } }), el("span", { text: `${group} ${value.toFixed(1)} s` }));
  return el("table", { class: "figures lengths" }, el("tbody", {}, ...steps.map(({ step, a, b }) =>
    el("tr", {}, el("th", { scope: "row", text: step.name }),
      el("td", {}, bar(a, step, S.groupA), bar(b, step, S.groupB))))));
}

function median(values) {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted.length ? (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2 : 0;
}

function table(columns, rows) {
  const cell = (value) => (typeof value === "number" ? value.toFixed(3) : value ?? "");
  return el("div", { class: "scroll-x" }, el("table", { class: "figures" },
    el("thead", {}, el("tr", {}, ...columns.map((text) => el("th", { scope: "col", text })))),
    el("tbody", {}, ...rows.map((row) => el("tr", {}, ...row.map((value) =>
      el("td", { text: cell(value) })))))));
}
