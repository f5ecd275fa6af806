// Learning from corrections: what a person set or confirmed becomes labels, the other videos follow, and it can be taken back.

import { open } from "./dialogs.js";
import { el } from "./dom.js";
import { choose } from "./stage.js";
import { load, say, send, store, work } from "./store.js";

export const canTeach = () => store.data.learned && (store.data.taught || store.data.videos.some((video) => video.corrected));

export function askTeach() {
  const { videos, taught } = store.data;
  const mine = videos.filter((video) => video.editable);
  const known = mine.filter((video) => video.known.length).length;
  const fresh = mine.some((video) => video.corrected);
  const words = el("p", { text: fresh
    ? `${known} of ${mine.length} videos have stretches that you set or confirmed. They are kept as they are; the steps are learned again from them, and the other videos follow.`
    : "Nothing was corrected or confirmed since it was taught." });
  const next = el("ul", { class: "next" });
  listNext(next, () => dialog.close());
  const bar = el("progress", { max: 1, value: 0, hidden: true, "aria-label": "Learning" });
  const problem = el("p", { class: "bad", role: "alert" });
  const go = el("button", { class: "main", text: "Learn", type: "button", disabled: !fresh, onclick: async () => {
    go.disabled = true;
    bar.hidden = false;
    try {
      const job = await work("api/teach", { revision: store.data.revision }, (share) => { bar.value = share; });
      await load();
      dialog.close();
      showChanges(job.changes);
    } catch (error) {
      problem.textContent = error.message;
      bar.hidden = true;
      go.disabled = false;
    }
  } });
  const back = taught ? [el("button", { text: "Take back the last time", type: "button", onclick: () => { takeBack(); dialog.close(); } })] : [];
  const dialog = open("Learn from corrections", words, next, bar, problem, el("div", { class: "end" }, ...back,
    el("button", { text: "Cancel", type: "button", onclick: () => dialog.close() }), go));
}

// The videos whose labels would help most, with the reason; the list stays empty where that cannot be told.
async function listNext(list, leave) {
  const { videos } = await work("api/suggest", {}, () => {}).catch(() => ({ videos: [] }));
  list.replaceChildren(...videos.map(([video, reason]) => el("li", {},
    el("button", { class: "quiet", type: "button", text: video, onclick: () => {
      leave();
      choose(store.data.videos.findIndex((each) => each.name === video));
    } }), el("span", { text: reason }))));
  if (videos.length) list.prepend(el("li", { text: "Correct or confirm next, for these help most:" }));
}

function showChanges(changes) {
  const rows = changes.map(({ video, share, labelled }) => el("tr", {},
    el("td", {}, el("button", { class: "quiet", type: "button", text: video, onclick: () => {
      dialog.close();
      choose(store.data.videos.findIndex((each) => each.name === video));
    } })),
    el("td", { text: labelled ? "as you said" : share < 0.005 ? "as before" : `${Math.round(100 * share)} % is another step now` })));
  const dialog = open("What changed", el("div", { class: "scroll" }, el("table", {}, el("tbody", {}, ...rows))),
    el("div", { class: "end" },
      el("button", { text: "Take it back", type: "button", onclick: () => { takeBack(); dialog.close(); } }),
      el("button", { class: "main", text: "Keep", type: "button", onclick: () => dialog.close() })));
  say("Learned from your corrections");
}

const takeBack = () => send("back", {});
