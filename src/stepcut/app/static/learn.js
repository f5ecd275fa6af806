// New procedure: choose a folder, review its videos, describe the task, learn.

import { ask } from "./api.js";
import { button, clock, el } from "./dom.js";
import { fillBox, listing, lookInto, pickLabels } from "./picker.js";
import { S } from "./strings.js";

const AT_ONCE = 20; // videos per request

export function newProcedure(say) {
  const where = el("p", { class: "soft" });
  const folders = el("div", { class: "scroll" });
  const rows = el("tbody", {});
  const progress = el("p", { class: "soft", role: "status" });
  const steps = el("input", { name: "steps", inputMode: "numeric" });
  const recipe = el("textarea", { name: "recipe" });
  const labels = el("output", { text: S.noLabels });
  let labelPath = null;
  const setLabels = (path) => {
    labelPath = path === "" ? "." : path;
    labels.textContent = path === null ? S.noLabels : `/${path}`;
    without.hidden = path === null;
  };
  const without = button(S.noLabelsAnyMore, () => setLabels(null),
    { class: "quiet", hidden: true });
  const choosing = el("div", { class: "row" }, labels, button(S.chooseLabels, async () => {
    const path = await pickLabels(S.chooseLabels);
    if (path !== null) setLabels(path);
  }), without);
  const name = el("input", { name: "name" });
  const problem = el("p", { class: "bad", role: "alert" });
  const go = button(S.learnButton, learn, { class: "main", disabled: true });
  const cycles = button(S.findCycles, findCycles, { title: S.findCyclesTitle, hidden: true });
  const chosen = new Map(); // path -> used
  let listed = 0;

  async function show(path) {
    try {
      const found = await lookInto(path);
      where.textContent = `/${found.path}`;
      fillBox(folders, listing({ ...found, files: [] }, show));
      // a folder `videos` is named after the one around it
      name.value = found.path.split("/").findLast((part) => !/^(videos?|clips?)$/i.test(part)) ?? "";
      list(found.videos);
    } catch (error) {
      say(error.message, true);
    }
  }

  // List the videos at once; durations follow.
  async function list(videos) {
    const mine = (listed += 1);
    chosen.clear();
    const cells = new Map(videos.map((video) => [video.path, row(video)]));
    rows.replaceChildren(...[...cells.values()].map((each) => each.node));
    go.disabled = true;
    for (let at = 0; at < videos.length; at += AT_ONCE) {
      const paths = videos.slice(at, at + AT_ONCE).map((video) => video.path);
      const answer = await ask("api/probe", { videos: paths })
        .catch((error) => (say(error.message, true), { videos: [] }));
      if (mine !== listed) return;
      for (const { path, duration, problem: wrong } of answer.videos) {
        const { tick, length, trouble } = cells.get(path);
        tick.checked = tick.disabled = false;
        tick.checked = !wrong;
        tick.disabled = Boolean(wrong);
        chosen.set(path, !wrong);
        length.textContent = duration === null ? "–" : clock(duration, 0);
        trouble.textContent = wrong || S.noProblem;
        trouble.className = wrong ? "bad" : "soft";
      }
      progress.textContent = S.looking(Math.min(at + AT_ONCE, videos.length), videos.length);
    }
    sync();
  }

  function row(video) {
    const tick = el("input", { type: "checkbox", disabled: true, id: `use ${video.path}`,
      "aria-label": `${S.use} ${video.name}`, onchange: () => {
      chosen.set(video.path, tick.checked);
      sync();
    } });
    const length = el("td", { text: "…" });
    const trouble = el("td", { text: "" });
    return { tick, length, trouble, node: el("tr", {}, el("td", {}, tick),
      el("th", { scope: "row" }, el("label", { htmlFor: tick.id, text: video.name })), length,
      trouble) };
  }

  const used = () => [...chosen].filter(([, use]) => use).map(([path]) => path);

  function sync() {
    go.disabled = used().length < 2;
    cycles.hidden = used().length !== 1;
    const bad = [...rows.querySelectorAll(".bad")].length;
    progress.textContent = used().length < 2 ? S.fewVideos
      : `${S.videos(used().length)}${bad ? `. ${S.problemVideos(bad)}` : ""}`;
  }

  async function learn() {
    problem.textContent = "";
    go.disabled = true;
    try {
      await ask("api/learn", { videos: used(), steps: steps.value, recipe: recipe.value,
        labels: labelPath, name: name.value });
      location.hash = "";
    } catch (error) {
      problem.textContent = error.message;
      go.disabled = false;
    }
  }

  // One long recording: find its repetitions, to be corrected and learned from.
  async function findCycles() {
    problem.textContent = "";
    try {
      await ask("api/cycles", { video: used()[0] });
      location.hash = "";
    } catch (error) {
      problem.textContent = error.message;
    }
  }

  const field = (text, node, help = "") => el("label", { class: "field" }, el("span", { text }),
    node, help ? el("small", { class: "soft", text: help }) : null);
  const head = el("thead", {}, el("tr", {}, ...[S.use, S.video, S.duration, S.problem].map((text) =>
    el("th", { scope: "col", text }))));
  const node = el("div", { class: "wizard" }, el("h2", { text: S.newProcedure }),
    el("section", {}, el("h3", { text: S.chooseFolder }), where, folders),
    el("section", {}, el("h3", { text: S.lookThrough }), progress,
      el("div", { class: "scroll" }, el("table", { class: "figures" }, head, rows))),
    el("section", {}, el("h3", { text: S.describe }), field(S.stepCount, steps, S.stepCountHelp),
      field(S.recipe, recipe, S.recipeHelp), el("div", { class: "field", role: "group",
      "aria-label": S.labels }, el("span", { text: S.labels }), choosing,
      el("small", { class: "soft", text: S.labelsHelp }))),
    el("section", {}, el("h3", { text: S.learnGo }), field(S.procedureName, name), problem,
      el("div", { class: "row" }, go, cycles, el("a", { href: "#", text: S.cancel }))));
  show("");
  return node;
}
