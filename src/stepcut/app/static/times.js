// Times: a run chart, stacked bars, and figures per step with its class, limit and note.

import { ask } from "./api.js";
import { el } from "./dom.js";
import { edit, goTo, say, showView, stepOf, store } from "./store.js";
import { S } from "./strings.js";

const HEIGHT = 220;
const by = choice(S.timesBy);
const shown = el("select", { onchange: () => load() });
const takt = el("input", { inputMode: "decimal", size: 5, onchange: () => load() });
const answer = el("div", {});
let drawn = null;
let asked = 0;

function choice(options, chosen = "", onchange = () => load(), more = {}) {
  return el("select", { onchange, ...more }, ...options.map(([value, text]) =>
    el("option", { value, text, selected: value === chosen })));
}

export function buildTimes(section) {
  section.append(el("h2", { text: S.timesHead }), el("p", { class: "soft", text: S.timesWords }),
    el("div", { class: "row" }, ...[[S.eachPoint, by], [S.runOf, shown], [S.takt, takt]].map(
      ([text, field]) => el("label", { class: "line-up" }, text, field))), answer);
}

export function drawTimes() {
  if (drawn === store.data) return;
  drawn = store.data;
  const last = shown.value;
  shown.replaceChildren(el("option", { value: "", text: S.wholeRecording }),
    ...store.data.steps.map(({ number, name }) => el("option", { value: number, text: name })));
  shown.value = last;
  if (shown.selectedIndex < 0) shown.value = "";
  load();
}

async function load() {
  const mine = (asked += 1);
  try {
    const wish = new URLSearchParams({ by: by.value, step: shown.value, takt: takt.value });
    const found = await ask(`api/times?${wish}`);
    if (mine === asked) draw(found);
  } catch (error) {
    answer.replaceChildren(el("p", { class: "bad", role: "alert", text: error.message }));
  }
}

function draw(found) {
  const held = answer.contains(document.activeElement) ? document.activeElement : null;
  answer.replaceChildren(el("ul", { class: "facts-list" }, ...found.notes.map((text) =>
    el("li", { text }))), chart(found), stacks(found), table(found));
  const again = held && answer.querySelector(`[data-key="${held.dataset.key}"]`);
  if (again && again.tagName !== "SELECT") again.value = held.value; // keep unfinished input
  again?.focus();
}

function svg(tag, props, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(props)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function chart({ points, mean, limits, takt: limit }) {
  const width = Math.max(answer.clientWidth, 300);
  const lines = [["mean", mean], ["limit", limits?.[0]], ["limit", limits?.[1]], ["takt", limit]]
    .filter(([, value]) => Number.isFinite(value));
  const ends = [...points.flatMap((one) => [one.low, one.high]), ...lines.map(([, value]) => value)];
  const [least, most] = [Math.min(...ends), Math.max(...ends)];
  const x = (place) => 12 + ((place + 0.5) * (width - 110)) / points.length;
  const y = (value) => HEIGHT - 34 - ((HEIGHT - 58) * (value - least)) / (most - least || 1);
  const places = {}; // of words beside the lines, which do not overlap
  [...lines].sort((one, other) => other[1] - one[1]).reduce((above, line) => {
    if (line[0] === "takt") return above;
    places[lines.indexOf(line)] = Math.max(y(line[1]) + 4, above + 13);
    return places[lines.indexOf(line)];
  }, 0);
  const name = (words) => (words.length > 16 ? `…${words.slice(-15)}` : words);
  const text = (at, height, words, more) => svg("text", { x: at, y: height, ...more }, words);
  return svg("svg", { class: "run", viewBox: `0 0 ${width} ${HEIGHT}`, role: "img",
    "aria-label": S.runLabel(points.length) },
    ...lines.flatMap(([kind, value], place) => [
      svg("line", { class: kind, x1: 12, x2: width - 98, y1: y(value), y2: y(value) }),
      kind === "takt" ? text(14, y(value) - 8, S.lines[kind](value.toFixed(1)), { class: kind })
        : text(width - 94, places[place], S.lines[kind](value.toFixed(1)), { class: kind })]),
    svg("polyline", { points: points.map((one, place) => `${x(place)},${y(one.seconds)}`).join(" ") }),
    ...points.map((one, place) => point(one, x(place), y)),
    text(12, HEIGHT - 4, name(points[0].name), {}),
    ...(points.length > 1 ? [text(width - 98, HEIGHT - 4, name(points.at(-1).name),
      { "text-anchor": "end" })] : []));
}

function point(one, x, y) {
  const tip = `${one.name}\n${S.fromSeconds(...[one.seconds, one.low, one.high].map((value) =>
    value.toFixed(1)))}`;
  const circle = svg("circle", { cx: x, cy: y(one.seconds), r: 5, "data-tip": tip,
    class: one.outside ? "outside" : "" });
  if (by.value === "recording") circle.addEventListener("click", () => {
    showView("correct");
    goTo(one.name);
  });
  return svg("g", {}, svg("line", { class: "error", x1: x, x2: x, y1: y(one.low), y2: y(one.high) }),
    circle);
}

function stacks({ stacks: bars, steps }) {
  const most = Math.max(...Object.values(bars).map((parts) =>
    parts.reduce((sum, [, mean]) => sum + mean, 0)), 1);
  const kinds = Object.fromEntries(steps.map(({ name, kind, number }) => [name, { kind, number }]));
  const classed = steps.some(({ kind }) => kind);
  const part = ([name, mean, low, high]) => {
    const { kind, number } = kinds[name] || {};
    const step = !classed && stepOf(number);
    const figures = [mean, low, high].map((value) => value.toFixed(1));
    return el("div", { class: `part ${kind || ""}`, text: name,
      "data-tip": `${name}\n${S.fromSeconds(...figures)}`, style: { width: `${(100 * mean) / most}%`,
        ...(step ? { background: step.colour, color: step.ink } : {}) } });
  };
  return el("div", { class: "stacks" }, el("h3", { text: S.stacksHead }),
    ...Object.entries(bars).flatMap(([name, parts]) => [el("span", { class: "soft",
      text: name === "all" ? S.allRecordings : name }),
    el("div", { class: "stack" }, ...parts.map(part))]),
    classed ? el("p", { class: "row" }, ...S.classes.slice(1).map(([kind, text]) =>
      el("span", { class: `part ${kind}`, text }))) : null);
}

function table({ columns, rows, steps }) {
  const at = (row, name) => row[columns.indexOf(name)];
  const figure = (row, name) => at(row, name)?.toFixed(1) ?? "–";
  return el("div", { class: "scroll-x" }, el("table", { class: "figures times" },
    el("thead", {}, el("tr", {}, ...S.timesColumns.map((text) => el("th", { scope: "col", text })))),
    el("tbody", {}, ...rows.map((row) => {
      const step = steps.find(({ name }) => name === at(row, "step"));
      return el("tr", {}, el("th", { scope: "row", text: at(row, "step") }),
        el("td", { text: `${figure(row, "median s")} (${figure(row, "from s")}–${figure(row, "to s")})` }),
        el("td", { text: `${figure(row, "Q1 s")}–${figure(row, "Q3 s")}` }),
        ...["SD s", "share %", "confirmed %"].map((name) => el("td", { text: figure(row, name) })),
        ...(step ? fields(step) : []));
    }))));
}

function fields({ number, name, kind, limit, note }) {
  const chosen = choice(S.classes, kind || "", () =>
    edit({ do: "classify", step: number, kind: chosen.value || null }),
  { "aria-label": S.classOf(name), "data-key": `class${number}` });
  const most = el("input", { value: limit, size: 6, "aria-label": S.limitOf(name),
    title: S.limitTitle, "data-key": `limit${number}`, onchange: () =>
      ask("api/limit", { step: number, limit: most.value }).then(load, (error) =>
        say(error.message, true)) });
  const text = el("textarea", { value: note, rows: 1, "aria-label": S.noteOn(name),
    "data-key": `note${number}`, onchange: () => edit({ do: "note", step: number, text: text.value }) });
  return [chosen, most, text].map((field) => el("td", {}, field));
}
