// Other users of the same procedure, and watched folders: show their jobs, edits and checks.

import { ask, isOpen } from "./api.js";
import { failures } from "./joblist.js";
import { say, settled, store, take } from "./store.js";
import { S } from "./strings.js";

const EVERY = 3000; // milliseconds
let shown = "";
let lost = false; // whether the server did not answer
let over = null; // finished jobs at the last poll

export function watchOthers() {
  setInterval(async () => {
    if (document.hidden) return;
    try {
      await look();
      if (lost) say("");
      lost = false;
    } catch (error) {
      lost = true; // otherwise "Saved" would stay
      say(error.message, true);
    }
  }, EVERY);
}

async function look() {
  const { jobs } = await ask("api/jobs");
  const mine = jobs.filter((job) => job.about === store.data.folder
    && ["teach", "check", "adopt"].includes(job.kind));
  const running = mine.filter(isOpen);
  const done = mine.filter((job) => !isOpen(job));
  const finished = over ? done.filter((job) => !over.has(job.id)) : [];
  over = new Set(done.map((job) => job.id));
  const words = running.length ? S.jobRuns(S.jobKinds[running[0].kind],
    S.percent(running[0].share), running[0].left && S.timeLeft(running[0].left)) : "";
  if (words || document.getElementById("status").textContent === shown) say(words);
  shown = words;
  const problems = finished.flatMap((job) => [job.error, ...failures(job)]).filter(Boolean);
  if (problems.length) say(problems.join(" "), true);
  await settled();
  const known = store.data.stamp;
  const fresh = await ask(`api/state?known=${encodeURIComponent(known)}`);
  // not while something is dragged, moved by keys or asked
  const busy = store.pending || document.querySelector("dialog[open], :active");
  if (fresh.videos && store.data.stamp === known && !busy) take(fresh);
}
