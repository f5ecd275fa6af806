// DOM helpers: elements with text (never markup), icons, formatted times.

import { S } from "./strings.js";

// Fill elements that name a text (data-s).
export function fillTexts() {
  for (const node of document.querySelectorAll("[data-s]")) node.textContent = S[node.dataset.s];
}

export function el(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key === "class") node.className = value;
    else if (key === "text") node.textContent = value;
    else if (key === "style") Object.assign(node.style, value);
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (key in node && !key.startsWith("aria")) node[key] = value;
    else node.setAttribute(key, value === true ? "true" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const PATHS = {
  play: "M7 4.5v15l12-7.5z", pause: "M6 5h4v14H6zM14 5h4v14h-4z",
  previous: "M6 5h2.5v14H6zM19 5v14L9.5 12z", next: "M15.5 5H18v14h-2.5zM5 5v14l9.5-7z",
  back: "M15.5 5.5 14 4l-8 8 8 8 1.5-1.5L9 12z", on: "M8.5 5.5 10 4l8 8-8 8-1.5-1.5L15 12z",
  loop: "M7 7h9V4l5 4.5-5 4.5v-3H9v3H7zM17 17H8v3l-5-4.5L8 11v3h7v-3h2z",
  undo: "M9 5 4 10l5 5v-3.5h5a3.5 3.5 0 0 1 0 7H8V21h6a6 6 0 0 0 0-12H9z",
  redo: "m15 5 5 5-5 5v-3.5h-5a3.5 3.5 0 0 0 0 7h6V21h-6a6 6 0 0 1 0-12h5z",
  history: "M12 3a9 9 0 1 1-9 9h2a7 7 0 1 0 7-7zM11 7h2v4.600l3.500 2-1 1.700L11 12.700z",
  grid: "M4 4h7v7H4zM13 4h7v7h-7zM4 13h7v7H4zM13 13h7v7h-7z",
  filter: "M4 5h16v2.5l-6 6V20l-4-2v-4.5l-6-6z", more: "M5 10h4v4H5zM10 10h4v4h-4zM15 10h4v4h-4z",
  help: "M11 16h2.2v2.300H11zM12 5.5c-2.700 0-4.300 1.600-4.400 3.800h2.2c.1-1.2.9-1.900 2.100-1.900s2 .7 2 1.700c0 2-3 2-3 5.100h2.2c0-2.2 3.100-2.5 3.100-5.2 0-2-1.700-3.5-4.2-3.5z",
  pin: "M12 3a6 6 0 0 1 6 6c0 4-6 12-6 12S6 13 6 9a6 6 0 0 1 6-6z",
  full: "M4 4h6v2H6v4H4zM14 4h6v6h-2V6h-4zM4 14h2v4h4v2H4zM18 14h2v6h-6v-2h4z",
  sound: "M4 9v6h4l5 4V5L8 9zM15.5 8.500a5 5 0 0 1 0 7l1.400 1.400a7 7 0 0 0 0-9.800z",
  silent: "M4 9v6h4l5 4V5L8 9zM15 10.400l1.400-1.400 2 2 2-2 1.400 1.400-2 2 2 2-1.400 1.400-2-2-2 2L15 14.400l2-2z",
  words: "M3 5h18v14H3zM5 7v10h14V7zM7 13h10v2H7z",
  close: "m6.400 5 5.600 5.600L17.600 5 19 6.400 13.400 12l5.600 5.600-1.400 1.400-5.600-5.600L6.400 19 5 17.600l5.600-5.600L5 6.400z",
  minus: "M5 11h14v2H5z", plus: "M11 5h2v6h6v2h-6v6h-2v-6H5v-2h6z",
};

export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}

export function button(text, onclick, props = {}) {
  return el("button", { type: "button", text, onclick, ...props });
}

export function iconButton(name, label, onclick, keys = "") {
  const title = keys ? `${label} (${keys})` : label;
  return el("button", { class: "icon", title, "aria-label": label, onclick, type: "button" },
    icon(name));
}

// A name that keeps its end when it is shortened, because the end often distinguishes names.
export function twoEnds(name) {
  const most = Math.min(12, Math.ceil(name.length / 2));
  const space = name.indexOf(" ", name.length - most - 1); // prefer whole words
  const place = space >= 0 ? space + 1 : name.length - Math.min(8, most);
  return [el("span", { class: "head", text: name.slice(0, place) }),
    el("span", { class: "tail", text: name.slice(place) })];
}

export function clock(seconds, digits = 1) {
  const scale = 10 ** Math.max(digits, 1);
  const parts = Math.round(Math.max(seconds, 0) * scale);
  const whole = Math.floor(parts / scale);
  const rest = digits ? `.${String(parts % scale).padStart(digits, "0")}` : "";
  const minutes = Math.floor(whole / 60);
  const two = (number) => String(number).padStart(2, "0");
  const head = minutes >= 60 ? `${Math.floor(minutes / 60)}:${two(minutes % 60)}` : `${minutes}`;
  return `${head}:${two(whole % 60)}${rest}`;
}

// A time of a recording, in the time of its file: a recording may be a part of one.
export const clockIn = ({ offset }, seconds, digits = 1) => clock(offset + seconds, digits);

// Seconds that a person typed: 83.4, 1:23.4 or, with `rate`, the frame #312; null if it is none.
export function readTime(text, rate) {
  const frame = /^\s*#(\d+)\s*$/.exec(text);
  if (frame) return Number(frame[1]) / rate;
  if (!/^\s*(\d+:){0,2}\d+([.,]\d*)?\s*$/.test(text)) return null;
  return text.replace(",", ".").split(":").reduce((sum, part) => 60 * sum + Number(part), 0);
}

export function clamp(value, low, high) {
  return Math.min(Math.max(value, low), high);
}
