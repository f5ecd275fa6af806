// Entry point of the viewer page: load the state, draw, listen.

import { ask } from "./api.js";
import { button, clock, fillTexts, icon } from "./dom.js";
import { askName, showHelp } from "./dialogs.js";
import { prepareCopies } from "./copies.js";
import { askTeach, canTeach } from "./teach.js";
import { showTrust } from "./trust.js";
import { comparing, refreshCompare } from "./compare.js";
import { drawGrid } from "./grid.js";
import { buildQueue, drawQueue } from "./queue.js";
import { showHistory } from "./history.js";
import { listen } from "./keys.js";
import { watchOthers } from "./others.js";
import { buildStage, choose, chooseNext, drawStage } from "./stage.js";
import { addIcons, drawSteps } from "./steps.js";
import { changed, edit, load, matches, redo, say, stepOf, store, undo } from "./store.js";
import { S } from "./strings.js";
import { buildTaps, drawTaps, toggleTaps } from "./tap.js";
import { buildViews, drawView } from "./views.js";

const $ = (id) => document.getElementById(id);
const cycles = button(S.learnCycles, () => learnCycles(),
  { class: "main", title: S.learnCyclesTitle, hidden: true });

function draw({ detail }) {
  if (!["part", "range", "check"].includes(detail)) drawSteps();
  if (store.view !== "correct") drawView(detail);
  else if (comparing()) refreshCompare();
  else {
    drawStage(detail);
    drawQueue();
    drawGrid(choose);
    drawTaps();
  }
  drawHead();
}

function drawHead() {
  const { title, videos, steps, quality, undo: last, redo: next, home } = store.data;
  document.title = `${title} – ${S.appName}`;
  $("title").textContent = title;
  $("home").hidden = !home;
  const total = videos.reduce((sum, video) => sum + video.duration, 0);
  const facts = [S.steps(steps.length), S.videos(videos.length), clock(total, 0)];
  $("summary").textContent = facts.join(" · ");
  $("teach").hidden = !canTeach();
  cycles.hidden = !store.data.cycles;
  $("trust").hidden = !quality;
  if (quality) {
    $("trust").textContent = quality.warning ? S.nothingShared : quality.right === null
      ? S.notMeasured : S.right(S.percent(quality.right));
    const grade = quality.right === null ? "" : quality.right >= 0.6 ? "good" : "low";
    $("trust").className = `grade ${quality.warning ? "uniform" : grade}`;
    $("trust").title = S.trustTitle(quality.text);
  }
  $("undo").disabled = !last;
  $("redo").disabled = !next;
  $("undo").title = S.undoTitle(last);
  $("redo").title = S.redoTitle(next);
}

// Learn from the cycles of one recording, as a job of the start page.
async function learnCycles() {
  try {
    await ask("../../api/learn", store.data.cycles);
    location.href = "../../";
  } catch (error) {
    say(error.message, true);
  }
}

function wire() {
  fillTexts();
  $("teach").before(cycles);
  for (const [id, label, act] of [["undo", S.undo, undo], ["redo", S.redo, redo],
    ["history", S.history, showHistory], ["help", S.keys, showHelp]]) {
    $(id).append(icon(id));
    $(id).setAttribute("aria-label", label);
    $(id).addEventListener("click", act);
  }
  for (const [id, label] of [["tools", S.editsLabel], ["aside", S.stepsLabel],
    ["stage", S.stageLabel], ["grid", S.gridLabel], ["queue", S.queueLabel], ["compare", S.stepInAll]]) {
    $(id).setAttribute("aria-label", label);
  }
  $("home").setAttribute("aria-label", S.home);
  $("home").title = S.home;
  $("help").title = S.keysTitle;
  $("history").title = S.history;
  $("teach").textContent = S.teach;
  $("teach").title = S.teachTitle;
  $("teach").addEventListener("click", askTeach);
  $("tap").textContent = S.tap;
  $("tap").title = S.tapTitle;
  $("tap").addEventListener("click", toggleTaps);
  $("trust").addEventListener("click", showTrust);
  $("add").textContent = S.addStep;
  $("add").addEventListener("click", () => askName(S.newStepTitle, (name) =>
    edit({ do: "add", name })));
  $("search").placeholder = S.findStep;
  $("search").addEventListener("input", () => {
    store.query = $("search").value.trim();
    changed("filter");
  });
  $("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter") chooseNext((video) => video.parts.filter((part) =>
      matches(stepOf(part[2]).name)));
    if (event.key === "Escape") $("search").blur();
  });
  // saves unfinished input
  window.addEventListener("pagehide", () => document.activeElement?.blur());
  addIcons();
}

try {
  wire();
  buildStage();
  buildTaps();
  buildQueue(choose);
  await load();
  drawSteps();
  buildViews();
  store.addEventListener("change", draw); // choose draws first
  // #video@seconds
  const [, video, time] = /^(?!\/)(.*)@(.*)$/.exec(decodeURIComponent(location.hash.slice(1)))
    || [];
  choose(Math.max(0, store.data.videos.findIndex(({ name }) => name === video)), Number(time) || 0);
  listen();
  document.body.classList.add("ready");
  prepareCopies(say);
  watchOthers();
} catch (error) {
  say(S.cannotShow(error.message), true);
}
