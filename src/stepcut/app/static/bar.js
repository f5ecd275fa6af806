// A timeline as a bar: a block per segment, a cursor, and the findings of a check.

import { clockIn, el, twoEnds } from "./dom.js";
import { doubts, shines, stepOf, store } from "./store.js";
import { S } from "./strings.js";

export class Bar {
  constructor({ names = false, onpick }) {
    this.names = names;
    this.duration = 1;
    this.blocks = el("div", { class: "blocks" });
    this.findings = el("div", { class: "findings" });
    this.cursor = el("div", { class: "cursor" });
    this.annotated = el("div", { class: "annotations", title: names ? S.doubtTitle : "" });
    this.other = el("div", { class: "blocks beside", hidden: true });
    this.node = el("div", { class: "bar", role: names ? "group" : "img" }, this.blocks, this.annotated,
      this.other, this.findings, this.cursor);
    this.node.addEventListener("click", (event) => onpick(this.timeAt(event)));
    if (names) return;
    this.blocks.addEventListener("pointermove", (event) => {
      const time = this.timeAt(event);
      const part = this.parts.findLast(([start, end]) => start <= time && time <= end);
      this.blocks.dataset.tip = part ? this.tipOf(part) : "";
    }, { passive: true });
  }

  draw(video, chosen = -1, report = null) {
    this.duration = video.duration || 1;
    this.offset = video.offset;
    this.parts = video.parts;
    if (this.names) this.blocks.replaceChildren(...video.parts.map((part, place) =>
      this.block(part, place === chosen)));
    else this.blocks.style.setProperty("--steps", this.stripes(video.parts));
    this.annotated.style.setProperty("--doubts", this.gradient(doubts(video),
      ({ time, end, doubt }) => [time, end, `rgb(from var(--doubt) r g b / ${doubt.toFixed(2)})`]));
    this.annotated.replaceChildren(...(video.annotated || []).map(([start, end]) =>
      this.lay(el("div", { class: "annotated", title: S.annotated }), start, end)));
    this.other.hidden = !video.beside;
    this.other.replaceChildren(...(video.beside || []).map((part) => this.otherBlock(part)));
    this.findings.replaceChildren(...listFindings(report).map((finding) => this.finding(finding)));
    const words = video.parts.map((part) => stepOf(part[2])?.name ?? "").join(", ");
    this.node.setAttribute("aria-label", `${video.name}: ${words}`);
  }

  // Select another block.
  choose(place) {
    this.blocks.querySelector(".chosen")?.classList.remove("chosen");
    this.blocks.children[place]?.classList.add("chosen");
  }

  // All segments as one gradient: an element per segment is slow with hundreds of videos.
  stripes(parts) {
    return this.gradient(parts, ([start, end, number]) => [start, end, shines(number)
      ? stepOf(number).colour
      : `color-mix(in srgb, ${stepOf(number).colour} 16%, transparent)`]);
  }

  // `stripe(part)`: start, end and colour.
  gradient(parts, stripe) {
    const at = (time) => `${((100 * time) / this.duration).toFixed(3)}%`;
    const inOrder = parts.map(stripe).sort((one, other) => one[0] - other[0]);
    const stops = inOrder.map(([start, end, colour]) => {
      const [from, to] = [at(start), at(end)];
      const until = `max(${to} - 1px, ${from} + 1px)`;
      return `transparent ${from}, ${colour} ${from} ${until}, transparent 0`;
    });
    return stops.length ? `linear-gradient(90deg, ${stops.join(", ")})` : "";
  }

  tipOf([start, end, number, confidence]) {
    const quality = confidence === null ? S.byHand : S.confidence(S.percent(confidence));
    return `${stepOf(number).name}\n${S.fromTo(clockIn(this, start), clockIn(this, end))}, ${quality}`;
  }

  block(part, chosen) {
    const [start, end, number] = part;
    const step = stepOf(number);
    const block = el("div", {
      dir: "auto", // supports right-to-left names
      class: `block${chosen ? " chosen" : ""}${shines(number) ? "" : " dim"}`,
      "data-tip": this.tipOf(part),
      style: { background: step.colour, color: step.ink },
    });
    block.append(...twoEnds(step.name));
    return this.lay(block, start, end);
  }

  otherBlock([start, end, name, background, color]) {
    const when = S.fromTo(clockIn(this, start), clockIn(this, end));
    const tip = `${store.data.beside}: ${name}\n${when}`;
    const block = el("div", { class: "block", dir: "auto", "data-tip": tip,
      style: { background, color } });
    if (this.names) block.append(...twoEnds(name));
    return this.lay(block, start, Math.min(end, this.duration));
  }

  finding(finding) {
    const mark = el("div", { class: `finding ${finding.kind}`,
      "data-tip": `${S.findings[finding.kind]}: ${finding.reason}` });
    return this.lay(mark, finding.start, Math.max(finding.end,
      Math.min(finding.start + this.duration / 100, this.duration)));
  }

  lay(node, start, end) {
    node.style.left = `${(100 * start) / this.duration}%`;
    node.style.width = `${(100 * Math.max(end - start, 0)) / this.duration}%`;
    return node;
  }

  // A translation avoids layout on every frame.
  point(time) {
    this.cursor.style.translate = `${(100 * time) / (this.duration || 1)}%`;
  }

  timeAt(event) {
    const box = this.blocks.getBoundingClientRect();
    return ((event.clientX - box.left) / box.width) * this.duration;
  }
}

// Tooltip with the full name of a block, without delay.
const tip = el("div", { class: "tip", hidden: true, role: "presentation" });
document.body.append(tip);
document.addEventListener("pointermove", (event) => {
  const words = event.pointerType !== "touch" && event.target.closest?.("[data-tip]")?.dataset.tip;
  tip.hidden = !words;
  if (!words) return;
  tip.textContent = words;
  const left = Math.min(event.clientX + 12, window.innerWidth - tip.offsetWidth - 4);
  const top = Math.min(event.clientY + 16, window.innerHeight - tip.offsetHeight - 4);
  tip.style.translate = `${Math.max(left, 4)}px ${top}px`;
}, { passive: true });

export function listFindings(report) {
  if (!report) return [];
  return Object.keys(S.findings).flatMap((kind) => report[kind] || [])
    .sort((a, b) => a.start - b.start);
}
