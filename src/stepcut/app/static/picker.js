// File picker, limited to the folder of the app.

import { ask } from "./api.js";
import { closer, open } from "./dialogs.js";
import { button, el } from "./dom.js";
import { S } from "./strings.js";

const ROOT = document.body.dataset.root ?? "../../"; // path of the app relative to this page

export const lookInto = (path) => ask(`${ROOT}api/folder?path=${encodeURIComponent(path)}`);

// One folder: `onfolder(path)` opens another one, `extra(file)` returns the nodes of a file.
export function listing(found, onfolder, extra = () => [], labelled = false) {
  const up = found.path ? [el("li", {}, button(`↑ ${S.upFolder}`, () => onfolder(found.parent),
    { class: "quiet" }))] : [];
  return el("ul", { class: "listing" }, ...up,
    ...found.folders.map(({ name, path, videos, labels }) => el("li", {},
      button(`${name}/`, () => onfolder(path), { class: "quiet folder" }),
      el("span", { class: "soft", text: labelled ? S.folderLabels(labels)
        : S.folderVideos(videos) }))),
    ...found.files.map((file) => el("li", {}, ...extra(file))));
}

// Show a listing in a box; the keyboard focus stays inside.
export function fillBox(box, nodes) {
  const held = box.contains(document.activeElement);
  box.replaceChildren(nodes);
  if (held) box.querySelector("button, input")?.focus();
}

// `many`: several videos. `labels`: one label file, or the open folder. Neither: a folder.
function pick(title, { many = false, labels = false }) {
  return new Promise((resolve) => {
    const chosen = new Set();
    const where = el("p", { class: "soft" });
    const box = el("div", { class: "scroll" });
    let here = "";
    let picked = many ? [] : null;
    const tick = ({ name, path }) => {
      const input = el("input", { type: many ? "checkbox" : "radio", name: "file",
        checked: chosen.has(path), onchange: () => {
        if (!many) chosen.clear();
        if (input.checked) chosen.add(path);
        else chosen.delete(path);
        draw();
      } });
      return [el("label", {}, input, name)];
    };
    const show = async (path) => {
      try {
        const found = await lookInto(path);
        here = found.path;
        where.textContent = `/${found.path}`;
        if (!many) chosen.clear();
        const plain = ({ name }) => [el("span", { class: "soft", text: name })];
        fillBox(box, listing({ ...found, files: labels ? found.labels : found.videos }, show,
          many || labels ? tick : plain, labels));
        draw();
      } catch (error) {
        where.textContent = error.message;
      }
    };
    const go = closer("", () => { picked = many ? [...chosen] : [...chosen][0] ?? here; },
      { class: "main" });
    const draw = () => {
      go.textContent = many ? S.chooseVideos : chosen.size ? title : S.useFolder;
      go.disabled = many && !chosen.size;
    };
    draw();
    const dialog = open(title, [where, box], closer(S.cancel), go);
    dialog.addEventListener("close", () => resolve(picked));
    show("");
  });
}

export const pickFiles = (title) => pick(title, { many: true });
export const pickFolder = (title) => pick(title, {});
export const pickLabels = (title) => pick(title, { labels: true });
