// What the page knows: the document as the server holds it, and what is chosen on the page. One copy, one event.

import { ask } from "./api.js";
import { S } from "./strings.js";

export const store = new EventTarget();
Object.assign(store, {
  data: null,
  video: 0, // the place of the video on the stage
  part: -1, // the chosen segment of it
  range: null, // a stretch chosen on the ruler: [start, end]
  filter: new Set(), // numbers of the steps to show; all when empty
  query: "",
  times: new Map(), // where each video stands, in seconds, by its key
  tapping: false,
  view: "correct", // the tab
  pending: null, // saves a boundary that is being moved by keys; other keys wait for it
});

export function changed(what) {
  store.dispatchEvent(new CustomEvent("change", { detail: what }));
}

// Go to a tab; views.js hears it.
export function showView(name) {
  location.hash = `#/${name}`;
}

export function stepOf(number) {
  return store.data.steps.find((step) => step.number === number);
}

export function current() {
  return store.data.videos[store.video];
}

// Whether a step is shown in full: it passes the filter and its name holds what is searched for.
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

// What a check found in a video: its own report, or, of one that was learned from, the last check of the same file.
export function reportOf(video) {
  return video.check || store.data.videos.find((each) => each.check && each.name === video.name)?.check || null;
}

// Where two timelines of a video say different things, for half a second or more: [start, end, ours, theirs].
export function differences(video) {
  if (!video.beside) return [];
  const edges = [0, video.duration, ...video.parts.flatMap((part) => part.slice(0, 2)), ...video.beside.flatMap((part) => part.slice(0, 2))];
  const times = [...new Set(edges)].filter((time) => time >= 0 && time <= video.duration).sort((a, b) => a - b);
  const found = [];
  times.slice(1).forEach((end, place) => {
    const start = times[place];
    const middle = (start + end) / 2;
    const holds = (part) => part[0] <= middle && middle < part[1];
    const mine = video.parts.find(holds)?.[2];
    const other = video.beside.find(holds);
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

let waiting = Promise.resolve();
export const settled = () => waiting; // when every edit so far is answered

// Edits go one after another: each names the revision that the one before it made.
export function send(verb, body) {
  waiting = waiting.then(async () => {
    try {
      const answer = await ask(`api/${verb}`, { revision: store.data.revision, ...body });
      take(answer.state);
      say(answer.error || `${S.past[verb]}: ${answer.words}`, Boolean(answer.error));
      return !answer.error;
    } catch (error) {
      say(error.message, true);
      changed("data"); // show again what stands
      return false;
    }
  });
  return waiting;
}

export const edit = (change) => send("edit", { edit: change });
export const undo = () => store.data.undo && send("undo", {});
export const redo = () => store.data.redo && send("redo", {});

export function say(words, bad = false) {
  const status = document.getElementById("status");
  status.textContent = words;
  status.classList.toggle("bad", bad);
}
