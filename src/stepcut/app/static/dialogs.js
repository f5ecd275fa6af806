// Dialogs: merge a step, name a new one, the list of keys.

import { button, el } from "./dom.js";
import { edit, stepOf, store } from "./store.js";
import { S } from "./strings.js";

// A dialog of these nodes and a row of buttons.
export function open(title, body, ...buttons) {
  const dialog = el("dialog", { "aria-label": title, onclose: () => dialog.remove() },
    el("h2", { text: title }), ...body, el("div", { class: "end" }, ...buttons));
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

// A button that acts and closes its dialog.
export function closer(text, act = () => {}, props = {}) {
  const node = button(text, () => {
    act();
    node.closest("dialog").close();
  }, props);
  return node;
}

export function showHelp() {
  const rows = (keys) => keys.map(([key, words]) => el("tr", {},
    el("th", { scope: "row" }, el("kbd", { text: key })), el("td", { text: words })));
  open(S.keys, [el("div", { class: "scroll keys" }, ...S.keyGroups.map(([title, keys]) =>
    el("table", {}, el("caption", { text: title }), el("tbody", {}, ...rows(keys)))))],
  closer(S.close));
}

export function askMerge(number) {
  const step = stepOf(number);
  const others = store.data.steps.filter((each) => each.number !== number);
  const into = el("select", { "aria-label": S.mergeInto },
    ...others.map((each) => el("option", { value: each.number, text: each.name })),
    el("option", { value: "", text: S.background }));
  const go = () => edit({ do: "merge", step: number, into: into.value === "" ? null
    : Number(into.value) });
  open(S.mergeTitle(step.name), [el("p", { text: S.mergeWords }), into],
    closer(S.cancel), closer(S.merge, go, { class: "main" }));
}

export function askName(title, then) {
  const field = el("input", { "aria-label": S.name, maxLength: 200, size: 36,
    onkeydown: (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault(); // else Enter also presses the button that regains focus
      go();
    } });
  const go = () => {
    if (!field.value.trim()) return;
    then(field.value.trim());
    dialog.close();
  };
  const dialog = open(title, [field], closer(S.cancel), button(S.add, go, { class: "main" }));
  field.focus();
}
