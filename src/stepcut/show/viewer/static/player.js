// One <video>: opens a video by its place; where the browser cannot play it, asks for a copy and shows how far it is.

import { el } from "./dom.js";
import { work } from "./store.js";

export class Player {
  constructor(label, muted = true) {
    this.video = el("video", { preload: "metadata", playsInline: true, muted, "aria-label": label, tabIndex: -1 });
    this.note = el("p", { class: "note", hidden: true, role: "status" });
    this.node = el("div", { class: "screen" }, this.video, this.note);
    this.place = -1;
    this.copied = false;
    this.ready = false; // the video stands at the time that was asked for; until then `start` is where it will
    this.video.addEventListener("error", () => this.cannotPlay());
    this.video.addEventListener("loadedmetadata", () => {
      if (!this.video.videoWidth) this.cannotPlay(); // sound only: the picture's codec is unknown here
      else this.standAtStart();
    });
  }

  open(place, there, time = 0) {
    if (place === this.place) {
      this.seek(time);
      return;
    }
    const playing = this.place >= 0 && !this.video.paused;
    Object.assign(this, { place, start: time, copied: false });
    this.tell(there ? "" : "The video itself is not here. Started with --videos DIR, the viewer looks for it in that folder.");
    this.video.poster = there ? `poster/${place}` : ""; // of a video that is not here no picture is shown, least of all another's
    if (!there) {
      this.load("");
      return;
    }
    this.load(`video/${place}`);
    if (playing) this.play();
  }

  close() {
    this.place = -1;
    this.video.pause();
    this.load("");
  }

  load(address) {
    this.ready = false;
    if (address) {
      this.video.src = address;
      return;
    }
    this.video.removeAttribute("src");
    this.video.load(); // frees the decoder
  }

  play() {
    return this.video.play().catch(() => {}); // it was paused or changed before it began
  }

  seek(time) {
    this.start = time;
    if (this.ready) this.video.currentTime = time;
  }

  standAtStart() {
    this.ready = true;
    if (this.start) this.video.currentTime = this.start;
  }

  get time() {
    return this.ready ? this.video.currentTime : this.start || 0;
  }

  tell(words) {
    this.note.hidden = !words;
    this.note.textContent = words;
  }

  async cannotPlay() {
    const place = this.place;
    if (place < 0 || !this.video.getAttribute("src")) return;
    if (this.copied) {
      this.tell("The browser cannot play this video, nor a copy of it.");
      return;
    }
    this.copied = true;
    const kind = this.video.canPlayType('video/mp4; codecs="avc1.42E01E"') ? "mp4" : "webm";
    try {
      await work(`api/proxy/${place}/${kind}`, {}, (share) => {
        const words = `The browser cannot play this video. A copy is being made: ${Math.round(100 * share)} %`;
        if (place === this.place) this.tell(words);
      });
      if (place !== this.place) return;
      this.tell("");
      this.load(`proxy/${place}/${kind}`);
    } catch (error) {
      this.tell(`This video cannot be shown. ${error.message}`);
    }
  }
}
