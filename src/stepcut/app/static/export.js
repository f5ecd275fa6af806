// Export: choose what to write, preview the files, write and download them.

import { ask, save } from "./api.js";
import { button, el } from "./dom.js";
import { jobLine } from "./joblist.js";
import { say, store } from "./store.js";
import { S } from "./strings.js";

const things = el("fieldset", { class: "things" });
const formats = el("fieldset", { class: "formats" });
const rate = el("input", { placeholder: "30", size: 10, oninput: () => later() });
const rateLine = el("label", { class: "line-up" }, `${S.framesPerSecond} `, rate);
const folder = el("input", { size: 30, oninput: () => later() });
const files = el("div", { class: "preview", "aria-live": "polite" });
const line = jobLine(S.stages.export);
const done = el("div", { class: "done", "aria-live": "polite" });
const go = button(S.exportGo, write, { class: "main", disabled: true });
const chosen = new Set(["labels"]);
const chosenFormats = new Set();
let timer = 0;
let asked = 0; // previews
let built = false;

export function buildExport(section) {
  section.append(el("h2", { text: S.exportHead }), el("p", { class: "soft", text: S.exportWords }),
    things, formats, rateLine,
    el("label", { class: "line-up" }, `${S.folder} `, folder), files,
      el("div", { class: "row" }, go, line.node), done);
}

export function drawExport(what) {
  if (built && what !== "data" && what !== "view") return;
  if (!built) {
    things.replaceChildren(...Object.entries(S.things).filter(([name]) => store.data.learned
      || name === "labels").map(([name, text]) => box(chosen, name, text)));
    formats.replaceChildren(el("legend", { text: S.formatsOf }),
      ...store.data.formats.map((each) => box(chosenFormats, each.name, each.title)));
    folder.value = `${store.data.title}-export`;
    built = true;
  }
  later();
}

function box(set, name, text) {
  const input = el("input", { type: "checkbox", name, checked: set.has(name), onchange: () => {
    if (input.checked) set.add(name);
    else set.delete(name);
    later();
  } });
  return el("label", {}, input, text);
}

const request = () => ({ what: [...chosen], formats: chosen.has("labels") ? [...chosenFormats] : [],
  rate: rate.value || null, folder: folder.value });

function later() {
  formats.hidden = !chosen.has("labels");
  rateLine.hidden = !chosen.has("labels") || !store.data.formats.some((each) => each.frames
    && chosenFormats.has(each.name));
  clearTimeout(timer);
  timer = setTimeout(preview, 200);
}

async function preview() {
  const mine = (asked += 1);
  const left = !chosen.size ? S.chooseThing
    : chosen.has("labels") && !chosenFormats.size ? S.chooseFormat : "";
  go.disabled = true;
  try {
    if (left) throw new Error(left);
    const found = await ask("api/export", { ...request(), preview: true });
    if (mine !== asked) return;
    const shown = found.files.slice(0, 40);
    files.replaceChildren(el("p", { text: S.willWrite(found.files.length, found.folder) }),
      el("ul", {}, ...shown.map(({ path, about }) => el("li", {}, el("code", { text: path }),
        el("span", { class: "soft", text: ` ${about}` })))),
      ...(found.files.length > shown.length ? [el("p", { class: "soft",
        text: S.more(found.files.length - shown.length) })] : []));
    go.disabled = false;
  } catch (error) {
    if (mine === asked) files.replaceChildren(el("p", { class: "soft", text: error.message }));
  }
}

async function write() {
  go.disabled = true;
  done.replaceChildren();
  try {
    const job = await line.run("api/export", request());
    const { result } = job;
    done.replaceChildren(el("p", { class: "good", text: S.written(result.files.length,
      result.folder) }),
      ...result.problems.map((text) => el("p", { class: "bad", text })),
      button(S.download, () => save(`api/download/${job.id}`)
        .then(say, (error) => say(error.message, true))));
  } catch (error) {
    done.replaceChildren(el("p", { class: "bad", role: "alert", text: error.message }));
  }
  done.scrollIntoView({ block: "nearest" });
  go.disabled = false;
}
