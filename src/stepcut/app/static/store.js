// State of the page: the document of the server and the selection, with one change event.

import { ask } from "./api.js";
import { S } from "./strings.js";

export const store = new EventTarget();
Object.assign(store, {
  data: null,
  video: 0, // index of the selected video
  part: -1, // index of the selected segment
  range: null, // range selected on the ruler: [start, end]
  ticked: new Set(), // keys of the videos to confirm together
  filter: new Set(), // step numbers to show; empty for all
  query: "",
  times: new Map(), // position of each video in seconds, by key
  tapping: false,
  view: "correct", // the tab
  learning: false, // whether proposals are refreshed in the background
  pending: null, // saves a boundary that is being moved by keys
});

export function changed(what) {
  store.dispatchEvent(new CustomEvent("change", { detail: what }));
}

// Show a video; stage.js listens.
export function goTo(name) {
  store.dispatchEvent(new CustomEvent("goto", { detail: name }));
}

// Go to a tab; views.js listens.
export function showView(name) {
  location.hash = `#/${name}`;
}

export function stepOf(number) {
  return store.data.steps.find((step) => step.number === number);
}

export function current() {
  return store.data.videos[store.video];
}

// Whether a step passes the filter and the search.
export function shines(number) {
  if (store.filter.size && !store.filter.has(number)) return false;
  return !store.query || matches(stepOf(number).name);
}

export function matches(name) {
  return name.toLowerCase().includes(store.query.toLowerCase());
}

export function partAt(video, time) {
  return video.parts.findIndex(([start, end]) => start <= time && time < end);
}

export const isConfirmed = (video) => Boolean(video.annotated?.some(([start, end]) =>
  start <= 0.01 && end >= video.duration - 0.01));

// The segments that nobody annotated: the least certain first.
const uncertain = new WeakMap();
export function doubts(video) {
  if (!uncertain.has(video)) {
    const open = video.parts.filter(([start, end, , sure]) => sure !== null
      && !video.annotated?.some(([from, to]) => from <= start && end <= to));
    uncertain.set(video, open.map(([time, end, , sure]) => ({ time, end, doubt: 1 - sure }))
      .sort((one, other) => other.doubt - one.doubt));
  }
  return uncertain.get(video);
}

// Report of a checked video, or of the last check of a training video.
export function reportOf(video) {
  return video.check || store.data.videos.find((each) => each.check
    && each.name === video.name)?.check || null;
}

// Intervals in which neither of two timelines changes: start, end, our step, their segment.
function sections(video) {
  const edges = [0, video.duration, ...video.parts.flatMap((part) => part.slice(0, 2)),
    ...video.beside.flatMap((part) => part.slice(0, 2))];
  const times = [...new Set(edges)].filter((time) => time >= 0 && time <= video.duration)
    .sort((a, b) => a - b);
  return times.slice(1).map((end, place) => {
    const start = times[place];
    const middle = (start + end) / 2;
    const holds = (part) => part[0] <= middle && middle < part[1];
    return { start, end, mine: video.parts.find(holds)?.[2], other: video.beside.find(holds) };
  });
}

// Cohen's kappa over time, with background: 1 is full agreement, 0 what chance gives.
export function kappa(video) {
  const [ours, theirs] = [new Map(), new Map()];
  let same = 0;
  const add = (all, key, seconds) => all.set(key, (all.get(key) ?? 0) + seconds / video.duration);
  for (const { start, end, mine, other } of sections(video)) {
    const [one, two] = [mine ?? null, other ? other[5] ?? other[2] : null];
    add(ours, one, end - start);
    add(theirs, two, end - start);
    if (one === two) same += (end - start) / video.duration;
  }
  const chance = [...ours].reduce((sum, [key, value]) => sum + value * (theirs.get(key) ?? 0), 0);
  return chance < 1 - 1e-9 ? (same - chance) / (1 - chance) : 1;
}

// Intervals of at least half a second in which two timelines differ: [start, end, ours, theirs].
export function differences(video) {
  if (!video.beside) return [];
  const found = [];
  sections(video).forEach(({ start, end, mine, other }) => {
    if (other ? other[5] === mine : mine === undefined) return;
    const ours = stepOf(mine)?.name ?? S.noStep;
    const theirs = other?.[2] ?? S.noStep;
    const last = found.at(-1);
    if (last && last[1] === start && last[2] === ours && last[3] === theirs) last[1] = end;
    else found.push([start, end, ours, theirs]);
  });
  return found.filter(([start, end]) => end - start >= 0.5);
}

export async function load() {
  take(await ask("api/state"));
}

export function take(data) {
  const key = store.data && current()?.key;
  store.data = data;
  const same = data.videos.findIndex((video) => video.key === key);
  store.video = same >= 0 ? same : Math.max(0, Math.min(store.video, data.videos.length - 1));
  if (store.part >= current().parts.length) store.part = -1;
  for (const number of store.filter) if (!stepOf(number)) store.filter.delete(number);
  changed("data");
}

// Edits that name a time or a step, not a place among segments that may have moved.
const LASTING = new Set(["onset", "click", "mark", "confirm", "mistake", "rename", "colour", "add",
  "cut", "note"]);

let waiting = Promise.resolve();
export const settled = () => waiting; // resolves when all edits are answered

// Edits are sent in sequence: each names the revision of the one before.
export function send(verb, body) {
  waiting = waiting.then(async () => {
    try {
      const request = () => ask(`api/${verb}`, { revision: store.data.revision, ...body });
      let answer = await request();
      take(answer.state);
      // only the proposals of other videos are new: nothing that was typed is lost
      if (answer.error && store.learning && LASTING.has(body.edit?.do)) {
        answer = await request();
        take(answer.state);
      }
      say(answer.error || `${S.past[verb]}: ${answer.words}`, Boolean(answer.error));
      return !answer.error;
    } catch (error) {
      say(error.message, true);
      changed("data"); // redraw the saved state
      return false;
    }
  });
  return waiting;
}

export const edit = (change) => send("edit", { edit: change });
export const undo = () => store.data.undo && send("undo", {});
export const redo = () => store.data.redo && send("redo", {});

// Choices of this browser, such as the volume.
export function recall(name, usual) {
  try {
    return JSON.parse(localStorage.getItem(`stepcut ${name}`)) ?? usual;
  } catch {
    return usual; // storage is switched off, or not ours
  }
}

export function remember(name, value) {
  try {
    localStorage.setItem(`stepcut ${name}`, JSON.stringify(value));
  } catch {
    // the choice lasts until the page is closed
  }
}

const STAYS = { true: 30_000, false: 10_000 }; // milliseconds that bad and good news is shown
let leaving = null;

export function say(words, bad = false) {
  const status = document.getElementById("status");
  clearTimeout(leaving);
  if (words) leaving = setTimeout(() => say(""), STAYS[bad]);
  status.textContent = words;
  status.classList.toggle("bad", bad);
}
