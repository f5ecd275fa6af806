// Check: new videos, their findings, and accepting findings.

import { ask, work } from "./api.js";
import { Bar, listFindings } from "./bar.js";
import { button, clock, el } from "./dom.js";
import { pickFiles, pickFolder } from "./picker.js";
import { choose } from "./stage.js";
import { edit, load, say, showView, store, take } from "./store.js";
import { S } from "./strings.js";

const list = el("div", { class: "checks" });
const note = el("p", { class: "soft", role: "status" });
const progress = el("progress", { max: 1, value: 0, hidden: true, "aria-label": S.checking });
const watching = el("p", { class: "watching" });
const unfolded = new Set();
let chooser = null;
let drawn = null;

export function buildChecks(section) {
  chooser = el("div", { class: "drop" }, button(S.chooseVideos, choosePaths, { class: "main" }),
    el("span", { class: "soft", text: S.dropHere }),
    button(S.watchFolder, chooseWatch));
  section.append(el("h2", { text: S.checkHead }), el("p", { class: "soft", text: S.checkWords }),
    chooser, watching, note, progress, list);
  for (const kind of ["dragover", "drop"]) {
    section.addEventListener(kind, (event) => {
      event.preventDefault();
      chooser.classList.toggle("over", kind === "dragover");
      if (kind === "drop" && store.data.home) sendFiles([...event.dataTransfer.files]);
    });
  }
  section.addEventListener("dragleave", () => chooser.classList.remove("over"));
  setInterval(() => store.view === "check" && !document.hidden && refresh(), 3000);
}

export function drawChecks() {
  chooser.hidden = !store.data.home;
  const videos = store.data.videos.filter((video) => video.check);
  if (drawn === store.data) return;
  drawn = store.data;
  list.replaceChildren(...(videos.length ? videos.map(card)
    : [el("p", { class: "soft", text: S.noChecks })]));
  if (store.data.home) ask("api/watch").then(({ folder }) => drawWatch(folder)).catch(() => {});
}

function drawWatch(folder) {
  watching.replaceChildren(...(folder === null ? [] : [el("span", { text: S.watching(folder) }),
    button(S.stopWatching, () => setWatch(null), { class: "quiet" })]));
}

// Show checks of other users and of the watched folder.
async function refresh() {
  const state = await ask("api/state").catch(() => null);
  if (!state) return;
  const seen = (data) => JSON.stringify([data.revision,
    data.videos.filter((video) => video.check)]);
  if (seen(state) !== seen(store.data)) take(state);
}

const VERDICTS = { "another task": "other", inconclusive: "unsure", fine: "ok", deviations: "bad" };

function card(video) {
  const report = video.check;
  const place = store.data.videos.indexOf(video);
  const verdict = VERDICTS[report.verdict];
  const bar = new Bar({ onpick: (time) => openAt(place, time) });
  bar.draw(video, -1, report);
  const findings = [...listFindings(report).map((one) => finding(video, place, one, false)),
    ...(report.accepted || []).map((one) => finding(video, place, one, true))];
  const steps = el("details", { open: unfolded.has(video.key),
    ontoggle: (event) => (event.target.open ? unfolded.add(video.key)
    : unfolded.delete(video.key)) },
    el("summary", { text: S.stepTable }), stepTable(report, place));
  return el("article", { class: `check ${verdict}` },
    el("div", { class: "head" }, el("span", { class: `verdict ${verdict}`,
      text: S.verdicts[verdict] }),
      button(video.name, () => openAt(place, 0), { class: "quiet name" }),
        el("span", { class: "soft", text: `${video.where} · ${clock(video.duration, 0)}` }),
      video.stale ? el("span", { class: "soft", text: `· ${S.stale}` }) : null,
      el("span", { class: "gap" }), button(S.checkAgain, () => run({ keys: [video.key] })),
        button(S.forgetCheck, () => forget(video.key), { class: "quiet" })),
    el("p", { class: verdict === "ok" ? "good" : "bad", text: report.summary }), power(report),
      bar.node,
    el("ul", { class: "findings-list" }, ...findings), steps);
}

// Detection rate and note; the summary of a video without findings already has the first.
function power(report) {
  const words = [report.ok ? "" : report.power, report.note].filter(Boolean).join(" ");
  return words ? el("p", { class: "soft", text: words }) : null;
}

function finding(video, place, one, fine) {
  const about = { do: "fine", kind: one.kind, step: one.step ?? null, video: video.check.video,
    fine: !fine };
  return el("li", { class: fine ? "fine" : "" },
    el("button", { type: "button", title: S.openAt(clock(one.start)),
      onclick: () => openAt(place, one.start) },
      el("span", { class: `finding ${one.kind}`, text: S.findings[one.kind] ?? one.kind }),
        el("span", { class: "what", text: one.reason }),
      el("span", { class: "when", text: clock(one.start) })),
    fine ? el("span", { class: "soft", text: S.acceptedNote }) : null,
    button(fine ? S.notFine : S.thisIsFine, () => edit(about),
      { class: "mark-fine", title: fine ? "" : S.thisIsFineTitle(one.reason) }));
}

function stepTable(report, place) {
  const head = [S.step, S.seen, S.when, S.probability, S.usualShare];
  const order = ({ name }) => store.data.steps.findIndex((each) => each.name === name);
  const steps = [...report.steps].sort((one, other) => order(one) - order(other));
  const rows = steps.map((step) => el("tr", {}, el("th", { scope: "row", text: step.name }),
    el("td", { text: step.seen }),
    el("td", {}, ...step.times.map(([start, end]) =>
      button(`${clock(start)} – ${clock(end)}`, () => openAt(place, start), { class: "quiet" }))),
    el("td", { text: S.percent(step.probability) }),
    el("td", { text: S.percent(step.share_of_videos) })));
  return el("div", { class: "scroll-x" }, el("table", { class: "figures" },
    el("thead", {}, el("tr", {}, ...head.map((text) => el("th", { scope: "col", text })))),
      el("tbody", {}, ...rows)));
}

function openAt(place, time) {
  showView("correct");
  choose(place, time);
}

async function choosePaths() {
  const videos = await pickFiles(S.chooseVideos);
  if (videos.length) run({ videos });
}

async function chooseWatch() {
  const folder = await pickFolder(S.watchFolder);
  if (folder !== null) setWatch(folder);
}

async function setWatch(folder) {
  try {
    drawWatch((await ask("api/watch", { folder })).folder);
  } catch (error) {
    say(error.message, true);
  }
}

async function forget(key) {
  take((await ask(`api/forget/${key}`, {})).state);
}

async function run(body) {
  progress.hidden = false;
  try {
    const { result } = await work("api/check", body, (job) => {
      progress.value = job.share;
      note.textContent = `${S.checking} ${job.item}`;
    });
    note.textContent = Object.entries(result.failed).map(([path, reason]) =>
      S.notChecked(path.split("/").at(-1), reason)).join(" ");
  } catch (error) {
    note.textContent = error.message;
  }
  progress.hidden = true;
  await load();
}

async function sendFiles(files) {
  const videos = [];
  for (const file of files) {
    try {
      videos.push(await sendFile(file));
    } catch (error) {
      note.textContent = error.message;
    }
  }
  if (videos.length) run({ videos });
}

function sendFile(file) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest(); // fetch has no upload progress
    request.open("POST", `api/upload?name=${encodeURIComponent(file.name)}`);
    request.setRequestHeader("content-type", "application/octet-stream");
    request.responseType = "json";
    request.upload.addEventListener("progress",
      (event) => { note.textContent = S.uploading(file.name, S.percent(event.loaded / event.total));
      });
    request.addEventListener("load", () => (request.status === 200 ? resolve(request.response.path)
      : reject(new Error(request.response?.error || S.serverAnswered(request.status)))));
    request.addEventListener("error", () => reject(new Error(S.noAnswer)));
    request.send(file);
  });
}
