// A picker of folders and videos that never leaves the folder of the app.

import { ask } from "./api.js";
import { closer, open } from "./dialogs.js";
import { button, el } from "./dom.js";
import { S } from "./strings.js";

const ROOT = document.body.dataset.root ?? "../../"; // where the app answers, seen from this page

export const lookInto = (path) => ask(`${ROOT}api/folder?path=${encodeURIComponent(path)}`);

// A list of one folder: `onfolder` hears where a person goes, `extra` gives nodes for each file.
export function listing(found, onfolder, extra = () => []) {
  const up = found.path ? [el("li", {}, button(`↑ ${S.upFolder}`, () => onfolder(found.parent), { class: "quiet" }))] : [];
  return el("ul", { class: "listing" }, ...up,
    ...found.folders.map(({ name, path, videos }) => el("li", {},
      button(`${name}/`, () => onfolder(path), { class: "quiet folder" }), el("span", { class: "soft", text: S.folderVideos(videos) }))),
    ...found.videos.map((video) => el("li", {}, ...extra(video))));
}

function pick(title, { files }) {
  return new Promise((resolve) => {
    const chosen = new Set();
    const where = el("p", { class: "soft" });
    const box = el("div", { class: "scroll" });
    let here = "";
    let given = files ? [] : null;
    const tick = ({ name, path }) => {
      const input = el("input", { type: "checkbox", checked: chosen.has(path), onchange: () => {
        if (input.checked) chosen.add(path);
        else chosen.delete(path);
        go.disabled = !chosen.size;
      } });
      return [el("label", {}, input, name)];
    };
    const show = async (path) => {
      try {
        const found = await lookInto(path);
        here = found.path;
        where.textContent = `/${found.path}`;
        box.replaceChildren(listing(found, show, files ? tick : ({ name }) => [el("span", { class: "soft", text: name })]));
      } catch (error) {
        where.textContent = error.message;
      }
    };
    const go = closer(files ? S.chooseVideos : S.useFolder, () => { given = files ? [...chosen] : here; }, { class: "main", disabled: files });
    const dialog = open(title, [where, box], closer(S.cancel), go);
    dialog.addEventListener("close", () => resolve(given));
    show("");
  });
}

export const pickFiles = (title) => pick(title, { files: true });
export const pickFolder = (title) => pick(title, { files: false });
