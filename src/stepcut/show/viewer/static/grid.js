// The grid: a card per video with a picture and its timeline; click a segment to go there.

import { Bar } from "./bar.js";
import { clock, el } from "./dom.js";
import { shines, store } from "./store.js";

const cards = [];

// `choose(place, time)` is called when a person picks a video, or a time in it.
export function drawGrid(choose) {
  const grid = document.getElementById("grid");
  const { videos } = store.data;
  while (cards.length < videos.length) cards.push(makeCard(cards.length, choose));
  if (grid.childElementCount !== cards.length) grid.replaceChildren(...cards.map((card) => card.node));
  videos.forEach((video, place) => {
    const card = cards[place];
    const asked = store.filter.size || store.query;
    card.node.hidden = Boolean(asked) && !video.parts.some((part) => shines(part[2]));
    card.node.classList.toggle("chosen", place === store.video);
    card.open.setAttribute("aria-current", place === store.video);
    card.badge.textContent = badgeOf(video);
    card.badge.classList.toggle("wrong", Boolean(video.mistake));
    card.badge.title = video.strays ? "Look whether it holds a mistake" : "";
    card.bar.draw(video, place === store.video ? store.part : -1, store.checks.get(place) || video.check);
    card.bar.point(store.times[place] || 0);
  });
}

export function moveCursor(place, time) {
  cards[place]?.bar.point(time);
}

function makeCard(place, choose) {
  const video = store.data.videos[place];
  const bar = new Bar({ onpick: (time) => choose(place, time) });
  const picture = video.there
    ? el("img", { src: `poster/${place}`, alt: "", loading: "lazy", decoding: "async" })
    : el("div", { class: "missing", text: "not there" });
  const open = el("button", { class: "open", title: `Show ${video.name}`, type: "button", onclick: () => choose(place) },
    picture, el("span", { class: "name" }, el("bdi", { text: video.name })),
    el("span", { class: "length", text: clock(video.duration, 0) }));
  const badge = el("span", { class: "badge" });
  open.append(badge);
  return { node: el("article", { class: "card" }, open, bar.node), bar, open, badge };
}

function badgeOf(video) {
  if (!video.editable) return "checked";
  return video.mistake ? "holds a mistake" : video.strays ? "strays most" : "";
}
