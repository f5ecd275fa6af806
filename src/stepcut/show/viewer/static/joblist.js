// A job in the list: kind, progress, result and actions.

import { ask } from "./api.js";
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
  const open = job.state === "waiting" || job.state === "running";
  const stage = [S.stages[job.stage] ?? job.stage, job.item].filter(Boolean).join(": ");
  const label = `${S.jobKinds[job.kind]}: ${job.title}`;
  const result = job.result && S.jobDone[job.kind] ? S.jobDone[job.kind](job.result) : "";
  const skipped = Object.entries(job.result?.skipped || {})
    .map(([name, reason]) => el("li", { text: S.leftOut(name, reason) }));
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
    skipped.length ? el("ul", {}, ...skipped) : null);
}
