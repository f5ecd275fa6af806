// Tap mode: a tap on a step, or its number key, adds a click at the current time.

import { work } from "./api.js";
import { askName } from "./dialogs.js";
import { button, el, icon } from "./dom.js";
import { choose, playStage, stageTime } from "./stage.js";
import { changed, current, edit, say, stepOf, store } from "./store.js";
import { S } from "./strings.js";
import { askTeach, canTeach } from "./teach.js";

const place = () => document.getElementById("taps");
const chips = el("div", { class: "chips", role: "group", "aria-label": S.tapSteps });
const counter = el("p", { class: "counter" });
const next = button("", () => nextVideo(), { class: "next-video" });
const complete = el("input", { type: "checkbox", onchange: () => saveComplete() });
const learn = button(S.learn, () => askTeach(), { class: "main" });
const removeButton = button(S.tapUndo, () => removeLast());
let suggested = []; // video names, most useful first
let requested = false;

export function buildTaps() {
  const whole = el("label", { class: "whole" }, complete, S.tapComplete);
  const leave = button(S.tapLeave, () => toggleTaps(), { class: "quiet",
    title: S.tapLeaveTitle });
  place().setAttribute("aria-label", S.tapLabel);
  // A click leaves the focus where it is, so that Space still plays and pauses.
  place().addEventListener("mousedown", (event) => event.preventDefault());
  place().append(el("p", { class: "help", text: S.tapHelp }), chips,
    el("div", { class: "row" }, removeButton, whole, counter, next, learn, leave));
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
  chips.replaceChildren(...store.data.steps.map((step, at) =>
    el("button", { type: "button", class: "chip", disabled: !video.editable,
    "data-step": step.number, style: { background: step.colour, color: step.ink },
      onclick: () => clickStep(step.number) },
    at < 9 ? el("kbd", { text: at + 1 }) : null, el("span", { text: step.name }),
      countOf(video, step.number))),
    button(S.tapNew, () => askName(S.newStepTitle, addAndClick),
      { class: "chip new", disabled: !video.editable }));
  if (held) chips.querySelector(`[data-step="${held}"]`)?.focus();
  const mine = store.data.videos.filter((each) => each.editable);
  counter.textContent = S.tapCount(mine.filter(isDone).length, mine.length);
  const to = findVideo();
  next.disabled = !to;
  next.textContent = to ? S.tapNext(to.name) : S.tapNextPlain;
  complete.checked = Boolean(video.complete);
  complete.disabled = removeButton.disabled = !video.clicks.length;
  learn.disabled = !canTeach();
}

function countOf(video, number) {
  const times = video.clicks.filter((click) => click[1] === number).length;
  return times ? el("span", { class: "times", role: "img", "aria-label": S.clicks(times) },
    icon("pin"), times > 1 ? String(times) : "") : null;
}

const isDone = (video) => video.clicks.length > 0 || video.annotated.length > 0;

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

export function clickStep(number) {
  const video = current();
  if (!video.editable) return;
  if (!stepOf(number)) return;
  edit({ do: "click", video: video.name, time: stageTime(), step: number });
}

function addAndClick(name) {
  const video = current().name;
  const time = stageTime();
  edit({ do: "add", name }).then((done) => {
    const step = store.data.steps.at(-1);
    if (done && step) edit({ do: "click", video, time, step: step.number });
  });
}

// Remove the last click before the cursor, or the first one.
export function removeLast() {
  const { clicks, name, editable } = current();
  if (!clicks.length || !editable) return;
  const before = clicks.findLastIndex(([time]) => time <= stageTime() + 0.05);
  edit({ do: "remove_click", video: name, click: before < 0 ? 0 : before });
}

function saveComplete() {
  const { name } = current();
  edit({ do: "clicks_complete", video: name, complete: complete.checked })
    .then((done) => !done && say(S.nothingDone, true));
}
