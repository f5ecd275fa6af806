// Other users of the same procedure: show their jobs and load their results.

import { ask, isOpen } from "./api.js";
import { load, say, store } from "./store.js";
import { S } from "./strings.js";

const EVERY = 3000; // milliseconds
let shown = "";
let open = new Set(); // jobs that were running at the last poll

export function watchOthers() {
  // the next action reports a lost server
  setInterval(() => !document.hidden && look().catch(() => {}), EVERY);
}

async function look() {
  const { jobs } = await ask("api/jobs");
  const mine = jobs.filter((job) => job.about === store.data.folder
    && ["teach", "check"].includes(job.kind));
  const running = mine.filter(isOpen);
  const finished = mine.filter((job) => !isOpen(job) && open.has(job.id));
  open = new Set(running.map((job) => job.id));
  const words = running.length ? S.jobRuns(S.jobKinds[running[0].kind],
    S.percent(running[0].share)) : "";
  if (words || document.getElementById("status").textContent === shown) say(words);
  shown = words;
  if (finished.some((job) => job.state === "done")
    && !document.querySelector("dialog[open]")) await load();
}
