// Jobs: one in the list, with its progress, result and actions, and one that a page waits for.

import { ask, isOpen, work } from "./api.js";
import { button, el } from "./dom.js";
import { S } from "./strings.js";

const TABS = { check: "#/check", export: "#/export" }; // where the results are

export function jobCard(job, refresh, say) {
  const act = (verb, text) => button(text, async () => {
    try {
      await ask(`api/jobs/${job.id}/${verb}`, {});
      await refresh();
    } catch (error) {
      say(error.message, true);
    }
  }, { "data-key": `${verb}${job.id}` });
  const open = isOpen(job);
  const stage = [S.stages[job.stage] ?? job.stage, job.item, job.left && S.timeLeft(job.left)]
    .filter(Boolean).join(": ");
  const label = `${S.jobKinds[job.kind]}: ${job.title}`;
  const result = job.result && S.jobDone[job.kind] ? S.jobDone[job.kind](job.result) : "";
  const problems = [...Object.entries(job.result?.skipped || {}).map((one) => S.leftOut(...one)),
    ...failures(job)];
  return el("li", { class: `job ${job.state}` },
    el("div", { class: "row" }, el("b", { text: label }),
      el("span", { class: job.state === "failed" ? "bad" : "soft", text: S.jobStates[job.state] }),
      el("span", { class: "soft", text: open ? stage : result }), el("span", { class: "gap" }),
      job.procedure && job.state === "done" ? el("a", { class: "button",
        href: `p/${job.procedure}/${TABS[job.kind] ?? ""}`, text: S.openProcedure }) : null,
      open ? act("cancel", S.cancel) : null,
      ["cancelled", "failed"].includes(job.state) ? act("resume", S.resume) : null,
      open ? null : act("forget", S.forget)),
    open ? el("progress", { max: 1, value: job.share, "aria-label": label }) : null,
    job.error ? el("p", { class: "bad", text: job.error }) : null,
    problems.length ? el("ul", {}, ...problems.map((text) => el("li", { text }))) : null);
}

// The videos that a check could not read, with reasons.
export const failures = (job) => Object.entries(job.result?.failed || {})
  .map(([path, reason]) => S.notChecked(path.split("/").at(-1), reason));

// A progress bar with a button that cancels; `run` starts a job and waits for it.
export function jobLine(label) {
  let job = null;
  const bar = el("progress", { max: 1, "aria-label": label });
  const stop = button(S.cancel, () => ask(`api/jobs/${job.id}/cancel`, {}).catch(() => {}));
  const node = el("div", { class: "row", hidden: true }, bar, stop);
  const run = async (path, body, onprogress = () => {}) => {
    bar.value = 0;
    stop.disabled = true;
    node.hidden = false;
    try {
      return await work(path, body, (now) => {
        job = now;
        stop.disabled = false;
        bar.value = now.share;
        onprogress(now);
      });
    } finally {
      node.hidden = true;
    }
  };
  return { node, run };
}
