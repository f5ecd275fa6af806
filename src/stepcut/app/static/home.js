// The start page: all procedures, jobs, and a new procedure.

import { ask } from "./api.js";
import { button, clock, el, fillTexts } from "./dom.js";
import { jobCard } from "./joblist.js";
import { newProcedure } from "./learn.js";
import { S } from "./strings.js";

const main = document.getElementById("main");
const procedures = el("ul", { class: "procedures" });
const jobs = el("ul", { class: "jobs" });
const jobsHead = el("h2", { text: S.jobsTitle });
let seen = "";

function say(words, bad = false) {
  const status = document.getElementById("status");
  status.textContent = words;
  status.classList.toggle("bad", bad);
}

async function refresh() {
  const home = await ask("api/home");
  document.getElementById("where").textContent = S.inFolder(home.folder);
  const now = JSON.stringify(home.procedures);
  if (now !== seen) {
    seen = now;
    procedures.replaceChildren(...(home.procedures.length ? home.procedures.map(card)
      : [el("li", { class: "soft", text: S.noProcedures })]));
  }
  const listed = home.jobs.filter((job) => !["copies", "suggest"].includes(job.kind)).reverse();
  jobsHead.hidden = !listed.length;
  const held = document.activeElement?.dataset?.key;
  jobs.replaceChildren(...listed.map((job) => jobCard(job, refresh, say)));
  if (held) jobs.querySelector(`[data-key="${held}"]`)?.focus();
  say("");
}

function card({ id, title, path, steps, videos, seconds, thumbs, changed, error, restore }) {
  const when = new Date(1000 * changed).toLocaleDateString(document.documentElement.lang,
    { day: "numeric", month: "short", year: "numeric" });
  const facts = error ? S.badProcedure(error)
    : `${S.steps(steps)} · ${S.videos(videos)} · ${clock(seconds, 0)}`;
  const pictures = (thumbs || []).map((key) => el("img", { src: `p/${id}/poster/${key}`, alt: "",
    loading: "lazy", decoding: "async" }));
  const about = el("div", { class: "about" }, el("b", { text: title }),
    el("p", { class: error ? "bad" : "", text: facts }),
    el("p", { text: `${path} · ${S.changed(when)}` }));
  if (restore) about.append(el("p", { text: restore }), button(S.restore, () => mend(id)));
  return el("li", {}, error ? el("div", {}, about) : el("a", { href: `p/${id}/` },
    el("div", { class: "thumbs" }, ...pictures), about));
}

async function mend(id) {
  try {
    await ask("api/restore", { id });
    await refresh();
  } catch (error) {
    say(error.message, true);
  }
}

function route() {
  const wizard = location.hash === "#/new";
  main.replaceChildren(...(wizard ? [newProcedure(say)]
    : [el("h2", { text: S.startTitle }), procedures, jobsHead, jobs]));
  document.getElementById("new").hidden = wizard;
  main.focus();
}

try {
  fillTexts();
  document.getElementById("new").textContent = S.newProcedure;
  window.addEventListener("hashchange", route);
  await refresh();
  route();
  document.body.classList.add("ready");
} catch (error) {
  say(S.cannotShow(error.message), true);
}
setInterval(() => !document.hidden && refresh().catch((error) => say(error.message, true)), 1000);
