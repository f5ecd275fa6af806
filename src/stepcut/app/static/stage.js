// The stage: the selected video with controls, timeline and segments.

import { listFindings } from "./bar.js";
import { ask, work } from "./api.js";
import { button, clamp, clockIn, el, icon, iconButton, readTime } from "./dom.js";
import { moveCursor } from "./grid.js";
import { learnAfter } from "./queue.js";
import { adopt } from "./teach.js";
import { Player } from "./player.js";
import { changed, current, differences, edit, isConfirmed, kappa, load, partAt, recall, remember, reportOf, say,
  shines, stepOf, store } from "./store.js";
import { S } from "./strings.js";
import { boundaries, Track } from "./track.js";

const SPEEDS = [0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4];
const player = new Player(S.theVideo, { muted: false });
const track = new Track({ onpick: (time) => choose(store.video, time),
  onseek: (time) => seek(time) });
const name = el("h2", {});
const now = el("input", { class: "now", "aria-label": S.time, title: S.timeTitle, size: 8,
  onkeydown: (event) => goToTyped(event), onblur: () => show(player.time) });
const total = el("span", { class: "total" });
const list = el("ol", { class: "segments", "aria-label": S.segmentsLabel });
const found = el("div", { class: "found" });
const apart = el("div", { class: "found apart" });
const acts = el("div", { class: "segment-acts" });
const speed = el("select", { "aria-label": S.speed, title: S.speedTitle,
  onchange: () => setSpeed(Number(speed.value)) },
  ...SPEEDS.map((rate) => el("option", { value: rate, text: `${rate} ×`, selected: rate === 1 })));
const playing = iconButton("play", S.play, () => togglePlay(), "Space");
const loop = iconButton("loop", S.loop, () => toggleLoop(), "R");
const subtitles = iconButton("words", S.subtitles, () => toggleSubtitles(), "H");
const sound = iconButton("sound", S.mute, () => toggleSound(), "V");
const volume = el("input", { type: "range", class: "volume", min: 0, max: 1, step: 0.05,
  "aria-label": S.volume, oninput: () => setVolume(Number(volume.value), false) });
const right = button(S.confirm, () => confirmVideo(), { title: S.confirmTitle });
const mistake = button(S.mistake, () => toggleMistake(), { title: S.mistakeTitle });
const adopting = button(S.adopt, () => adopt({ keys: [current().key] }), { title: S.adoptTitle });
const checking = button(S.check, () => runCheck(), { title: S.checkTitle });

let drawn = null; // the video whose segments are listed
let backwards = 0; // speed

store.loop = false;
store.rate = 25; // frames per second of the selected video

export function buildStage() {
  loop.setAttribute("aria-pressed", "false");
  const full = iconButton("full", S.fullScreen, () => toggleFull(), "F");
  full.hidden = !document.fullscreenEnabled;
  const transport = el("div", { class: "transport", role: "toolbar", "aria-label": S.playingLabel },
    iconButton("previous", S.previousSegment, () => hop(-1), "↑"),
      iconButton("back", S.frameBack, () => frame(-1), ","),
    playing, iconButton("on", S.frameOn, () => frame(1), "."),
      iconButton("next", S.nextSegment, () => hop(1), "↓"),
    now, total, loop, speed, sound, volume, subtitles, full,
    el("span", { class: "gap" }), right,
    iconButton("minus", S.zoomOut, () => zoom(0.67), "−"),
      iconButton("plus", S.zoomIn, () => zoom(1.5), "+"));
  // A click on a button leaves the focus where it is, so that Enter goes on to the next.
  for (const node of [transport, acts]) node.addEventListener("mousedown", (event) =>
    event.target.closest("button") && event.preventDefault());
  document.getElementById("stage").append(el("div", { class: "left" }, player.node),
    el("div", { class: "right" }, el("div", { class: "row head" }, name, mistake, checking, adopting), list, apart, found, acts), transport, track.node);
  subtitles.setAttribute("aria-pressed", recall("subtitles", true));
  setVolume(recall("volume", 1), recall("muted", false));
  const icons = { true: icon("play"), false: icon("pause") };
  player.onevent = (event) => {
    if (event === "seeked" || event === "timeupdate") {
      show(player.time);
      return;
    }
    playing.replaceChildren(icons[player.paused]);
    playing.setAttribute("aria-label", player.paused ? S.play : S.pause);
    if (event === "play") requestAnimationFrame(follow);
  };
  for (const node of [player.video, player.canvas]) node.addEventListener("click",
    () => togglePlay());
  window.addEventListener("resize", () => track.drawRuler());
}

function follow() {
  if (player.paused) return;
  const part = store.loop && current().parts[store.part];
  if (part && (player.time >= part[1] - 0.01 || player.time < part[0] - 0.5)) player.seek(part[0]);
  show(player.time);
  requestAnimationFrame(follow);
}

function show(time) {
  store.times.set(current().key, time);
  track.point(time, !player.paused);
  player.moveLine();
  moveCursor(store.video, time);
  if (document.activeElement !== now) now.value = clockIn(current(), time);
  const copy = player.copied ? ` · ${S.copyShown}` : "";
  total.textContent = `/ ${clockIn(current(), current().duration)} · #${Math.floor(
    (current().offset + time) * store.rate + 1e-3)}${copy}`;
  total.title = copy && S.copyShownTitle;
  const words = subtitles.ariaPressed === "true" && partAt(current(), time);
  player.showWords(words >= 0 ? stepOf(current().parts[words]?.[2])?.name ?? "" : "");
  if (!store.loop && !player.paused) {
    const part = partAt(current(), time);
    if (part !== store.part && part >= 0) {
      store.part = part;
      changed("part");
    }
  }
}

store.addEventListener("goto", ({ detail }) =>
  choose(store.data.videos.findIndex(({ name }) => name === detail)));

// Show a video at a time, and select the segment there.
export function choose(place, time = store.times.get(store.data.videos[place].key) || 0) {
  const other = store.data.videos[place].key !== player.key;
  store.video = place;
  store.range = null;
  store.part = partAt(current(), time);
  store.times.set(current().key, time);
  player.open(current(), time);
  if (other) {
    showStage();
    track.zoomTo(1, 0);
    setSpeed(Number(speed.value));
    store.rate = 25;
    if (current().there) ask(`api/about/${current().key}`)
      .then((about) => { store.rate = about.rate; }).catch(() => {});
  }
  changed("part");
  show(time);
}

// Scroll to the video; on a phone, the whole page scrolls.
function showStage() {
  document.getElementById("main").scrollTo(0, 0);
  const stage = document.getElementById("stage");
  const { top } = stage.getBoundingClientRect();
  if (top < 0 || top > window.innerHeight / 2) stage.scrollIntoView();
}

// During playback only the selected segment changes, so only that is redrawn.
export function drawStage(what) {
  const video = current();
  const same = what === "part" && video === drawn;
  drawn = video;
  name.textContent = video.name;
  checking.disabled = !video.there;
  checking.hidden = !store.data.learned;
  const whole = isConfirmed(video);
  right.hidden = !video.editable;
  adopting.hidden = video.editable || !store.data.learned;
  right.textContent = whole ? S.confirmed : S.confirm;
  right.title = whole ? S.unconfirmTitle : S.confirmTitle;
  right.setAttribute("aria-pressed", whole);
  mistake.hidden = video.mistake === null;
  mistake.setAttribute("aria-pressed", Boolean(video.mistake));
  const report = reportOf(video);
  track.draw(report, same);
  track.point(store.times.get(video.key) || 0, false);
  if (!same) {
    list.replaceChildren(...video.parts.map(segmentLine));
    drawApart(video);
    drawFound(report);
  }
  chooseLine();
  drawActs(video);
}

const fromTo = (start, end) => `${clockIn(current(), start)} – ${clockIn(current(), end)}`;

function segmentLine([start, end, number]) {
  const step = stepOf(number);
  return el("li", {}, el("button", { type: "button", class: shines(number) ? "" : "dim",
    onclick: () => choose(store.video, start) },
    el("span", { class: "swatch", style: { background: step.colour } }),
      el("span", { class: "what", text: step.name }),
    el("span", { class: "when", text: fromTo(start, end) })));
}

function chooseLine() {
  const held = list.contains(document.activeElement);
  list.querySelector("[aria-current]")?.removeAttribute("aria-current");
  const chosen = list.children[store.part]?.firstChild;
  chosen?.setAttribute("aria-current", "true");
  if (held) chosen?.focus();
  else if (chosen) list.scrollTo({ top: chosen.offsetTop - list.clientHeight / 2 });
}

function drawApart(video) {
  const there = differences(video);
  apart.hidden = !video.beside;
  if (apart.hidden) return;
  const words = there.length ? S.differences(there.length, store.data.beside)
    : S.sameAs(store.data.beside);
  apart.replaceChildren(el("p", { text: `${words} · ${S.kappa(kappa(video))}` }), el("ul", {},
    ...there.map(([start, end, ours, theirs]) => el("li", {},
    el("button", { type: "button", onclick: () => choose(store.video, start) },
      el("span", { class: "what", text: `${ours} ≠ ${theirs}` }),
      el("span", { class: "when", text: fromTo(start, end) }))))));
}

// Go to the next interval of `list(video)` in this or a later video, or to the first.
export function chooseNext(list) {
  const all = store.data.videos.flatMap((video, place) => list(video)
    .map(([start]) => ({ place, start })));
  const next = all.find(({ place, start }) => place > store.video
    || (place === store.video && start > player.time + 0.05)) || all[0];
  if (next) choose(next.place, next.start);
}

function drawFound(report) {
  found.hidden = !report;
  if (!report) return;
  const lines = listFindings(report).map((each) => el("li", {},
    el("button", { type: "button", onclick: () => seek(each.start) },
    el("span", { class: `finding ${each.kind}`, text: S.findings[each.kind] }),
      el("span", { class: "what", text: each.reason }),
    el("span", { class: "when", text: clockIn(current(), each.start) }))));
  const steps = (report.steps || []).filter((step) => step.seen && step.seen !== "seen")
    .map((step) =>
    el("li", { class: "unseen", text: S.unseen(step, S.percent(step.probability ?? 0)) }));
  // the summary of a good video contains it
  const power = report.summary.includes(report.power || "") ? [] : [el("p", { text: report.power })];
  const untaught = store.data.untaught ? [el("p", { text: S.noteOf(store.data.untaught) })] : [];
  found.replaceChildren(el("p", { class: report.ok ? "good" : "bad", text: report.summary }),
    ...power, ...untaught, el("ul", {}, ...lines, ...steps));
}

function drawActs(video) {
  const stretch = chosenStretch();
  acts.hidden = !video.editable || !stretch;
  if (acts.hidden) return;
  const part = video.parts[store.part];
  const of = store.range ? undefined : part?.[2];
  const which = el("select", { "aria-label": store.range ? S.stretchOf : S.segmentIs,
    onchange: () => mark(which.value === "" ? null : Number(which.value)) },
    ...(of === undefined ? [el("option", { text: S.giveTo, value: "-", disabled: true,
      selected: true })] : []),
    ...store.data.steps.map((step) => el("option", { value: step.number, text: step.name,
      selected: step.number === of })),
    el("option", { value: "", text: S.background }));
  const words = store.range ? S.stretch(...stretch.map((time) => clockIn(current(), time))) : "";
  const typed = store.range ? [] : ["start", "end"].map((edge, at) => typedEdge(edge, stretch[at]));
  acts.replaceChildren(el("div", { class: "row" },
    el("label", {}, el("span", { text: words }), which), ...typed),
    el("div", { class: "buttons" },
    ...(store.range ? [] : [
      button(S.startHere, () => setEdge("start"), { title: S.startHereTitle }),
      button(S.endHere, () => setEdge("end"), { title: S.endHereTitle }),
      button(S.splitHere, () => splitSegment(), { title: S.splitHereTitle }),
      button(S.newStep, () => split(false), { title: S.newStepHere }),
      button(S.newStepAll, () => split(true), { title: S.newStepAllTitle })]),
    button(S.makeBackground, () => mark(null), { title: S.makeBackgroundTitle }),
    button(S.copy, () => copySegments(), { title: S.copyTitle }),
    button(S.paste, () => pasteSegments(), { title: S.pasteTitle })));
}

// The start or end of the segment as a field: a time, or a frame.
function typedEdge(edge, time) {
  const field = el("input", { size: 7, value: clockIn(current(), time, 2), title: S.timeTitle,
    "aria-label": S.edges[edge], onchange: () => {
      const to = readTime(field.value, store.rate);
      if (to === null) say(S.noTime(field.value), true);
      else moveEdge(edge, clamp(to - current().offset, 0, current().duration));
      if (to === null) field.value = clockIn(current(), time, 2);
    } });
  return field;
}

function chosenStretch() {
  if (store.range) return store.range;
  const part = current().parts[store.part];
  return part ? [part[0], part[1]] : null;
}

// Edit the selected video, if it is editable.
const editVideo = (verb, more) => (current().editable ? edit({ do: verb, video: current().name,
  ...more }) : null);

export function mark(step) {
  const stretch = chosenStretch();
  if (stretch) editVideo("mark", { start: stretch[0], end: stretch[1], step })?.then(() => {
    store.range = null;
    store.part = partAt(current(), stretch[0]);
    changed("part");
  });
}

// Split a segment; both halves keep the step, and the second is selected.
export function splitSegment() {
  const video = current();
  const part = video.parts.find(([start, end]) => start <= player.time && player.time < end)
    || video.parts[store.part];
  if (!part) {
    say(S.noSegmentHere, true);
    return;
  }
  const [start, end] = part;
  const inside = player.time - start > 0.05 && end - player.time > 0.05;
  const time = inside ? player.time : (start + end) / 2; // at the border, split in the middle
  editVideo("cut", { time })?.then((done) => done && choose(store.video, time));
}

export const split = (everywhere) => editVideo("split", { time: player.time, everywhere });

// Confirm the video: all of it counts as labelled; or take that back.
export function confirmVideo() {
  const holds = !isConfirmed(current());
  editVideo("confirm", holds ? {} : { holds })?.then((done) => done && holds && learnAfter());
}

let copied = [];

// Copy the selected segment, or those of the range.
export function copySegments() {
  const stretch = chosenStretch();
  if (!stretch) return say(S.noSegmentHere, true);
  const [from, to] = stretch;
  copied = current().parts.filter(([start, end]) => start < to && end > from)
    .map(([start, end, step]) => ({ step, start: Math.max(start, from) - from,
      end: Math.min(end, to) - from }));
  return say(S.copied(copied.length));
}

// Put the copied segments at the cursor of this video.
export function pasteSegments() {
  if (!copied.length) say(S.nothingCopied, true);
  const { time } = player;
  for (const { start, end, step } of copied) {
    const last = Math.min(time + end, current().duration);
    if (time + start < last && stepOf(step)) editVideo("mark", { start: time + start, end: last,
      step });
  }
}

// Exclude the video from the reference set, or include it again.
export function toggleMistake() {
  const video = current();
  if (video.mistake === null) return;
  edit({ do: "mistake", video: video.name, holds: !video.mistake });
}

export function toBoundary(way) {
  const times = boundaries(current()).map((one) => one.time);
  const here = player.time;
  const to = way > 0 ? times.find((time) => time > here + 0.01)
    : times.findLast((time) => time < here - 0.01);
  if (to !== undefined) seek(to);
}

// Move the boundary at the cursor, and the cursor, by one frame.
export function nudge(way) {
  const near = boundaries(current())
    .find((one) => Math.abs(one.time - player.time) < 1 / store.rate);
  if (!near || !current().editable) return;
  const time = clamp(near.time + way / store.rate, near.low, near.high);
  editVideo("move", { part: near.place, edge: near.edge, time }).then(() => seek(time));
}

const moveEdge = (edge, time) => store.part >= 0
  && editVideo("move", { part: store.part, edge, time });
export const setEdge = (edge) => moveEdge(edge, player.time);

export async function runCheck() {
  if (checking.disabled || !store.data.learned) return;
  const { key, name: checked } = current();
  checking.disabled = true;
  say(S.checking);
  try {
    const { result } = await work("api/check", { keys: [key] });
    await load();
    const failed = Object.values(result.failed)[0];
    const report = store.data.videos.find((video) => video.check && video.name === checked)?.check;
    say(failed || report?.summary || "", Boolean(failed) || !report?.ok);
  } catch (error) {
    say(error.message, true);
  }
  checking.disabled = !current().there;
}

export const pauseStage = () => player.pause();
export const togglePlay = () => (player.paused && !backwards ? player.play() : stop());

function stop() {
  backwards = 0;
  player.pause();
}

// Play on (1), backwards (-1) or pause (0); once more is faster.
export function shuttle(way) {
  if (way < 0) {
    player.pause();
    backwards = Math.min(2 * backwards || 1, 8);
    if (backwards === 1) requestAnimationFrame((began) => rewind(player.time, began));
  } else if (!way) stop();
  else if (backwards || player.paused) {
    backwards = 0;
    player.play();
  } else setSpeed(Math.min(2 * Number(speed.value), 4));
}

// Browsers play forward only.
function rewind(from, began, now = began) {
  if (!backwards) return;
  const to = from - (backwards * (now - began)) / 1000;
  goTo(to);
  if (to <= 0) stop();
  else requestAnimationFrame((later) => rewind(to, now, later));
}

function goToTyped(event) {
  if (event.key === "Escape") now.blur();
  if (event.key !== "Enter") return;
  const time = readTime(now.value, store.rate);
  if (time === null) say(S.noTime(now.value), true);
  else choose(store.video, clamp(time - current().offset, 0, current().duration));
  now.blur();
}

export function toggleSubtitles() {
  remember("subtitles", subtitles.ariaPressed !== "true");
  subtitles.ariaPressed = subtitles.ariaPressed !== "true";
  show(player.time);
}

export const toggleSound = () => setVolume(Number(volume.value) || 1, !player.video.muted);

function setVolume(loud, muted) {
  Object.assign(player.video, { volume: loud, muted: muted || !loud });
  volume.value = loud;
  sound.replaceChildren(icon(player.video.muted ? "silent" : "sound"));
  sound.ariaLabel = player.video.muted ? S.unmute : S.mute;
  remember("volume", loud);
  remember("muted", muted);
}

export function toggleFull() {
  if (document.fullscreenElement) document.exitFullscreen();
  else document.getElementById("stage").requestFullscreen?.().catch(() => {});
}
export const playStage = () => player.play();
export const stageTime = () => player.time;
export const stageSpeed = () => (player.paused ? 0.01 : Number(speed.value)); // no reaction time

export function seek(time) {
  backwards = 0;
  goTo(time);
}

function goTo(time) {
  const to = clamp(time, 0, current().duration);
  player.seek(to);
  show(to);
}

export function frame(way) {
  stop();
  // Seek to the middle of the frame: its border may show either neighbour.
  seek((Math.floor(player.time * store.rate + 1e-3) + way + 0.5) / store.rate);
}

export function hop(way) {
  const { parts } = current();
  const time = player.time;
  const starts = parts.map((part) => part[0]);
  const place = way > 0 ? starts.findIndex((start) => start > time + 0.05)
    : starts.findLastIndex((start) => start < time - 0.3);
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
  player.setRate(rate);
}

export function changeSpeed(way) {
  setSpeed(SPEEDS[clamp(SPEEDS.indexOf(Number(speed.value)) + way, 0, SPEEDS.length - 1)]);
}
