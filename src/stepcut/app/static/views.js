// The tabs of a procedure: correct, check, compare, times, export.

import { buildChecks, drawChecks } from "./checks.js";
import { buildExport, drawExport } from "./export.js";
import { buildGroups, drawGroups } from "./groups.js";
import { el } from "./dom.js";
import { changed, say, store } from "./store.js";
import { pauseStage } from "./stage.js";
import { S } from "./strings.js";
import { buildTimes, drawTimes } from "./times.js";

export const VIEWS = ["correct", "check", "compare", "times", "export"];
const DRAW = { check: drawChecks, compare: drawGroups, times: drawTimes, export: drawExport };

export function buildViews() {
  const tabs = document.getElementById("tabs");
  tabs.setAttribute("aria-label", S.tabsLabel);
  tabs.append(...VIEWS.map((name, place) => el("a", { href: `#/${name}`, text: S.tabs[name],
    title: `${S.tabs[name]} (F${place + 2})`, "data-view": name })));
  buildChecks(document.getElementById("check-view"));
  buildGroups(document.getElementById("compare-view"));
  buildTimes(document.getElementById("times-view"));
  buildExport(document.getElementById("export-view"));
  // Elsewhere, the browser would leave the page for a dropped file.
  for (const kind of ["dragover", "drop"]) {
    document.addEventListener(kind, (event) => {
      if (event.defaultPrevented || !event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      if (kind === "drop") say(S.dropElsewhere, true);
    });
  }
  window.addEventListener("hashchange", readHash);
  readHash();
}

function readHash() {
  const name = location.hash.slice(2);
  show(location.hash.startsWith("#/") && VIEWS.includes(name) ? name : "correct");
}

function show(name) {
  const other = name !== store.view;
  store.view = name;
  document.body.dataset.view = name;
  for (const each of VIEWS.slice(1)) document.getElementById(`${each}-view`).hidden = each !== name;
  for (const tab of document.querySelectorAll("#tabs a")) {
    if (tab.dataset.view === name) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  if (name !== "correct") pauseStage();
  if (other) {
    for (const page of [window, document.getElementById("main")]) page.scrollTo(0, 0);
    changed("view");
  }
}

export const drawView = (what) => DRAW[store.view]?.(what);
