// One recording: its video, a copy that the browser can play, or its signals.

import { ask } from "./api.js";
import { copies, needCopy } from "./copies.js";
import { el } from "./dom.js";
import { drawSignals } from "./signals.js";
import { S } from "./strings.js";

export class Player {
  // `brief`: short progress notes, for one of many players.
  constructor(label, { muted = true, brief = false } = {}) {
    this.brief = brief;
    this.wanted = false; // play was pressed
    this.video = el("video", { preload: "metadata", playsInline: true, muted, "aria-label": label,
      tabIndex: -1 });
    this.canvas = el("canvas", { class: "signals", hidden: true, role: "img" });
    this.line = el("div", { class: "signal-line", hidden: true });
    this.note = el("p", { class: "note", hidden: true, role: "status" });
    this.words = el("p", { class: "subtitle", hidden: true, "aria-hidden": "true" });
    this.node = el("div", { class: "screen" }, this.video, this.canvas, this.line, this.words,
      this.note);
    this.key = null;
    this.offset = 0; // seconds of the file at which the recording starts
    this.ready = false; // whether the video has reached `start`
    this.next = null; // where to seek after the present seek
    this.signals = null;
    this.clock = null; // of a recording without a video, while it plays
    this.rate = 1;
    this.onevent = () => {};
    this.video.addEventListener("error", () => this.cannotPlay());
    this.video.addEventListener("loadedmetadata", () => {
      if (!this.video.videoWidth) this.cannotPlay(); // sound only: unsupported video codec
      else this.standAtStart();
    });
    this.video.addEventListener("timeupdate", () => this.stopAtEnd());
    this.video.addEventListener("seeked", () => this.next !== null && this.seek(this.next));
    for (const event of ["play", "pause", "ended", "emptied", "seeked", "timeupdate"]) {
      this.video.addEventListener(event, () => this.onevent(event));
    }
    copies.addEventListener("change", () => this.tryCopy());
  }

  open(video, time = 0) {
    if (video.key === this.key) {
      this.seek(time);
      return;
    }
    const playing = this.key !== null && !this.paused;
    Object.assign(this, { key: video.key, start: time, waiting: false, begun: false, copied: false,
      signals: null, duration: video.duration, offset: video.offset, part: video.part,
      clock: null });
    this.showSignals(null);
    this.warning = video.changed ? S.videoChanged : "";
    this.showNote(this.warning);
    this.video.poster = video.there ? `poster/${video.key}` : ""; // no poster for missing videos
    if (!video.there) {
      this.load("");
      this.findSignals(video);
      return;
    }
    if (needCopy(video.key)) this.cannotPlay();
    else this.load(`video/${video.key}`);
    if (playing) this.play();
  }

  close() {
    this.key = null;
    this.pause();
    this.load("");
  }

  load(address) {
    this.ready = false;
    this.next = null;
    if (address) {
      this.video.src = address;
      this.setRate(this.rate);
      return;
    }
    this.video.removeAttribute("src");
    this.video.load(); // frees the decoder
  }

  get paused() {
    return this.signals ? !this.clock : this.video.paused;
  }

  play() {
    this.wanted = true;
    if (this.waiting && !this.begun) return Promise.resolve();
    if (this.part && this.time >= this.duration - 0.01) this.seek(0);
    if (!this.signals) return this.video.play().catch(() => {}); // paused or changed meanwhile
    this.clock = { began: performance.now(), from: this.time >= this.duration ? 0 : this.time };
    this.onevent("play");
    return Promise.resolve();
  }

  pause() {
    this.wanted = false;
    if (!this.signals) {
      this.video.pause();
      return;
    }
    this.start = this.time;
    this.clock = null;
    this.onevent("pause");
  }

  setRate(rate) {
    if (this.clock) this.clock = { began: performance.now(), from: this.time };
    this.rate = rate;
    this.video.defaultPlaybackRate = this.video.playbackRate = rate;
  }

  seek(time) {
    this.start = time;
    if (this.clock) this.clock = { began: performance.now(), from: time };
    if (this.ready) {
      this.next = this.video.seeking ? time : null; // each seek shows its frame
      if (this.next === null) this.video.currentTime = this.offset + time;
    }
    this.moveLine();
  }

  standAtStart() {
    this.ready = true;
    if (this.offset + this.start) this.video.currentTime = this.offset + this.start;
    if (this.wanted && (this.copied || this.begun) && this.video.paused) this.play();
  }

  get time() {
    if (this.clock) {
      const now = this.clock.from + ((performance.now() - this.clock.began) / 1000) * this.rate;
      if (now >= this.duration) {
        this.start = this.duration;
        this.clock = null;
        this.onevent("pause");
        return this.duration;
      }
      return now;
    }
    return this.next ?? (this.ready ? this.video.currentTime - this.offset : this.start || 0);
  }

  // A part of a file ends before the file.
  stopAtEnd() {
    if (this.part && !this.video.paused && this.time >= this.duration) this.pause();
  }

  showWords(text) {
    this.words.hidden = !text;
    this.words.textContent = text;
  }

  showNote(text) {
    this.note.hidden = !text;
    this.note.textContent = text;
  }

  // -------------------------------------------------------------- copies

  // Show a copy as soon as it is ready, and before that its beginning.
  cannotPlay() {
    if (this.key === null || (!this.video.getAttribute("src") && !needCopy(this.key))) return;
    if (this.copied) {
      this.showNote(S.copyBad);
      return;
    }
    this.waiting = true;
    this.load("");
    needCopy(this.key, true);
    this.tryCopy();
  }

  tryCopy() {
    if (!this.waiting) return;
    if (copies.failed.has(this.key)) this.showNote(copies.failed.get(this.key));
    else if (!copies.ready.has(this.key)) {
      this.showNote(this.progress());
      if (this.begun || !copies.begun.has(this.key)) return;
      this.begun = true;
      this.load(`copy/${this.key}/${copies.kind}?beginning`);
    } else {
      // a time after the beginning waits for the whole
      if (this.begun && !(this.offset + this.start > this.video.duration)) this.start = this.time;
      Object.assign(this, { waiting: false, begun: false, copied: true });
      this.showNote(this.warning);
      this.load(`copy/${this.key}/${copies.kind}`);
    }
  }

  progress() {
    if (copies.share === null) return this.brief ? "…" : S.copyWaiting;
    return this.brief ? S.percent(copies.share) : S.copyComing(S.percent(copies.share));
  }

  // -------------------------------------------------------------- signals

  async findSignals(video) {
    this.showNote(S.videoMissing);
    const signals = await ask(`api/signals/${video.key}`)
      .catch((error) => (this.showNote(error.message), null));
    if (video.key !== this.key || !signals?.curves.length) return;
    this.showNote(this.warning);
    this.showSignals(signals);
    this.onevent("pause");
  }

  showSignals(signals) {
    this.signals = signals;
    this.canvas.hidden = this.line.hidden = !signals;
    this.video.hidden = Boolean(signals);
    if (!signals) return;
    this.canvas.setAttribute("aria-label", S.signalsOf(signals.names.join(", ")));
    drawSignals(this.canvas, signals, this.duration);
    this.moveLine();
  }

  moveLine() {
    if (this.signals) this.line.style.left = `${(100 * this.time) / (this.duration || 1)}%`;
  }
}
