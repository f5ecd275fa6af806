// The large timeline: ruler, zoom, movable boundaries, and selection of a range.

import { Bar } from "./bar.js";
import { clamp, clock, clockIn, el } from "./dom.js";
import { changed, current, edit, stepOf, store } from "./store.js";
import { S } from "./strings.js";

export class Track {
  constructor({ onpick, onseek }) {
    this.onpick = onpick;
    this.onseek = onseek;
    this.zoom = 1;
    this.bar = new Bar({ names: true, onpick: (time) => !this.dragged && onpick(time) });
    this.ruler = el("div", { class: "ruler", title: S.dragTimeline });
    this.range = el("div", { class: "range", hidden: true });
    this.handles = el("div", { class: "handles" });
    this.pins = el("div", { class: "pins" });
    this.wide = el("div", { class: "wide" }, this.ruler, this.bar.node, this.range, this.handles,
      this.pins);
    this.node = el("div", { class: "track", role: "group", "aria-label": S.timelineLabel },
      this.wide);
    this.node.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.altKey) return;
      event.preventDefault();
      this.zoomTo(this.zoom * (event.deltaY < 0 ? 1.25 : 0.8), this.timeAt(event));
    }, { passive: false });
    this.node.addEventListener("scroll", () => this.drawRuler(), { passive: true });
    for (const node of [this.ruler, this.bar.node]) {
      node.addEventListener("pointerdown", (event) => this.scrub(event, node));
    }
  }

  timeAt(event) {
    const box = this.wide.getBoundingClientRect();
    return clamp((event.clientX - box.left) / box.width, 0, 1) * this.bar.duration;
  }

  // `same`: only the selected segment has changed.
  draw(report, same) {
    if (same) {
      this.bar.choose(store.part);
      return;
    }
    const video = current();
    const held = document.activeElement?.closest?.(".handle, .pin")?.dataset.key;
    this.bar.draw(video, store.part, report);
    this.drawRuler();
    // Keep a boundary that is being dragged.
    if (!this.dragged) {
      this.handles.replaceChildren(...(video.editable && !store.tapping ? boundaries(video)
        .map((one) => this.handle(video, one)) : []));
      this.pins.replaceChildren(...["click", "onset"].flatMap((kind) =>
        (video[`${kind}s`] || []).map((one, place) => this.pin(video, kind, one, place))));
    }
    this.node.classList.toggle("pinned", this.pins.childElementCount > 0);
    this.range.hidden = !store.range;
    if (store.range) this.bar.lay(this.range, ...store.range);
    if (held) this.wide.querySelector(`[data-key="${held}"]`)?.focus();
  }

  // Draw visible marks only: a zoomed hour has thousands.
  drawRuler() {
    const { scrollLeft, clientWidth } = this.node;
    const { duration } = this.bar;
    const { offset } = current();
    const second = ((clientWidth || 800) * this.zoom) / duration; // pixels
    const span = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800,
      3600].find((each) => each * second > 64) || 3600;
    const ticks = [];
    const last = Math.min((scrollLeft + clientWidth) / second, duration - 1e-6) + offset;
    const first = Math.floor((offset + scrollLeft / second) / span);
    for (let place = first; place * span <= last; place += 1) {
      if (place * span < offset) continue;
      const tick = el("span", { text: clock(place * span, span < 1 ? 1 : 0) });
      tick.style.left = `${(100 * (place * span - offset)) / duration}%`;
      ticks.push(tick);
    }
    this.ruler.replaceChildren(...ticks);
  }

  zoomTo(zoom, around) {
    this.zoom = clamp(zoom, 1, Math.max(1, this.bar.duration / 2));
    this.wide.style.width = `${100 * this.zoom}%`;
    const share = around / this.bar.duration;
    this.node.scrollLeft = share * this.wide.clientWidth - this.node.clientWidth / 2;
    this.drawRuler();
  }

  point(time, follow) {
    this.bar.point(time);
    if (!follow || this.zoom === 1) return;
    const at = (time / this.bar.duration) * this.wide.clientWidth;
    const { scrollLeft, clientWidth } = this.node;
    if (at < scrollLeft || at > scrollLeft
      + clientWidth) this.node.scrollLeft = at - clientWidth / 5;
  }

  // Dragging shows the video there; with Shift it selects a range.
  scrub(event, node) {
    if (event.button) return;
    const from = this.timeAt(event);
    const over = new AbortController();
    node.setPointerCapture(event.pointerId);
    const move = (now) => {
      if (!this.dragged && Math.abs(now.clientX - event.clientX) < 3) return; // a click
      this.dragged = true;
      const to = this.timeAt(now);
      if (event.shiftKey) {
        this.range.hidden = false;
        this.bar.lay(this.range, Math.min(from, to), Math.max(from, to));
      }
      this.onseek(to);
    };
    const end = (now) => {
      over.abort();
      if (!this.dragged) {
        if (node === this.ruler) this.onseek(from);
        return;
      }
      const to = this.timeAt(now);
      if (!event.shiftKey) this.onpick(to);
      store.range = event.shiftKey ? [Math.min(from, to), Math.max(from, to)] : null;
      setTimeout(() => {
        this.dragged = false;
        changed("range");
      }, 0);
    };
    node.addEventListener("pointermove", move, { signal: over.signal });
    for (const kind of ["pointerup", "pointercancel"]) node.addEventListener(kind, end,
      { signal: over.signal });
  }

  handle(video, { place, edge, time, low, high }) {
    const label = S.edgeOf(S.edges[edge], stepOf(video.parts[place][2]).name);
    const node = el("div", { class: "handle", role: "slider", tabIndex: 0, "aria-label": label,
      title: S.edgeTitle(label) });
    node.dataset.key = `${place}${edge}`;
    return this.slide(node, { time, low, high,
      preview: (to) => this.resize(video, place, edge, to),
      commit: (to) => edit({ do: "move", video: video.name, part: place, edge, time: to }) });
  }

  // A click or an onset (`kind`) that can be dragged, moved by keys and removed.
  pin(video, kind, [time, number], place) {
    const { name, colour } = stepOf(number) ?? { name: S.background, colour: "var(--soft)" };
    const node = el("div", { class: `pin ${kind}`, role: "slider", tabIndex: 0,
      "aria-label": S.pinOf[kind](name, clockIn(video, time)),
      "data-tip": S.pinTitle(name, clockIn(video, time)), style: { color: colour } });
    node.dataset.key = `${kind}${place}`;
    const remove = () => edit({ do: `remove_${kind}`, video: video.name, [kind]: place });
    node.addEventListener("keydown", (event) => {
      if (event.key !== "Delete" && event.key !== "Backspace") return;
      event.preventDefault();
      event.stopPropagation();
      node.letGo(); // discard an unsaved move
      remove();
    });
    node.addEventListener("dblclick", remove);
    return this.slide(node, { time, low: 0, high: video.duration, preview: () => {},
      commit: (to) => edit({ do: `move_${kind}`, video: video.name, [kind]: place, time: to }) });
  }

  // Let a node slide along the timeline by pointer or arrow keys.
  slide(node, { time, low, high, preview, commit }) {
    let now = time;
    let timer = 0;
    node.setAttribute("aria-valuemin", low);
    node.setAttribute("aria-valuemax", high);
    const show = () => {
      node.style.left = `${(100 * now) / this.bar.duration}%`;
      node.setAttribute("aria-valuenow", now.toFixed(3));
      node.setAttribute("aria-valuetext", clockIn(current(), now));
    };
    const go = (to) => {
      now = clamp(to, low, high);
      show();
      preview(now);
    };
    node.letGo = () => {
      clearTimeout(timer);
      timer = 0;
      store.pending = null;
    };
    const finish = async () => {
      node.letGo();
      if (Math.abs(now - time) > 0.0005) await commit(now);
    };
    show();
    node.addEventListener("keydown", (event) => {
      const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!way) return;
      event.preventDefault();
      event.stopPropagation();
      go(now + way * (event.shiftKey ? 1 : 1 / store.rate));
      this.onseek(now);
      clearTimeout(timer);
      store.pending = finish;
      timer = setTimeout(finish, 350); // a held key is one edit
    });
    node.addEventListener("blur", () => timer && finish());
    node.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      node.focus();
      node.setPointerCapture(event.pointerId);
      this.dragged = true;
      const move = (here) => { go(this.timeAt(here)); this.onseek(now); };
      node.addEventListener("pointermove", move);
      const end = ({ type }) => {
        node.removeEventListener("pointermove", move);
        const moved = type === "pointerup" && Math.abs(now - time) > 0.0005;
        if (moved) finish();
        setTimeout(() => {
          this.dragged = false;
          if (!moved) changed("drag"); // redraw the saved state
        }, 0);
      };
      for (const event of ["pointerup", "pointercancel"]) node.addEventListener(event, end,
        { once: true });
    });
    return node;
  }

  // Preview a boundary while it is dragged.
  resize(video, place, edge, time) {
    const blocks = this.bar.blocks.children;
    const [start, end] = video.parts[place];
    if (edge === "start") this.bar.lay(blocks[place], time, end);
    else {
      this.bar.lay(blocks[place], start, time);
      const next = video.parts.findIndex((part) => part[0] < part[1]
        && Math.abs(part[0] - end) < 1e-6);
      if (next >= 0) this.bar.lay(blocks[next], time, video.parts[next][1]);
    }
  }
}

// All boundaries: ends of segments, and starts that do not touch an end.
export function boundaries(video) {
  const least = 0.04;
  // point events have no boundary
  const solid = video.parts.map((part, place) => [...part.slice(0, 2), place])
    .filter(([start, end]) => start < end);
  return solid.flatMap(([start, end, place], at) => {
    const before = solid[at - 1];
    const after = solid[at + 1];
    const touches = after && Math.abs(after[0] - end) < 1e-6;
    const high = touches ? after[1] - least : after ? after[0] : video.duration;
    const found = [{ place, edge: "end", time: end, low: start + least, high }];
    if (!before || Math.abs(before[1] - start) >= 1e-6) {
      found.unshift({ place, edge: "start", time: start, low: before ? before[1] : 0,
        high: end - least });
    }
    return found;
  });
}
