// How reliable the steps are, and merging steps until fewer are left.

import { closer, open } from "./dialogs.js";
import { el } from "./dom.js";
import { edit, stepOf, store } from "./store.js";
import { S } from "./strings.js";

export function showTrust() {
  const { quality, hierarchy } = store.data;
  const low = quality.warning || (quality.right !== null && quality.right < 0.6);
  const body = [el("p", { class: low ? "bad" : "", text: quality.text })];
  let groups = [];
  const join = closer(S.joinThese, () => {
    for (const [into, ...others] of groups) others.forEach((step) =>
      edit({ do: "merge", step, into }));
  }, { class: "main", disabled: true });
  if (hierarchy) {
    const steps = store.data.steps.map((step) => step.number);
    const list = el("ul", { class: "groups" });
    const grain = el("input", { type: "range", min: 1, max: steps.length, value: steps.length,
      "aria-label": S.howMany });
    const words = el("output", {});
    const draw = () => {
      groups = groupsOf(hierarchy, steps, Number(grain.value));
      words.textContent = S.steps(groups.length);
      join.disabled = groups.length === steps.length;
      list.replaceChildren(...groups.map((group) => el("li", {}, ...group.map((number) => {
        const step = stepOf(number);
        return el("span", { class: "chip", text: step.name,
          style: { background: step.colour, color: step.ink } });
      }))));
    };
    grain.addEventListener("input", draw);
    body.push(el("h3", { text: S.fewerSteps }),
      el("p", { text: S.fewerWords }),
      el("label", { class: "grain" }, grain, words), el("div", { class: "scroll" }, list));
    draw();
  }
  open(S.trust, body, closer(S.close), ...(hierarchy ? [join] : []));
}

// Merge steps along the tree until `count` groups are left; steps added by a person stay alone.
function groupsOf({ merges }, steps, count) {
  let groups = steps.map((number) => [number]);
  for (const { a, b } of merges) {
    if (groups.length <= count) break;
    const both = groups.filter((group) => group.some((number) => a.includes(number)
      || b.includes(number)));
    if (both.length > 1) groups = [...groups.filter((group) => !both.includes(group)), both.flat()];
  }
  return groups.sort((one, other) => steps.indexOf(one[0]) - steps.indexOf(other[0]));
}
