// The list of videos: a row or a card each, with its timeline.

import { Bar } from "./bar.js";
import { clock, el } from "./dom.js";
import { queued } from "./queue.js";
import { changed, current, isConfirmed, reportOf, shines, store } from "./store.js";
import { S } from "./strings.js";

const AT_ONCE = 60;
const cards = new Map(); // by the key of the video
let coming = 0;

// Cards are filled when they come near the screen.
const watcher = new IntersectionObserver((seen) => {
  for (const { target, isIntersecting } of seen) {
    const card = cards.get(target.dataset.video);
    card.near = isIntersecting;
    if (card.near) {
      fill(card);
      drawBar(card);
    }
  }
}, { rootMargin: "400px" });

// `choose(place, time)` is called on a click on a video or a time.
export function drawGrid(choose) {
  const grid = document.getElementById("grid");
  const fresh = store.data.videos.filter((video) => !cards.has(video.key));
  for (const video of fresh.slice(0, AT_ONCE)) cards.set(video.key, makeCard(video, choose));
  clearTimeout(coming);
  if (fresh.length > AT_ONCE) coming = setTimeout(drawGrid, 0, choose); // keeps the page responsive
  const videos = queued().filter((video) => cards.has(video.key));
  const shown = videos.map((video) => cards.get(video.key));
  if (grid.childElementCount !== shown.length || shown.some((card, place) =>
    grid.children[place] !== card.node)) {
    grid.replaceChildren(...shown.map((card) => card.node));
  }
  const sieve = store.filter.size || store.query ? `${[...store.filter]} ${store.query}` : "";
  videos.forEach((video, place) => draw(shown[place], video, sieve));
}

// Draw changed cards only, for speed with hundreds of videos.
function draw(card, video, sieve) {
  const chosen = video === current();
  const part = chosen ? store.part : -1;
  card.tick.checked = store.ticked.has(video.key);
  if (card.video === video && card.part === part && card.sieve === sieve
    && card.chosen === chosen) return;
  Object.assign(card, { video, part, sieve, chosen });
  card.tick.disabled = !video.editable || isConfirmed(video);
  card.done.hidden = !isConfirmed(video);
  card.node.hidden = Boolean(sieve) && !video.parts.some((each) => shines(each[2]));
  card.node.classList.toggle("chosen", chosen);
  card.open.setAttribute("aria-current", chosen);
  card.badge.textContent = badgeOf(video);
  card.badge.classList.toggle("wrong", Boolean(video.mistake) || video.check?.ok === false);
  card.badge.title = video.unusual ? S.unusualTitle : "";
  card.dirty = true;
  if (card.near) drawBar(card);
}

function drawBar(card) {
  if (!card.dirty || !card.bar) return;
  card.dirty = false;
  card.bar.draw(card.video, card.part, reportOf(card.video));
  card.bar.point(store.times.get(card.video.key) || 0);
}

export function moveCursor(place, time) {
  cards.get(store.data.videos[place].key)?.bar?.point(time);
}

function makeCard(video, choose) {
  const go = (time) => choose(store.data.videos.findIndex((each) => each.key === video.key), time);
  const picture = el("div", { class: "picture", text: video.there ? "" : S.notThere });
  const badge = el("span", { class: "badge" });
  const done = el("span", { class: "done good", role: "img", "aria-label": S.confirmed,
    title: S.confirmed, text: "✓" });
  const tick = el("input", { type: "checkbox", "aria-label": S.tickVideo(video.name),
    onchange: () => {
      if (tick.checked) store.ticked.add(video.key);
      else store.ticked.delete(video.key);
      changed("filter");
    } });
  const open = el("button", { class: "open", title: S.showVideo(video.name), type: "button",
    onclick: () => go() },
    picture, done, el("span", { class: "name" }, el("bdi", { text: video.name })), badge,
    el("span", { class: "length", text: clock(video.duration, 0) }));
  const node = el("article", { class: "card", "data-video": video.key }, tick, open);
  watcher.observe(node);
  return { node, go, picture, open, badge, done, tick, bar: null, near: false, dirty: false };
}

function fill(card) {
  if (card.bar) return;
  card.bar = new Bar({ onpick: card.go });
  card.node.append(card.bar.node);
  if (card.video.there) card.picture.append(el("img", { src: `poster/${card.video.key}`, alt: "",
    decoding: "async", loading: "lazy" }));
}

function badgeOf(video) {
  if (!video.editable) return S.checked;
  if (video.changed) return S.changedBadge;
  const coded = video.clicks.length + (video.onsets?.length ?? 0);
  if (coded) return `● ${coded}`;
  return video.mistake ? S.mistakeBadge : video.unusual ? S.unusualBadge : "";
}
