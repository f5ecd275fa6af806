// The stage: the chosen video, its transport, its timeline and the list of its segments.

import { listFindings } from "./bar.js";
import { check } from "./dialogs.js";
import { button, clamp, clock, el, iconButton } from "./dom.js";
import { moveCursor } from "./grid.js";
import { Player } from "./player.js";
import { ask, changed, current, differences, edit, partAt, shines, stepOf, store } from "./store.js";
import { boundaries, Track } from "./track.js";

const SPEEDS = [0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4];
const player = new Player("The chosen video", false);
const track = new Track({ onpick: (time) => choose(store.video, time), onseek: (time) => seek(time) });
const name = el("h2", {});
const now = el("output", { class: "now", "aria-label": "Time" });
const list = el("ol", { class: "segments", "aria-label": "Segments" });
const found = el("div", { class: "found" });
const apart = el("div", { class: "found apart" });
const acts = el("div", { class: "segment-acts" });
const speed = el("select", { "aria-label": "Speed", title: "Speed (< >)", onchange: () => setSpeed(Number(speed.value)) },
  ...SPEEDS.map((rate) => el("option", { value: rate, text: `${rate} ×`, selected: rate === 1 })));
const playing = iconButton("play", "Play", () => togglePlay(), "Space");
const loop = iconButton("loop", "Loop the segment", () => toggleLoop(), "L");
const right = button("Right as it is", () => confirmVideo(), { title: "All of this video is right: it counts as labelled (Y)" });
const mistake = button("Holds a mistake", () => toggleMistake(),
  { title: "It is not done here as it should be: a check takes this video for a normal one no more (X)" });
const checking = button("Check", () => runCheck(), { title: "What does this video miss or do out of order? (C)" });

store.loop = false;
store.rate = 25; // frames a second of the chosen video

export function buildStage() {
  loop.setAttribute("aria-pressed", "false");
  const transport = el("div", { class: "transport", role: "toolbar", "aria-label": "Playing" },
    iconButton("previous", "Previous segment", () => hop(-1), "↑"), iconButton("back", "One frame back", () => frame(-1), ","),
    playing, iconButton("on", "One frame on", () => frame(1), "."), iconButton("next", "Next segment", () => hop(1), "↓"),
    now, loop, speed, el("span", { class: "gap" }), right, mistake, checking,
    iconButton("minus", "Zoom out", () => zoom(0.67), "−"), iconButton("plus", "Zoom in", () => zoom(1.5), "+"));
  document.getElementById("stage").append(
    el("div", { class: "upper" }, el("div", { class: "left" }, player.node),
      el("div", { class: "right" }, name, list, apart, found, acts)),
    transport, track.node);
  const { video } = player;
  const icons = { true: playing.firstChild, false: iconButton("pause", "", null).firstChild };
  const sync = () => {
    playing.replaceChildren(icons[video.paused]);
    playing.setAttribute("aria-label", video.paused ? "Play" : "Pause");
  };
  for (const event of ["play", "pause", "ended", "emptied"]) video.addEventListener(event, sync);
  video.addEventListener("play", () => requestAnimationFrame(follow));
  for (const event of ["seeked", "timeupdate"]) video.addEventListener(event, () => show(player.time));
  video.addEventListener("click", () => togglePlay());
  window.addEventListener("resize", () => track.drawRuler());
}

function follow() {
  if (player.video.paused) return;
  const part = store.loop && current().parts[store.part];
  if (part && (player.time >= part[1] - 0.01 || player.time < part[0] - 0.5)) player.seek(part[0]);
  show(player.time);
  requestAnimationFrame(follow);
}

function show(time) {
  store.times[store.video] = time;
  track.point(time, !player.video.paused);
  moveCursor(store.video, time);
  now.textContent = `${clock(time)} / ${clock(current().duration)}`;
  if (!store.loop && !player.video.paused) {
    const part = partAt(current(), time);
    if (part !== store.part && part >= 0) {
      store.part = part;
      changed("part");
    }
  }
}

// Put a video on the stage, at a time; the segment there becomes the chosen one.
export function choose(place, time = store.times[place] || 0) {
  const other = place !== store.video || player.place < 0;
  store.video = place;
  store.range = null;
  store.part = partAt(current(), time);
  store.times[place] = time;
  player.open(place, current().there, time);
  if (other) {
    document.querySelector("main").scrollTo({ top: 0 });
    track.zoomTo(1, 0);
    setSpeed(Number(speed.value));
    store.rate = 25;
    if (current().there) ask(`api/about/${place}`).then((about) => { store.rate = about.rate; }).catch(() => {});
  }
  changed("part");
  show(time);
}

export function drawStage() {
  const video = current();
  name.textContent = video.name;
  checking.disabled = !video.there;
  checking.hidden = !store.data.learned;
  const whole = video.known?.some(([start, end]) => start <= 0 && end >= video.duration);
  right.hidden = !video.editable;
  right.setAttribute("aria-pressed", Boolean(whole));
  mistake.hidden = video.mistake === null;
  mistake.setAttribute("aria-pressed", Boolean(video.mistake));
  const report = store.checks.get(store.video) || video.check;
  track.draw(report);
  track.point(store.times[store.video] || 0, false);
  drawList(video);
  drawApart(video);
  drawFound(report);
  drawActs(video);
}

function drawList(video) {
  const held = list.contains(document.activeElement);
  list.replaceChildren(...video.parts.map(([start, end, number], place) => {
    const step = stepOf(number);
    const line = el("button", { type: "button", class: shines(number) ? "" : "dim", onclick: () => choose(store.video, start) },
      el("span", { class: "swatch", style: { background: step.colour } }), el("span", { class: "what", text: step.name }),
      el("span", { class: "when", text: `${clock(start)} – ${clock(end)}` }));
    if (place === store.part) line.setAttribute("aria-current", "true");
    return el("li", {}, line);
  }));
  const chosen = list.querySelector("[aria-current]");
  if (held) chosen?.focus();
  else chosen && list.scrollTo({ top: chosen.offsetTop - list.clientHeight / 2 });
}

function drawApart(video) {
  const there = differences(video);
  apart.hidden = !video.beside;
  if (apart.hidden) return;
  const words = there.length ? `${there.length} differences from ${store.data.beside} (D)` : `As in ${store.data.beside}`;
  apart.replaceChildren(el("p", { text: words }), el("ul", {}, ...there.map(([start, end, ours, theirs]) => el("li", {},
    el("button", { type: "button", onclick: () => choose(store.video, start) }, el("span", { class: "what", text: `${ours} ≠ ${theirs}` }),
      el("span", { class: "when", text: `${clock(start)} – ${clock(end)}` }))))));
}

// Go to the next of some stretches, which `list(video)` gives, in this video or a later one; after the last, to the first.
export function chooseNext(list) {
  const all = store.data.videos.flatMap((video, place) => list(video).map(([start]) => ({ place, start })));
  const next = all.find(({ place, start }) => place > store.video || (place === store.video && start > player.time + 0.05)) || all[0];
  if (next) choose(next.place, next.start);
}

function drawFound(report) {
  found.hidden = !report;
  if (!report) return;
  const lines = listFindings(report).map((each) => el("li", {}, el("button", { type: "button", onclick: () => seek(each.start) },
    el("span", { class: `finding ${each.kind}`, text: each.kind }), el("span", { class: "what", text: each.reason }),
    el("span", { class: "when", text: clock(each.start) }))));
  const steps = (report.steps || []).filter((step) => step.seen !== "seen").map((step) =>
    el("li", { class: "unseen", text: `${step.seen} (${Math.round(100 * step.probability)} %): ${step.name}` }));
  const power = report.ok ? [] : [el("p", { text: report.power })];  // else the summary has it
  const untaught = store.data.untaught ? [el("p", { text: `Note: ${store.data.untaught}` })] : [];
  found.replaceChildren(el("p", { class: report.ok ? "good" : "bad", text: report.summary }), ...power, ...untaught, el("ul", {}, ...lines, ...steps));
}

function drawActs(video) {
  const stretch = chosenStretch();
  acts.hidden = !video.editable || !stretch;
  if (acts.hidden) return;
  const part = video.parts[store.part];
  const of = store.range ? undefined : part?.[2];
  const which = el("select", { "aria-label": "Step of this stretch", onchange: () => mark(which.value === "" ? null : Number(which.value)) },
    ...(of === undefined ? [el("option", { text: "give it to …", value: "-", disabled: true, selected: true })] : []),
    ...store.data.steps.map((step) => el("option", { value: step.number, text: step.name, selected: step.number === of })),
    el("option", { value: "", text: "background (no step)" }));
  const words = store.range ? `Stretch ${clock(stretch[0])} – ${clock(stretch[1])}` : "This segment is";
  acts.replaceChildren(el("label", {}, el("span", { text: words }), which), el("div", { class: "buttons" },
    ...(store.range ? [] : [
      button("Start here", () => setEdge("start"), { title: "Move its start to the cursor (I)" }),
      button("End here", () => setEdge("end"), { title: "Move its end to the cursor (O)" }),
      button("Split here", () => cut(), { title: "Two segments of the same step, from the cursor on (S)" }),
      button("New step", () => split(false), { title: "What follows the cursor becomes a step of its own (N)" }),
      button("New step in all", () => split(true), { title: "The same in all videos, at the same share of the step" })]),
    button("Background", () => mark(null), { title: "No step is done here (B)" })));
}

function chosenStretch() {
  if (store.range) return store.range;
  const part = current().parts[store.part];
  return part ? [part[0], part[1]] : null;
}

// One edit of the video on the stage; nothing where it is one that is only shown.
const editVideo = (verb, more) => (current().editable ? edit({ do: verb, video: current().name, ...more }) : null);

export function mark(step) {
  const stretch = chosenStretch();
  if (stretch) editVideo("mark", { start: stretch[0], end: stretch[1], step })?.then(() => {
    store.range = null;
    store.part = partAt(current(), stretch[0]);
    changed("part");
  });
}

// Two segments where there was one; both keep the step, and the second is chosen.
export function cut() {
  const time = player.time;
  editVideo("cut", { time })?.then((done) => done && choose(store.video, time));
}

export const split = (everywhere) => editVideo("split", { time: player.time, everywhere });

// This video is right as it is: all of it counts as labelled from now on.
export const confirmVideo = () => editVideo("confirm");

// What this video shows is no measure of what is normal; or it is one again. Earlier checks went by another limit.
export function toggleMistake() {
  const video = current();
  if (video.mistake === null) return;
  edit({ do: "mistake", video: video.name, holds: !video.mistake }).then((done) => {
    if (done) store.checks.clear();
    changed("check");
  });
}

export function toBoundary(way) {
  const times = boundaries(current()).map((one) => one.time);
  const here = player.time;
  const to = way > 0 ? times.find((time) => time > here + 0.01) : times.findLast((time) => time < here - 0.01);
  if (to !== undefined) seek(to);
}

// Move the boundary at the cursor by one frame, and the cursor with it.
export function nudge(way) {
  const near = boundaries(current()).find((one) => Math.abs(one.time - player.time) < 1 / store.rate);
  if (!near || !current().editable) return;
  const time = clamp(near.time + way / store.rate, near.low, near.high);
  editVideo("move", { part: near.place, edge: near.edge, time }).then(() => seek(time));
}

export function setEdge(edge) {
  if (store.part >= 0) editVideo("move", { part: store.part, edge, time: player.time });
}

export async function runCheck() {
  const place = store.video;
  checking.disabled = true;
  const report = await check(place);
  if (report) store.checks.set(place, report);
  changed("check");
}

export const pauseStage = () => player.video.pause();
export const togglePlay = () => (player.video.paused ? player.play() : player.video.pause());
export const stageTime = () => player.time;

export function seek(time) {
  const to = clamp(time, 0, current().duration);
  player.seek(to);
  show(to);
}

export function frame(way) {
  player.video.pause();
  // To the middle of the frame: a time on its border may show either neighbour.
  seek((Math.floor(player.time * store.rate + 1e-3) + way + 0.5) / store.rate);
}

export function hop(way) {
  const { parts } = current();
  const time = player.time;
  const starts = parts.map((part) => part[0]);
  const place = way > 0 ? starts.findIndex((start) => start > time + 0.05) : starts.findLastIndex((start) => start < time - 0.3);
  if (place >= 0) choose(store.video, starts[place]);
}

export function zoom(by) {
  track.zoomTo(by ? track.zoom * by : 1, player.time);
}

export function toggleLoop() {
  store.loop = !store.loop;
  loop.setAttribute("aria-pressed", store.loop);
}

export function setSpeed(rate) {
  speed.value = rate;
  player.video.defaultPlaybackRate = player.video.playbackRate = rate;
}

export function changeSpeed(way) {
  setSpeed(SPEEDS[clamp(SPEEDS.indexOf(Number(speed.value)) + way, 0, SPEEDS.length - 1)]);
}
