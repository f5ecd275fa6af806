// The review queue: what is confirmed, which videos are listed in which order, where to look next.

import { button, clock, el } from "./dom.js";
import { changed, current, doubts, edit, isConfirmed, recall, remember, reportOf, say,
  store } from "./store.js";
import { S } from "./strings.js";
import { pickFiles } from "./picker.js";
import { adopt, learnQuietly } from "./teach.js";

const UNSURE = 0.4; // from this doubt on, a segment is worth a look
const FILTERS = {
  all: () => true,
  open: (video) => video.editable && !isConfirmed(video),
  alarm: (video) => video.mistake || video.unusual || reportOf(video)?.ok === false,
  unsure: (video) => doubtOf(video) >= UNSURE,
};
const ORDERS = {
  given: () => 0,
  unsure: (one, other) => doubtOf(other) - doubtOf(one),
  name: (one, other) => one.name.localeCompare(other.name, undefined, { numeric: true }),
  long: (one, other) => other.duration - one.duration,
};

const share = el("progress", { max: 1, "aria-label": S.confirmedShare });
const words = el("p", { class: "soft" });
const search = el("input", { type: "search", placeholder: S.findVideo, "aria-label": S.findVideo,
  autocomplete: "off", oninput: () => changed("filter") });
const which = choice("filter", S.filterVideos, S.videoFilters, "all");
const order = choice("order", S.sortVideos, S.videoOrders, "given");
const all = el("input", { type: "checkbox", "aria-label": S.tickAll, title: S.tickAll,
  onchange: () => tickAll() });
const confirm = button("", () => confirmTicked(), { hidden: true });
const layout = button(S.cards, () => setLayout(layout.ariaPressed !== "true"),
  { title: S.cardsTitle });
const after = el("input", { type: "checkbox", checked: recall("learn after", false),
  onchange: () => remember("learn after", after.checked) });
const afterLabel = el("label", { title: S.learnAfterTitle }, after, S.learnAfter);
const next = button(S.nextDoubt, () => goNext(), { class: "main", title: S.nextDoubtTitle });
const more = button(S.addVideos, () => addVideos());
const seen = new Set(); // what Next has shown: key and time
let listed = { data: null, wish: "", videos: [] };
let choose = null;

export function buildQueue(onchoose) {
  choose = onchoose;
  document.getElementById("queue").append(next, share, words, afterLabel, el("span", { class: "gap" }), all,
    confirm, search, which, order, layout, more);
  setLayout(recall("cards", false));
}

async function addVideos() {
  const videos = await pickFiles(S.addVideos);
  if (videos.length) adopt({ videos });
}

function choice(name, label, texts, usual) {
  const value = recall(name, usual);
  const select = el("select", { "aria-label": label, title: label, onchange: () => {
    remember(name, select.value);
    changed("filter");
  } }, ...Object.entries(texts).map(([key, text]) => el("option", { value: key, text,
    selected: key === value })));
  return select;
}

function setLayout(cards) {
  layout.ariaPressed = cards;
  document.body.dataset.list = cards ? "cards" : "rows";
  remember("cards", cards);
}

const doubtOf = (video) => doubts(video)[0]?.doubt ?? 0;

// The videos that are listed, in their order.
export function queued() {
  const text = search.value.trim().toLowerCase();
  const wish = `${which.value} ${order.value} ${text}`;
  if (listed.data !== store.data || listed.wish !== wish) {
    const videos = store.data.videos.filter((video) => FILTERS[which.value](video)
      && video.name.toLowerCase().includes(text)).sort(ORDERS[order.value]);
    listed = { data: store.data, wish, videos };
  }
  return listed.videos;
}

export function drawQueue() {
  const mine = store.data.videos.filter((video) => video.editable);
  const done = mine.filter(isConfirmed).length;
  const seconds = mine.flatMap((video) => video.annotated).reduce((sum, [start, end]) =>
    sum + end - start, 0);
  const total = mine.reduce((sum, video) => sum + video.duration, 0);
  share.value = total ? seconds / total : 0;
  words.textContent = S.confirmedOf(done, mine.length, clock(seconds, 0), clock(total, 0));
  const open = queued().filter(FILTERS.open);
  const ticked = open.filter((video) => store.ticked.has(video.key));
  all.disabled = !open.length;
  all.checked = ticked.length > 0 && ticked.length === open.length;
  all.indeterminate = ticked.length > 0 && ticked.length < open.length;
  afterLabel.hidden = !store.data.learned;
  more.hidden = !store.data.learned || !store.data.home;
  confirm.hidden = !ticked.length;
  confirm.textContent = S.confirmThese(ticked.length);
}

function tickAll() {
  store.ticked = new Set(all.checked ? queued().filter(FILTERS.open).map((video) => video.key) : []);
  changed("filter");
}

function confirmTicked() {
  const videos = queued().filter((video) => FILTERS.open(video) && store.ticked.has(video.key))
    .map((video) => video.name);
  edit({ do: "confirm", videos }).then((done) => {
    if (!done) return;
    store.ticked.clear();
    learnAfter();
  });
}

// After a confirmation, if a person chose it.
export function learnAfter() {
  if (after.checked && store.data.learned) learnQuietly();
}

// The previous or next video of the list.
export function otherVideo(way) {
  const place = queued().indexOf(current()) + way;
  const video = queued()[place];
  if (video) choose(store.data.videos.indexOf(video));
}

// The least certain segment of this video, then of the least certain other one.
export function goNext() {
  const open = store.data.videos.filter(FILTERS.open);
  const fresh = (video) => doubts(video).filter(({ time, doubt }) => doubt >= UNSURE
    && !seen.has(`${video.key} ${time}`));
  const later = open.filter((video) => video !== current() && !seen.has(video.key))
    .sort(ORDERS.unsure);
  const to = open.includes(current()) && fresh(current()).length ? current() : later[0];
  if (!to) {
    say(open.length ? S.allSeen : S.allConfirmed);
    seen.clear();
    return;
  }
  const time = fresh(to)[0]?.time ?? 0;
  seen.add(to.key).add(`${to.key} ${time}`);
  choose(store.data.videos.indexOf(to), time);
}
