// One step in all videos, side by side.

import { clockIn, el, iconButton } from "./dom.js";
import { Player } from "./player.js";
import { choose, pauseStage } from "./stage.js";
import { changed, stepOf, store } from "./store.js";
import { S } from "./strings.js";

const place = () => document.getElementById("compare");
let tiles = [];
let playing = true;
let speed = 1;
let watcher = null;
let ticking = 0;
let shown = -1; // the number of the step

export function compareStep(number) {
  leaveCompare();
  pauseStage();
  const step = stepOf(number);
  shown = number;
  const having = store.data.videos.flatMap((video, index) => {
    const parts = video.parts.filter((part) => part[2] === number);
    return parts.length ? [{ video, index, parts }] : [];
  });
  playing = true;
  tiles = having.map(makeTile);
  // Load and play only visible videos, to keep the page responsive.
  watcher = new IntersectionObserver((seen) => seen.forEach(({ target, isIntersecting }) => {
    const tile = tiles.find((each) => each.node === target);
    if (isIntersecting) wake(tile);
    else tile.player.close();
  }), { rootMargin: "100px" });
  const pause = iconButton("pause", S.pauseAll, () => setPlaying(!playing, pause));
  const rates = el("select", { "aria-label": S.speed, onchange: () =>
    setSpeed(Number(rates.value)) },
    ...[0.25, 0.5, 1, 2, 4].map((rate) => el("option", { value: rate, text: `${rate} ×`,
      selected: rate === speed })));
  const without = store.data.videos.length - having.length;
  place().replaceChildren(
    el("div", { class: "top" },
      el("span", { class: "swatch", style: { background: step.colour } }),
      el("h2", { text: step.name }),
      el("p", { text: S.inVideos(having.length, store.data.videos.length, without) }),
      el("div", { class: "tools" }, pause, iconButton("previous", S.allFromStart, () =>
        tiles.forEach(toStart)),
        rates, iconButton("close", S.backToVideo, leaveCompare, "Esc"))),
    el("div", { class: "tiles" }, ...tiles.map((tile) => tile.node)));
  show(true);
  tiles.forEach((tile) => watcher.observe(tile.node));
  ticking = requestAnimationFrame(tick);
  pause.focus();
}

export function leaveCompare() {
  const left = comparing();
  watcher?.disconnect();
  cancelAnimationFrame(ticking);
  tiles.forEach((tile) => tile.player.close());
  tiles = [];
  show(false);
  if (left) changed("part"); // show edits made meanwhile
}

// Show a new name and colour while the videos keep playing.
export function refreshCompare() {
  const step = stepOf(shown);
  if (!step) leaveCompare();
  else {
    place().querySelector("h2").textContent = step.name;
    place().querySelector(".swatch").style.background = step.colour;
  }
}

export const comparing = () => !place().hidden;

function show(on) {
  place().hidden = !on;
  document.getElementById("stage").hidden = on;
  for (const id of ["queue", "grid"]) document.getElementById(id).hidden = on;
}

function makeTile({ video, index, parts }) {
  const player = new Player(video.name, { brief: true });
  const line = el("div", { class: "line" });
  const when = el("span", { class: "when" });
  const tile = { player, parts, at: 0, index, line, when, video };
  const name = el("button", { class: "quiet", title: S.showVideo(video.name), type: "button",
    onclick: () => { const [start] = tile.parts[tile.at]; leaveCompare(); choose(index, start); } },
      el("bdi", { text: video.name }));
  const row = el("div", { class: "row" }, name, when);
  if (parts.length > 1) row.append(iconButton("on", S.nextTime, () => {
    tile.at = (tile.at + 1) % parts.length;
    toStart(tile);
  }));
  tile.node = el("article", { class: "tile" }, player.node, line, row);
  label(tile);
  return tile;
}

function wake(tile) {
  tile.player.setRate(speed);
  tile.player.open(tile.video, tile.parts[tile.at][0]);
  if (playing) tile.player.play();
}

function toStart(tile) {
  label(tile);
  tile.player.seek(tile.parts[tile.at][0]);
}

function label(tile) {
  const [start, end] = tile.parts[tile.at];
  const count = tile.parts.length > 1 ? S.ofTimes(tile.at + 1, tile.parts.length) : "";
  tile.when.textContent = `${clockIn(tile.video, start)} – ${clockIn(tile.video, end)}${count}`;
}

function setPlaying(on, button) {
  playing = on;
  const fresh = iconButton(on ? "pause" : "play", on ? S.pauseAll : S.playAll,
    () => setPlaying(!playing, fresh));
  button.replaceWith(fresh);
  fresh.focus();
  for (const { player } of tiles) {
    if (on) player.play();
    else player.pause();
  }
}

function setSpeed(rate) {
  speed = rate;
  for (const { player } of tiles) player.setRate(rate);
}

function tick() {
  for (const tile of tiles) {
    const [start, end] = tile.parts[tile.at];
    const time = tile.player.time;
    if (tile.player.key !== null && (time >= end - 0.02
      || time < start - 0.5)) tile.player.seek(start);
    const done = (100 * (time - start)) / (end - start);
    tile.line.style.width = `${Math.min(Math.max(done, 0), 100)}%`;
  }
  ticking = requestAnimationFrame(tick);
}
