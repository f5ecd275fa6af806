// Copies of videos that this browser cannot play, requested when the page opens.

import { ask, isOpen, pause } from "./api.js";
import { current } from "./store.js";
import { S } from "./strings.js";

const tester = document.createElement("video");
const CODECS = {
  h264: 'video/mp4; codecs="avc1.42E01E"', hevc: 'video/mp4; codecs="hvc1.1.6.L93.B0"',
    av1: 'video/mp4; codecs="av01.0.05M.08"',
  vp8: 'video/webm; codecs="vp8"', vp9: 'video/webm; codecs="vp9"',
};

export const copies = new EventTarget();
Object.assign(copies, {
  kind: tester.canPlayType(CODECS.h264) ? "mp4" : "webm",
  needed: new Set(), ready: new Set(), begun: new Set(), failed: new Map(),
  share: null, // progress of the current job
});

const codecs = Object.keys(CODECS).filter((name) => tester.canPlayType(CODECS[name]));
const forced = new Set();
let running = null;

// Whether a video needs a copy; `now`: the browser has just failed to play it.
export function needCopy(key, now = false) {
  if (now && !copies.needed.has(key)) {
    copies.needed.add(key);
    forced.add(key);
    prepareCopies(() => {});
  }
  return copies.needed.has(key);
}

// Request all copies, and report progress to `say(text, bad)`.
export function prepareCopies(say) {
  running = (running || Promise.resolve()).then(() => make(say))
    .catch((error) => say(error.message, true));
  return running;
}

async function make(say) {
  const body = { kind: copies.kind, codecs, videos: [...forced], stage: current().key };
  let job = await take(body);
  if (!job) return;
  while (job && isOpen(job)) {
    copies.share = job.share;
    say(S.copiesComing(copies.ready.size, copies.needed.size));
    copies.dispatchEvent(new Event("change"));
    await pause(500);
    job = await take(body);
  }
  copies.share = null;
  copies.dispatchEvent(new Event("change"));
  say(copies.failed.size ? [...copies.failed.values()][0] : S.copiesDone, copies.failed.size > 0);
}

// Update the state of copies; returns the running job.
async function take(body) {
  const { needed, ready, begun, failed, job } = await ask("api/copies", body);
  copies.needed = new Set(needed);
  copies.ready = new Set(ready);
  copies.begun = new Set(begun);
  copies.failed = new Map(Object.entries(failed));
  copies.dispatchEvent(new Event("change"));
  return job;
}
