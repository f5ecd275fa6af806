// The grid: a card per video with a picture and its timeline; click a segment to go there.

import { Bar } from "./bar.js";
import { clock, el } from "./dom.js";
import { reportOf, shines, store } from "./store.js";
import { S } from "./strings.js";

const cards = new Map(); // by the key of the video

// Timelines are drawn once their card comes near the screen: with hundreds of videos most never do.
const watcher = new IntersectionObserver((seen) => {
  for (const { target, isIntersecting } of seen) {
    const card = cards.get(target.dataset.video);
    card.near = isIntersecting;
    if (card.near) drawBar(card);
  }
}, { rootMargin: "400px" });

// `choose(place, time)` is called when a person picks a video, or a time in it.
export function drawGrid(choose) {
  const grid = document.getElementById("grid");
  const { videos } = store.data;
  const shown = videos.map((video) => {
    if (!cards.has(video.key)) cards.set(video.key, makeCard(video, choose));
    return cards.get(video.key);
  });
  if (grid.childElementCount !== shown.length || shown.some((card, place) => grid.children[place] !== card.node)) {
    grid.replaceChildren(...shown.map((card) => card.node));
  }
  const asked = Boolean(store.filter.size || store.query);
  const sieve = asked ? `${[...store.filter]} ${store.query}` : "";
  videos.forEach((video, place) => draw(shown[place], video, place, sieve));
}

// Only what has changed is drawn: with hundreds of videos the rest would make every move of the cursor slow.
function draw(card, video, place, sieve) {
  const chosen = place === store.video;
  const part = chosen ? store.part : -1;
  if (card.video === video && card.part === part && card.sieve === sieve && card.chosen === chosen) return;
  Object.assign(card, { video, part, sieve, chosen });
  card.node.hidden = Boolean(sieve) && !video.parts.some((each) => shines(each[2]));
  card.node.classList.toggle("chosen", chosen);
  card.open.setAttribute("aria-current", chosen);
  card.badge.textContent = badgeOf(video);
  card.badge.classList.toggle("wrong", Boolean(video.mistake) || video.check?.ok === false);
  card.badge.title = video.strays ? S.unusualTitle : "";
  card.dirty = true;
  if (card.near) drawBar(card);
}

function drawBar(card) {
  if (!card.dirty) return;
  card.dirty = false;
  card.bar.draw(card.video, card.part, reportOf(card.video));
  card.bar.point(store.times.get(card.video.key) || 0);
}

export function moveCursor(place, time) {
  cards.get(store.data.videos[place].key)?.bar.point(time);
}

function makeCard(video, choose) {
  const placeNow = () => store.data.videos.findIndex((each) => each.key === video.key);
  const bar = new Bar({ onpick: (time) => choose(placeNow(), time) });
  const picture = video.there
    ? el("img", { src: `poster/${video.key}`, alt: "", loading: "lazy", decoding: "async" })
    : el("div", { class: "missing", text: S.notThere });
  const open = el("button", { class: "open", title: S.showVideo(video.name), type: "button", onclick: () => choose(placeNow()) },
    picture, el("span", { class: "name" }, el("bdi", { text: video.name })),
    el("span", { class: "length", text: clock(video.duration, 0) }));
  const badge = el("span", { class: "badge" });
  open.append(badge);
  const node = el("article", { class: "card", "data-video": video.key }, open, bar.node);
  watcher.observe(node);
  return { node, bar, open, badge, near: false, dirty: false };
}

function badgeOf(video) {
  if (!video.editable) return S.checked;
  if (video.clicks.length) return `● ${video.clicks.length}`;
  return video.mistake ? S.mistakeBadge : video.strays ? S.unusualBadge : "";
}
