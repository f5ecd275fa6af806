// Copies of the videos that this browser cannot play: asked for once, for all videos, when the page opens.

import { ask, isOpen, pause } from "./api.js";
import { S } from "./strings.js";

const tester = document.createElement("video");
const CODECS = {
  h264: 'video/mp4; codecs="avc1.42E01E"', hevc: 'video/mp4; codecs="hvc1.1.6.L93.B0"', av1: 'video/mp4; codecs="av01.0.05M.08"',
  vp8: 'video/webm; codecs="vp8"', vp9: 'video/webm; codecs="vp9"',
};

export const copies = new EventTarget();
Object.assign(copies, {
  kind: tester.canPlayType(CODECS.h264) ? "mp4" : "webm",
  needed: new Set(), ready: new Set(), failed: new Map(),
  share: null, // of the copies that are being made
});

const codecs = Object.keys(CODECS).filter((name) => tester.canPlayType(CODECS[name]));
const forced = new Set();
let running = null;

// Whether a video needs a copy; `now` says that the browser has just failed to play it.
export function needCopy(key, now = false) {
  if (now && !copies.needed.has(key)) {
    copies.needed.add(key);
    forced.add(key);
    prepareCopies(() => {});
  }
  return copies.needed.has(key);
}

// Ask for all copies that are needed, and follow how they are made; `tell` hears it in words.
export function prepareCopies(tell) {
  running = (running || Promise.resolve()).then(() => make(tell)).catch((error) => tell(error.message, true));
  return running;
}

async function make(tell) {
  const body = { kind: copies.kind, codecs, videos: [...forced] };
  let job = await take(body);
  if (!job) return;
  while (job && isOpen(job)) {
    copies.share = job.share;
    tell(S.copiesComing(copies.ready.size, copies.needed.size));
    copies.dispatchEvent(new Event("change"));
    await pause(500);
    job = await take(body);
  }
  copies.share = null;
  copies.dispatchEvent(new Event("change"));
  tell(copies.failed.size ? [...copies.failed.values()][0] : S.copiesDone, copies.failed.size > 0);
}

// What the server says of the copies now; gives the job that makes them, while it runs.
async function take(body) {
  const { needed, ready, failed, job } = await ask("api/copies", body);
  copies.needed = new Set(needed);
  copies.ready = new Set(ready);
  copies.failed = new Map(Object.entries(failed));
  copies.dispatchEvent(new Event("change"));
  return job;
}
