// Keyboard shortcuts.

import { compareStep, comparing, leaveCompare } from "./compare.js";
import { showHelp } from "./dialogs.js";
import { askTeach, canTeach } from "./teach.js";
import { showTrust } from "./trust.js";
import * as stage from "./stage.js";
import { goNext, otherVideo } from "./queue.js";
import { changed, current, differences, redo, say, settled, showView, store,
  undo } from "./store.js";
import { S } from "./strings.js";
import { takeKey } from "./codes.js";
import { clickStep, momentNow, nextVideo, removeLast, toggleTaps } from "./tap.js";
import { VIEWS } from "./views.js";

const KEYS = {
  " ": () => stage.togglePlay(),
  j: () => stage.shuttle(-1), k: () => stage.shuttle(0), l: () => stage.shuttle(1),
  ArrowLeft: (event) => stage.seek(stage.stageTime() - (event.shiftKey ? 5 : 1)),
  ArrowRight: (event) => stage.seek(stage.stageTime() + (event.shiftKey ? 5 : 1)),
  ",": () => stage.frame(-1), ".": () => stage.frame(1),
  "<": () => stage.changeSpeed(-1), ">": () => stage.changeSpeed(1),
  ArrowUp: () => stage.hop(-1), ArrowDown: () => stage.hop(1),
  "[": () => stage.toBoundary(-1), "]": () => stage.toBoundary(1), q: () => stage.nudge(-1),
    w: () => stage.nudge(1),
  y: () => stage.confirmVideo(), x: () => stage.toggleMistake(), t: () => canTeach() && askTeach(),
  PageUp: () => otherVideo(-1), PageDown: () => otherVideo(1),
  r: () => stage.toggleLoop(), f: () => stage.toggleFull(), v: () => stage.toggleSound(),
    h: () => stage.toggleSubtitles(), s: () => stage.splitSegment(), n: () => stage.split(false),
    d: () => stage.chooseNext(differences), b: () => stage.mark(null), c: () => stage.runCheck(),
  i: () => stage.setEdge("start"), o: () => stage.setEdge("end"), m: () => markStretch(),
  a: () => {
    const part = current().parts[store.part];
    if (part) compareStep(part[2]);
    else say(S.noSegmentHere, true);
  },
  "+": () => stage.zoom(1.5), "=": () => stage.zoom(1.5), "-": () => stage.zoom(0.67),
    0: () => stage.zoom(0),
  "/": () => document.getElementById("search").focus(), e: () => showView("export"),
    p: () => toggleTaps(), g: () => store.data.quality && showTrust(), "?": () => showHelp(),
  Backspace: () => store.tapping && removeLast(), Enter: () => (store.tapping ? nextVideo() : goNext()),
  Escape: () => { if (store.tapping) toggleTaps(); store.range = null; begun = null;
    store.filter.clear(); changed("filter"); },
};
const MOVES = new Set([" ", "ArrowLeft", "ArrowRight", ",", ".", "<", ">", "j", "k", "l"]);
let begun = null; // the video and the time

// The letter of a key; on non-Latin keyboards, by its position on a Latin one.
const PLACES = { Comma: ",", Period: ".", BracketLeft: "[", BracketRight: "]", Slash: "/" };
function letterOf({ key, code }) {
  if (key.length > 1) return key;
  if (key <= "\x7f") return key.toLowerCase();
  if (/^\p{Nd}$/u.test(key) && code.startsWith("Digit")) return code.slice(5);
  return PLACES[code] || (code.startsWith("Key") ? code.slice(3).toLowerCase() : key);
}

export function listen() {
  // After a choice with the mouse, keys act on the video again.
  let byPointer = false;
  document.addEventListener("pointerdown", () => { byPointer = true; }, true);
  document.addEventListener("keydown", () => { byPointer = false; }, true);
  document.addEventListener("change", ({ target }) => byPointer && target.matches("select")
    && target.blur());
  document.addEventListener("keydown", (event) => {
    if (document.querySelector("dialog[open]")) return;
    const { target } = event;
    const key = letterOf(event);
    const typing = target.matches("input:not([type=range], [type=checkbox]), select, textarea");
    if ((event.ctrlKey || event.metaKey) && !typing && ["z", "y"].includes(key)) {
      event.preventDefault();
      inTurn(key === "y" || event.shiftKey ? redo : undo);
      return;
    }
    const copies = { c: stage.copySegments, v: stage.pasteSegments }[key];
    if ((event.ctrlKey || event.metaKey) && !typing && copies && store.view === "correct"
      && !comparing() && !String(getSelection())) {
      event.preventDefault();
      inTurn(copies);
      return;
    }
    const place = ["F2", "F3", "F4", "F5", "F6"].indexOf(key);
    if (place >= 0 && !event.ctrlKey) {
      event.preventDefault();
      showView(VIEWS[place]);
      return;
    }
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    // Enter activates the element; Space plays
    if (key === " " && target.matches("[type=checkbox]")) return;
    if (key === "Enter" && target.matches("button, a, summary")) return;
    if (target.matches("[type=range]") && /^(Arrow|Page)/.test(key)) return;
    if (key === " " && (store.view !== "correct" || comparing())) return;
    if (store.view !== "correct") {
      if (key === "Escape") showView("correct");
      if (key === "?") showHelp();
      return;
    }
    if (comparing()) {
      if (key === "Escape") leaveCompare();
      return;
    }
    if (store.tapping && codeTyped(event, key)) {
      event.preventDefault();
      return;
    }
    const act = /^[1-9]$/.test(key) ? () => giveTo(Number(key) - 1) : KEYS[key];
    if (!act) return;
    event.preventDefault();
    if (store.tapping && MOVES.has(key)) act(event); // a key that is coded then has its time
    else inTurn(() => act(event));
  });
}

// In some browsers, the Space that plays would also press the button that has the focus.
document.addEventListener("keyup", (event) => {
  const plays = store.view === "correct" && !comparing()
    && !document.querySelector("dialog[open]") && event.target.matches("button, summary");
  if (event.key === " " && plays) event.preventDefault();
});

let last = Promise.resolve();

// Keys act in sequence, each on the result of the edits before it.
function inTurn(act) {
  last = last.catch(() => {}).then(() => store.pending?.()).then(settled).then(act);
}

function giveTo(place) {
  const step = store.data.steps[place];
  if (step) stage.mark(step.number);
}

// While coding: the time of the key counts, not that of the answers before it. Shift: a tap inside.
function codeTyped(event, key) {
  const typed = event.shiftKey && event.code.startsWith("Digit") ? event.code.slice(5) : key;
  if (typed.length > 1 || typed === " ") return false;
  if (event.repeat) return /[\p{L}\p{Nd}]/u.test(typed); // a held key is pressed once
  return takeKey(typed, momentNow(), (step, moment) =>
    inTurn(() => clickStep(step, moment, event.shiftKey)));
}

function markStretch() {
  const time = stage.stageTime();
  if (begun?.video !== store.video) {
    begun = { video: store.video, time };
    say(S.stretchBegins);
    return;
  }
  if (Math.abs(time - begun.time) > 0.04) store.range = [Math.min(begun.time, time),
    Math.max(begun.time, time)];
  begun = null;
  changed("range");
}
