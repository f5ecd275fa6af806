// The start of the page: load the state, draw, listen.

import { clock, icon } from "./dom.js";
import { askExport, askName, showHelp } from "./dialogs.js";
import { askTeach, canTeach } from "./teach.js";
import { showTrust } from "./trust.js";
import { comparing, refreshCompare } from "./compare.js";
import { drawGrid } from "./grid.js";
import { listen } from "./keys.js";
import { buildStage, choose, chooseNext, drawStage } from "./stage.js";
import { addIcons, drawSteps } from "./steps.js";
import { changed, edit, load, matches, redo, say, stepOf, store, undo } from "./store.js";

const $ = (id) => document.getElementById(id);

function draw({ detail }) {
  if (detail !== "part" && detail !== "range" && detail !== "check") drawSteps();
  if (comparing()) refreshCompare();
  else {
    drawStage();
    drawGrid(choose);
  }
  drawHead();
}

const count = ({ length }, word) => `${length} ${word}${length === 1 ? "" : "s"}`;

function drawHead() {
  const { title, videos, steps, quality, undo: last, redo: next } = store.data;
  document.title = `${title} – stepcut`;
  $("title").textContent = title;
  const total = videos.reduce((sum, video) => sum + video.duration, 0);
  $("summary").textContent = `${count(steps, "step")} · ${count(videos, "video")} · ${clock(total, 0)}`;
  $("teach").hidden = !canTeach();
  $("trust").hidden = !quality;
  if (quality) {
    const share = quality.right === null ? "not estimated" : `${Math.round(100 * quality.right)} % right`;
    $("trust").textContent = quality.kind === "uniform" ? "time slices" : share;
    $("trust").className = `grade ${quality.kind === "uniform" ? "clock" : quality.right >= 0.6 ? "good" : "doubtful"}`;
    $("trust").title = `How much of the time is right, and with more or fewer steps (G)\n${quality.text}`;
  }
  $("undo").disabled = !last;
  $("redo").disabled = !next;
  $("undo").title = last ? `Undo: ${last} (Ctrl Z)` : "Nothing to undo";
  $("redo").title = next ? `Redo: ${next} (Ctrl Shift Z)` : "Nothing to redo";
}

function wire() {
  for (const [id, name, label, act] of [["undo", "undo", "Undo", undo], ["redo", "redo", "Redo", redo], ["help", "help", "Keys", showHelp]]) {
    $(id).append(icon(name));
    $(id).setAttribute("aria-label", label);
    $(id).addEventListener("click", act);
  }
  $("help").title = "Keys (?)";
  $("export").title = "Export the timelines (E)";
  $("export").addEventListener("click", askExport);
  $("teach").title = "Let the other videos follow what you have corrected or confirmed (T)";
  $("teach").addEventListener("click", askTeach);
  $("trust").addEventListener("click", showTrust);
  $("add").addEventListener("click", () => askName("A new step", (name) => edit({ do: "add", name })));
  $("search").addEventListener("input", () => {
    store.query = $("search").value.trim();
    changed("filter");
  });
  $("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") chooseNext((video) => video.parts.filter((part) => matches(stepOf(part[2]).name)));
    if (event.key === "Escape") $("search").blur();
  });
  window.addEventListener("pagehide", () => document.activeElement?.blur()); // a name half typed, a boundary just moved: saved
  addIcons();
}

try {
  wire();
  buildStage();
  store.addEventListener("change", draw);
  await load();
  const [, video, time] = /^(.*)@(.*)$/.exec(decodeURIComponent(location.hash.slice(1))) || []; // the place to begin at
  choose(Math.max(0, store.data.videos.findIndex(({ name }) => name === video)), Number(time) || 0);
  listen();
  document.body.classList.add("ready");
} catch (error) {
  say(`The page cannot be shown: ${error.message}`, true);
}
