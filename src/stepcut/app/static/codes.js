// Keys of the steps while coding: 1 to 9, letters, or two keys; 0 is background.

import { recall, remember, say, store } from "./store.js";
import { S } from "./strings.js";

const PAUSE = 900; // milliseconds within which the second key of a code follows

const place = () => `codes ${store.data.folder}`;

// Codes by step: those that a person set, and digits for the first steps without one.
export function codes() {
  const own = recall(place(), {});
  const taken = new Set(store.data.steps.map((step) => own[step.name]));
  const found = new Map([[null, "0"]]);
  store.data.steps.forEach(({ number, name }, at) => {
    const usual = at < 9 && !taken.has(String(at + 1)) ? String(at + 1) : undefined;
    const code = own[name] ?? usual;
    if (code) found.set(number, code);
  });
  return found;
}

// Set the code of a step; an empty one gives it its digit back. Returns whether it is usable.
export function setCode({ number, name }, text) {
  const code = text.trim().toLowerCase();
  const other = store.data.steps.find((step) => step.number !== number
    && codes().get(step.number) === code);
  const wrong = code && !/^[\p{L}\p{Nd}]{1,2}$/u.test(code) ? S.codeWrong
    : other || code === "0" ? S.codeTaken(code, other?.name ?? S.background) : "";
  if (wrong) say(wrong, true);
  else remember(place(), { ...recall(place(), {}), [name]: code || undefined });
  return !wrong;
}

let begun = null; // the first key of two: its text, and what was true when it was pressed
let timer = 0;

// Take a key; `act(step, moment)` is called when a code is complete. Returns whether it was used.
export function takeKey(key, moment, act) {
  const all = [...codes()];
  const text = (begun?.text ?? "") + key;
  const match = all.find(([, code]) => code === text);
  clearTimeout(timer);
  const first = begun ?? { moment };
  begun = null;
  if (all.some(([, code]) => code.length > text.length && code.startsWith(text))) {
    begun = { ...first, text, match };
    timer = setTimeout(() => finish(act), PAUSE);
  } else if (match) act(match[0], first.moment);
  else if (first.text) { // the first key alone, then this one
    begun = first;
    finish(act);
    return takeKey(key, moment, act);
  } else {
    if (/^\d$/.test(key)) say(S.noStepForKey(key), true);
    return /^\d$/.test(key);
  }
  return true;
}

function finish(act) {
  const { text, match, moment } = begun;
  begun = null;
  if (match) act(match[0], moment);
  else say(S.noStepForKey(text), true);
}
