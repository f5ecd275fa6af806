// A timeline as a bar: a block per segment, a cursor, and what a check found.

import { clock, el, twoEnds } from "./dom.js";
import { shines, stepOf, store } from "./store.js";
import { S } from "./strings.js";

export class Bar {
  constructor({ names = false, onpick }) {
    this.names = names;
    this.blocks = el("div", { class: "blocks" });
    this.findings = el("div", { class: "findings" });
    this.cursor = el("div", { class: "cursor" });
    this.known = el("div", { class: "knowns" });
    this.other = el("div", { class: "blocks beside", hidden: true });
    this.node = el("div", { class: "bar", role: names ? null : "img" }, this.blocks, this.known, this.other, this.findings, this.cursor);
    this.node.addEventListener("click", (event) => {
      const box = this.blocks.getBoundingClientRect();
      onpick(((event.clientX - box.left) / box.width) * this.duration);
    });
  }

  draw(video, chosen = -1, report = null) {
    this.duration = video.duration || 1;
    this.blocks.replaceChildren(...video.parts.map((part, place) => this.block(part, place === chosen)));
    this.known.replaceChildren(...(video.known || []).map(([start, end]) =>
      this.lay(el("div", { class: "known", title: S.known }), start, end)));
    this.other.hidden = !video.beside;
    this.other.replaceChildren(...(video.beside || []).map((part) => this.otherBlock(part)));
    this.findings.replaceChildren(...listFindings(report).map((finding) => this.finding(finding)));
    const words = video.parts.map((part) => stepOf(part[2])?.name ?? "").join(", ");
    this.node.setAttribute("aria-label", `${video.name}: ${words}`);
  }

  block([start, end, number, confidence], chosen) {
    const step = stepOf(number);
    const sure = confidence === null ? S.byHand : S.confidence(S.percent(confidence));
    const block = el("div", {
      dir: "auto", // a name from right to left has its beginning at the right
      class: `block${chosen ? " chosen" : ""}${shines(number) ? "" : " dim"}`,
      "data-tip": `${step.name}\n${S.fromTo(clock(start), clock(end))}, ${sure}`,
      style: { background: step.colour, color: step.ink },
    });
    if (this.names) block.append(...twoEnds(step.name));
    return this.lay(block, start, end);
  }

  otherBlock([start, end, name, background, color]) {
    const tip = `${store.data.beside}: ${name}\n${S.fromTo(clock(start), clock(end))}`;
    const block = el("div", { class: "block", dir: "auto", "data-tip": tip, style: { background, color } });
    if (this.names) block.append(...twoEnds(name));
    return this.lay(block, start, Math.min(end, this.duration));
  }

  finding(finding) {
    const mark = el("div", { class: `finding ${finding.kind}`, "data-tip": `${S.findings[finding.kind]}: ${finding.reason}` });
    return this.lay(mark, finding.start, Math.max(finding.end, Math.min(finding.start + this.duration / 100, this.duration)));
  }

  lay(node, start, end) {
    node.style.left = `${(100 * start) / this.duration}%`;
    node.style.width = `${(100 * Math.max(end - start, 0)) / this.duration}%`;
    return node;
  }

  point(time) {
    this.cursor.style.left = `${(100 * time) / (this.duration || 1)}%`;
  }
}

// The full name of a block while the pointer is on it: at once, and however narrow the block is.
const tip = el("div", { class: "tip", hidden: true, role: "presentation" });
document.body.append(tip);
document.addEventListener("pointermove", (event) => {
  const words = event.pointerType !== "touch" && event.target.closest?.("[data-tip]")?.dataset.tip;
  tip.hidden = !words;
  if (!words) return;
  tip.textContent = words;
  const left = Math.min(event.clientX + 12, window.innerWidth - tip.offsetWidth - 4);
  tip.style.translate = `${Math.max(left, 4)}px ${Math.min(event.clientY + 16, window.innerHeight - tip.offsetHeight - 4)}px`;
}, { passive: true });

export function listFindings(report) {
  if (!report) return [];
  return Object.keys(S.findings).flatMap((kind) => report[kind] || []).sort((a, b) => a.start - b.start);
}
