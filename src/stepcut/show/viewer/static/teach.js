// Learning from corrections: what a person set or confirmed becomes labels, the other videos follow, and it can be taken back.

import { closer, open } from "./dialogs.js";
import { button, el } from "./dom.js";
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
  listNext(next);
  const bar = el("progress", { max: 1, value: 0, hidden: true, "aria-label": "Learning" });
  const problem = el("p", { class: "bad", role: "alert" });
  const go = button("Learn", async () => {
    go.disabled = true;
    bar.hidden = false;
    try {
      const job = await work("api/teach", { revision: store.data.revision }, (share) => { bar.value = share; });
      await load();
      dialog.close();
      showChanges(job.changes);
    } catch (error) {
      problem.textContent = error.message;
      say(error.message, true); // the question may have been closed meanwhile
      bar.hidden = true;
      go.disabled = false;
    }
  }, { class: "main", disabled: !fresh });
  const back = taught ? [closer("Take back the last time", takeBack)] : [];
  const cancel = closer("Cancel");
  const dialog = open("Learn from corrections", [words, next, bar, problem], ...back, cancel, go);
  (fresh ? go : cancel).focus(); // Enter must not take back what was learned
}

// The videos whose labels would help most, with the reason; the list stays empty where that cannot be told.
async function listNext(list) {
  const { videos } = await work("api/suggest", {}, () => {}).catch(() => ({ videos: [] }));
  list.replaceChildren(...videos.map(([video, reason]) => el("li", {}, goTo(video), el("span", { text: reason }))));
  if (videos.length) list.prepend(el("li", { text: "Correct or confirm next, for these help most:" }));
}

function showChanges(changes) {
  const rows = changes.map(({ video, share, labelled }) => el("tr", {}, el("td", {}, goTo(video)),
    el("td", { text: labelled ? "as you said" : share < 0.005 ? "as before" : `${Math.round(100 * share)} % is another step now` })));
  open("What changed", [el("div", { class: "scroll" }, el("table", {}, el("tbody", {}, ...rows)))],
    closer("Take it back", takeBack), closer("Keep", undefined, { class: "main" }));
  say("Learned from your corrections");
}

// Leaves the dialog for a video.
const goTo = (name) => closer(name, () => choose(store.data.videos.findIndex((each) => each.name === name)), { class: "quiet" });
const takeBack = () => send("back", {});
