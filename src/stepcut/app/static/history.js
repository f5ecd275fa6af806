// Who changed what and when, the latest first, and going back to any point.

import { ask } from "./api.js";
import { closer, open } from "./dialogs.js";
import { el } from "./dom.js";
import { say, send } from "./store.js";
import { S } from "./strings.js";

export async function showHistory() {
  try {
    const { events } = await ask("api/history");
    open(S.history, [el("div", { class: "scroll" }, el("table", { class: "changes" },
      el("tbody", {}, ...events.reverse().map(row))))], closer(S.close));
  } catch (error) {
    say(error.message, true);
  }
}

const row = ({ id, time, author, what, now }) => el("tr", {},
  el("td", { class: "soft", text: new Date(time).toLocaleString() }),
  el("td", { dir: "auto", text: author }), el("td", { dir: "auto", text: what }),
  el("td", {}, now ? S.isNow : closer(S.goBack, () => send("back", { to: id }),
    { "aria-label": S.goBackTo(what) })));
