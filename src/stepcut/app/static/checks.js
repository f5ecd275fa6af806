// Check: new videos, their findings, and accepting findings.

import { ask } from "./api.js";
import { Bar, listFindings } from "./bar.js";
import { button, clock, clockIn, el } from "./dom.js";
import { failures, jobLine } from "./joblist.js";
import { pickFiles, pickFolder } from "./picker.js";
import { choose } from "./stage.js";
import { adopt } from "./teach.js";
import { edit, load, say, showView, store, take } from "./store.js";
import { S } from "./strings.js";

const list = el("div", { class: "checks" });
const note = el("p", { class: "soft", role: "status" });
const line = jobLine(S.checking);
const watching = el("p", { class: "watching" });
const rules = el("details", { class: "rules" });
const newRule = el("input", { type: "text", "aria-label": S.newRule, placeholder: S.newRule });
const ruleForm = el("form", { onsubmit: addRule }, newRule, el("button", { text: S.addRule }));
const unfolded = new Set();
let chooser = null;
let drawn = null;

export function buildChecks(section) {
  const files = el("input", { type: "file", multiple: true, accept: "video/*", hidden: true,
    onchange: () => sendFiles([...files.files]) });
  chooser = el("div", { class: "drop" }, button(S.chooseVideos, choosePaths, { class: "main" }),
    button(S.uploadVideos, () => files.click()), files,
    button(S.watchFolder, chooseWatch), el("span", { class: "soft", text: S.dropHere }));
  section.append(el("h2", { text: S.checkHead }), el("p", { class: "soft", text: S.checkWords }),
    chooser, watching, note, line.node, rules, list);
  for (const kind of ["dragover", "drop"]) {
    section.addEventListener(kind, (event) => {
      event.preventDefault();
      chooser.classList.toggle("over", kind === "dragover");
      if (kind === "drop" && store.data.home) sendFiles([...event.dataTransfer.files]);
    });
  }
  section.addEventListener("dragleave", () => chooser.classList.remove("over"));
}

export function drawChecks() {
  chooser.hidden = !store.data.home;
  const videos = store.data.videos.filter((video) => video.check).reverse(); // newest first
  if (drawn === store.data) return;
  drawn = store.data;
  list.replaceChildren(...(videos.length ? videos.map(card)
    : [el("p", { class: "soft", text: S.noChecks })]));
  ask("api/rules").then(drawRules).catch(() => {});
  if (store.data.home) ask("api/watch").then(({ folder }) => drawWatch(folder)).catch(() => {});
}

function drawRules({ now, offered, problem }) {
  const row = (text, ...rest) => el("li", {}, el("span", { class: "what", text }), ...rest);
  rules.hidden = !store.data.learned;
  rules.replaceChildren(el("summary", { text: `${S.rules} (${now.length})` }),
    el("p", { class: "soft", text: S.rulesWords }), el("p", { class: "bad", text: problem }),
    el("ul", { class: "findings-list" },
      ...now.map((text) => row(text, button(S.removeRule, () => setRule(text, false)))),
      ...offered.map(({ rule, question }) =>
        row(question, button(S.makeRule, () => setRule(rule, true))))), ruleForm);
}

function addRule(event) {
  event.preventDefault();
  setRule(newRule.value, true);
}

async function setRule(rule, holds) {
  try {
    drawRules(await ask("api/rules", { rule, holds }));
    newRule.value = "";
  } catch (error) {
    say(error.message, true);
  }
}

function drawWatch(folder) {
  watching.replaceChildren(...(folder === null ? [] : [el("span", { text: S.watching(folder) }),
    button(S.stopWatching, () => setWatch(null), { class: "quiet" })]));
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
        button(S.adopt, () => adopt({ keys: [video.key] }), { title: S.adoptTitle }),
        button(S.forgetCheck, () => forget(video.key), { class: "quiet" })),
    el("p", { class: verdict === "ok" ? "good" : "bad", text: report.summary }), power(report),
      bar.node,
    el("ul", { class: "findings-list" }, ...findings), steps);
}

// Detection rate and note; the summary of a video without findings already has the first.
function power(report) {
  const told = report.summary.includes(report.power);
  const words = [told ? "" : report.power, report.note].filter(Boolean).join(" ");
  return words ? el("p", { class: "soft", text: words }) : null;
}

function finding(video, place, one, fine) {
  const about = { do: "fine", kind: one.kind, step: one.step ?? null, video: video.check.video,
    fine: !fine };
  return el("li", { class: fine ? "fine" : "" },
    el("button", { type: "button", title: S.openAt(clockIn(video, one.start)),
      onclick: () => openAt(place, one.start) },
      el("span", { class: `finding ${one.kind}`, text: S.findings[one.kind] ?? one.kind }),
        el("span", { class: "what", text: one.reason }),
      el("span", { class: "when", text: clockIn(video, one.start) })),
    fine ? el("span", { class: "soft", text: S.acceptedNote }) : null,
    one.kind === "rule" ? null : button(fine ? S.notFine : S.thisIsFine, () => edit(about),
      { class: "mark-fine", title: fine ? "" : S.thisIsFineTitle(one.reason) }));
}

function stepTable(report, place) {
  const head = [S.step, S.seen, S.when, S.probability, S.usualShare];
  const order = ({ name }) => store.data.steps.findIndex((each) => each.name === name);
  const steps = [...report.steps].sort((one, other) => order(one) - order(other));
  const rows = steps.map((step) => el("tr", {}, el("th", { scope: "row", text: step.name }),
    el("td", { text: step.seen }),
    el("td", {}, ...step.times.map(([start, end]) =>
      button(`${clockIn(store.data.videos[place], start)} – ${clockIn(
        store.data.videos[place], end)}`, () => openAt(place, start), { class: "quiet" }))),
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

// Check videos; `problems` are shown at the end, with those of the check.
async function run(body, problems = []) {
  report([]);
  try {
    const job = await line.run("api/check", body, ({ item }) => {
      note.textContent = `${S.checking} ${item}`;
    });
    report([...problems, ...failures(job)]);
  } catch (error) {
    report([...problems, error.message]);
  }
  await load();
}

function report(problems) {
  note.textContent = problems.join(" ");
  note.className = problems.length ? "bad" : "soft";
}

async function sendFiles(files) {
  const videos = [];
  const problems = [];
  report([]);
  for (const file of files) {
    try {
      videos.push(await sendFile(file));
    } catch (error) {
      problems.push(error.message);
    }
  }
  if (videos.length) run({ videos }, problems);
  else report(problems);
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
