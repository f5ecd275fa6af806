// Coding while the video plays: a key at the start of each step (onsets), or while it is done (taps).

import { work } from "./api.js";
import { askName } from "./dialogs.js";
import { button, el, icon } from "./dom.js";
import { codes } from "./codes.js";
import { choose, playStage, stageSpeed, stageTime } from "./stage.js";
import { changed, current, edit, recall, remember, stepOf, store } from "./store.js";
import { S } from "./strings.js";
import { askTeach, canTeach } from "./teach.js";

const place = () => document.getElementById("taps");
const chips = el("div", { class: "chips", role: "group", "aria-label": S.tapSteps });
const counter = el("p", { class: "counter" });
const next = button("", () => nextVideo(), { class: "next-video" });
const help = el("p", { class: "help" });
const modes = ["onset", "tap"].map((mode) => button(S.codingModes[mode], () => setMode(mode)));
const complete = el("input", { type: "checkbox", onchange: () => saveComplete() });
const whole = el("label", { class: "whole" }, complete, S.tapComplete);
const learn = button(S.learn, () => askTeach(), { class: "main" });
const removeButton = button(S.tapUndo, () => removeLast());
let suggested = []; // video names, most useful first
let requested = false;
let mode = recall("coding", "tap");

export function buildTaps() {
  const leave = button(S.tapLeave, () => toggleTaps(), { class: "quiet",
    title: S.tapLeaveTitle });
  place().setAttribute("aria-label", S.tapLabel);
  // A click leaves the focus where it is, so that Space still plays and pauses.
  place().addEventListener("mousedown", (event) => event.preventDefault());
  place().append(el("div", { class: "row", role: "group", "aria-label": S.codingMode }, ...modes,
    help), chips, el("div", { class: "row" }, removeButton, whole, counter, next, learn, leave));
}

function setMode(to) {
  mode = to;
  remember("coding", to);
  changed("tap");
}

export function toggleTaps() {
  store.tapping = !store.tapping;
  place().hidden = !store.tapping;
  document.body.classList.toggle("tapping", store.tapping);
  document.getElementById("tap").setAttribute("aria-pressed", store.tapping);
  if (store.tapping) document.getElementById("main").focus(); // keys act on the video
  if (store.tapping && !requested) findNext();
  changed("tap");
}

// Ask once which videos help most; this is slow.
async function findNext() {
  requested = true;
  if (!store.data.learned) return;
  const { result } = await work("api/suggest", {}).catch(() => ({ result: [] }));
  suggested = result.map(([name]) => name);
  changed("tap");
}

export function drawTaps() {
  if (!store.tapping) return;
  const video = current();
  const held = document.activeElement?.closest?.("#taps [data-step]")?.dataset.step;
  const onsets = mode === "onset";
  const keys = codes();
  modes.forEach((node, at) => { node.ariaPressed = onsets === (at === 0); });
  help.textContent = onsets ? S.onsetHelp : S.tapHelp;
  whole.hidden = onsets;
  const chip = (number, name, style) => el("button", { type: "button", class: "chip", style,
    disabled: !video.editable, "data-step": String(number), onclick: () => clickStep(number) },
  keys.has(number) ? el("kbd", { text: keys.get(number) }) : null, el("span", { text: name }),
  countOf(video, number));
  chips.replaceChildren(...store.data.steps.map((step) => chip(step.number, step.name,
    { background: step.colour, color: step.ink })), chip(null, S.makeBackground),
    button(S.tapNew, () => askName(S.newStepTitle, addAndClick),
      { class: "chip new", disabled: !video.editable }));
  if (held) chips.querySelector(`[data-step="${held}"]`)?.focus();
  const mine = store.data.videos.filter((each) => each.editable);
  counter.textContent = (onsets ? S.onsetCount : S.tapCount)(mine.filter(isDone).length,
    mine.length);
  const to = findVideo();
  next.disabled = !to;
  next.textContent = to ? S.tapNext(to.name) : S.tapNextPlain;
  complete.checked = Boolean(video.complete);
  complete.disabled = !video.clicks.length;
  removeButton.disabled = !(onsets ? video.onsets : video.clicks).length;
  learn.disabled = !canTeach();
}

function countOf(video, number) {
  const times = (mode === "onset" ? video.onsets : video.clicks).filter((click) => click[1] === number).length;
  return times ? el("span", { class: "times", role: "img", "aria-label": S.times(times) },
    icon("pin"), times > 1 ? String(times) : "") : null;
}

const isDone = (video) => video.clicks.length > 0 || video.annotated.length > 0
  || video.onsets.length > 0;

// The next video: a suggested one, or the first without annotations.
function findVideo() {
  const open = store.data.videos.filter((video) => video.editable && !isDone(video)
    && video !== current());
  return suggested.map((name) => open.find((video) => video.name === name)).find(Boolean)
    || open[0];
}

export function nextVideo() {
  const to = findVideo();
  if (!to) return;
  choose(store.data.videos.indexOf(to), 0);
  playStage();
}

export const momentNow = () => ({ video: current(), time: stageTime(), speed: stageSpeed() });

// Code a step, or background (null). With `inside`, it is a tap in either mode.
export function clickStep(number, { video, time, speed } = momentNow(), inside = false) {
  if (!video.editable || (number !== null && !stepOf(number))) return;
  if (mode === "tap" || inside) edit({ do: "click", video: video.name, time, step: number });
  else {
    const now = store.data.videos.find(({ name }) => name === video.name);
    const before = now.onsets.findLast(([, , key]) => key < time)?.[1];
    // the key of the step that runs ends it, as in BORIS
    const step = number !== null && before === number ? null : number;
    edit({ do: "onset", video: video.name, time, step, speed });
  }
}

function addAndClick(name) {
  const moment = momentNow();
  edit({ do: "add", name }).then((done) => {
    const step = store.data.steps.at(-1);
    if (done && step) clickStep(step.number, moment);
  });
}

// Remove the last click or onset before the cursor, or the first one.
export function removeLast() {
  const { clicks, onsets, name, editable } = current();
  const kind = mode === "onset" ? "onset" : "click";
  const all = kind === "onset" ? onsets : clicks;
  if (!all.length || !editable) return;
  const before = Math.max(0, all.findLastIndex(([time]) => time <= stageTime() + 0.05));
  edit({ do: `remove_${kind}`, video: name, [kind]: before });
}

function saveComplete() {
  const video = current();
  video.complete = complete.checked; // what is drawn before the answer keeps the tick
  edit({ do: "clicks_complete", video: video.name, complete: video.complete }).then((done) => {
    if (done) return;
    video.complete = !video.complete;
    changed("tap");
  });
}
