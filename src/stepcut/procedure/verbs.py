"""Verbs of edits: an edit is a JSON object with a verb under "do", a pure function of documents."""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple, TypeGuard

import msgspec

from stepcut import colours
from stepcut.annotations import (
    NO_STEP,
    STEP_CLASSES,
    Annotations,
    Onset,
    gaps,
)
from stepcut.checking.rules import SEVERITIES
from stepcut.errors import OptionError, as_items, check_kind, choose, unknown
from stepcut.files.names import plain
from stepcut.procedure.document import Document, Fine, Step, join
from stepcut.settings import check_number
from stepcut.timeline import Segment, time_in_video

Edit = Mapping[str, Any]

LONGEST_NAME = 200
LONGEST_NOTE = 5000
JOINERS = dict.fromkeys(map(ord, "\u200c\u200d\u200e\u200f"))
"""Invisible characters that are allowed in names: joiners (Persian, 👩‍🍳) and direction marks."""
LEAST = 0.04
"""The shortest segment that an edit creates, in seconds: one frame at 25 frames per second."""
FEWEST_NORMAL = 2


# ---------- values of edits

Reader = Callable[[Document, Edit, str], Any]


def refused(key: str, value: object, words: str) -> OptionError:
    return OptionError(f"{key}={repr(value)[:80]} {words}", setting=key, value=value)


def is_place(value: object, count: int) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < count


def any_in(_: Document, edit: Edit, key: str) -> Any:
    return edit.get(key)


def step_in(document: Document, edit: Edit, key: str) -> Step:
    value = edit.get(key)
    if is_place(value, len(document.now)) and (step := document.step(value)) is not None:
        return step
    choices = [step.number for step in document.steps]
    raise refused(key, value, f"is not a step. Choose from {choices}.")


def step_or_none_in(document: Document, edit: Edit, key: str) -> Step | None:
    return None if edit.get(key) is None else step_in(document, edit, key)


def learned_step_in(document: Document, edit: Edit, key: str) -> int | None:
    value, count = edit.get(key), len(document.now)
    if value is None or is_place(value, count):
        return value
    raise refused(key, value, f"is not a step; give a number from 0 to {count - 1}.")


def name_in(_: Document, edit: Edit, key: str) -> str:
    value = edit.get(key)
    name = " ".join(value.split()) if isinstance(value, str) else ""
    if not (seen := name.translate(JOINERS)) or len(name) > LONGEST_NAME or not seen.isprintable():
        words = f"is not allowed; give 1 to {LONGEST_NAME} printable characters."
        raise refused("name", value, words)
    return name


def names_in(document: Document, edit: Edit, key: str) -> dict[Step, str]:
    """New names of several steps by number (`names`), or of one (`step`, `name`)."""
    if key not in edit:
        return {step_in(document, edit, "step"): name_in(document, edit, "name")}
    check_kind(key, edit[key], Mapping, "an object with a name for each step number")
    found = {}
    for step, name in edit[key].items():
        number = int(step) if isinstance(step, str) and step.isdecimal() else step
        found[step_in(document, {"step": number}, "step")] = name_in(document, {key: name}, key)
    return found


def video_in(document: Document, edit: Edit, key: str = "video") -> str:
    value = edit.get(key)
    if isinstance(value, str) and value in document.segments:
        return value
    raise unknown("video", value, document.segments)


def time_in(document: Document, edit: Edit, key: str) -> float:
    value, end = edit.get(key), document.said.videos[video_in(document, edit)].end
    if isinstance(value, int | float) and not isinstance(value, bool) and -1e12 < value < 1e12:
        return time_in_video(value, end)
    raise refused(key, value, f"is not a time; give seconds from 0 to {end:g}.")


def place_in(document: Document, edit: Edit, key: str) -> int:
    place, video = edit.get(key), video_in(document, edit)
    said = document.said.videos[video]
    some = {"part": document.segments[video], "click": said.clicks, "onset": said.onsets}[key]
    if is_place(place, len(some)):
        return place
    what = "segment" if key == "part" else key
    raise refused(key, place, f"is not a {what} of {video}; it has {len(some)}, counted from 0.")


def speed_in(_: Document, edit: Edit, key: str) -> float:
    check_number(key, value := edit.get(key, 1.0), 0, 100, above=True)
    return float(value)


def videos_in(document: Document, edit: Edit, key: str) -> list[str]:
    """Several videos (`videos`), or one (`video`)."""
    if key not in edit:
        return [video_in(document, edit)]
    names = as_items(key, edit[key], str, "a list of videos")
    return [video_in(document, {"video": name}) for name in names]


def flag_in(_: Document, edit: Edit, key: str) -> bool:
    value = edit.get(key, True)
    check_kind(key, value, bool, "true or false")
    return bool(value)


def kinds_in(document: Document, edit: Edit, key: str) -> dict[int, tuple[str, ...]]:
    """Without severities by step number, the severity of all steps merged into this one."""
    if key not in edit:
        kind, step = edit.get("severity"), edit.get("step")
        if kind is not None and kind not in SEVERITIES:
            raise unknown("severity", kind, SEVERITIES)
        mine = [k for k in range(len(document.learned)) if document.now[k] == step]
        if not mine:
            words = "was added after learning; run teach before you set its severity."
            raise refused("step", step, words)
        return dict.fromkeys(mine, (kind,) if kind else ())
    check_kind(key, edit[key], Mapping, "an object with severities for each step number")
    found = {}
    for step, wanted in edit[key].items():
        number = int(step) if isinstance(step, str) and step.isdecimal() else None
        if not is_place(number, len(document.now)):
            raise refused(key, step, "is not a step.")
        for kind in as_items(key, wanted, str, "a list of severities"):
            choose("severity", kind, dict.fromkeys(SEVERITIES))
        found[number] = tuple(wanted)
    return found


# ---------- verbs: steps


def rename(document: Document, names: Mapping[Step, str], **_: Any) -> Document:
    new = {step.name: name for step, name in names.items()}

    def renamed(one: Segment) -> Segment:
        return replace(one, step=new[one.step]) if one.step in new else one

    return replace(
        document,
        steps=tuple(step._replace(name=new.get(step.name, step.name)) for step in document.steps),
        segments={video: tuple(map(renamed, mine)) for video, mine in document.segments.items()},
        said=document.said.renamed(new),
        former={**document.former, **{name: step.number for step, name in names.items()}},
    )


def colour(document: Document, step: Step, colour: Any) -> Document:
    if not isinstance(colour, str) or not re.fullmatch(r"#[0-9a-f]{6}", colour):
        words = "is not allowed; give #rrggbb in lower case, such as #4477aa."
        raise refused("colour", colour, words)
    painted = (one._replace(colour=colour) if one == step else one for one in document.steps)
    return replace(document, steps=tuple(painted))


def add(document: Document, name: str) -> Document:
    number = len(document.now)
    step = Step(number, name, colours.colour(number))
    return replace(document, steps=(*document.steps, step), now=(*document.now, number))


def merge(document: Document, step: Step, into: Step | None) -> Document:
    """The segments of the merged step count as confirmed."""
    if step == into:
        raise refused("step", step.number, "cannot be merged into itself; choose another one.")
    target = into and into.number
    merged = replace(
        document,
        steps=tuple(one for one in document.steps if one != step),
        now=tuple(target if one == step.number else one for one in document.now),
        said=_merged(document.said, step.name, into and into.name),
    )
    for video, mine in document.segments.items():
        touched = [(one.start, one.end) for one in mine if one.step == step.name]
        if touched and into:
            moved = (replace(o, step=into.name) if o.step == step.name else o for o in mine)
            kept = join(moved, {time for both in touched for time in both})
        else:
            kept = tuple(one for one in mine if one.step != step.name)
        if touched:
            merged = merged.draw(video, kept, *touched)
    return merged


def _merged(said: Annotations, step: str, into: str | None) -> Annotations:
    if into is not None:
        renamed = said.renamed({step: into})
        first = {one.name: one for one in reversed(renamed.recipe)}
        recipe = tuple(one for one in renamed.recipe if first[one.name] is one)
        return msgspec.structs.replace(renamed, recipe=recipe)
    videos = {
        video: msgspec.structs.replace(
            one,
            segments=tuple(each for each in one.segments if each.step != step),
            onsets=tuple(
                msgspec.structs.replace(each, step=NO_STEP) if each.step == step else each
                for each in one.onsets
            ),
            transcript=tuple(each for each in one.transcript if each != step),
        )
        for video, one in said.videos.items()
    }
    recipe = tuple(one for one in said.recipe if one.name != step)
    about: Any = {
        key: {name: one for name, one in getattr(said, key).items() if name != step}
        for key in ("classes", "notes")
    }
    return msgspec.structs.replace(said, videos=videos, recipe=recipe, **about)


def severity(document: Document, kinds: Mapping[int, tuple[str, ...]], **_: Any) -> Document:
    return replace(document, kinds={**document.kinds, **kinds})


def classify(document: Document, step: Step, kind: Any) -> Document:
    if kind is not None and kind not in STEP_CLASSES:
        raise unknown("class", str(kind), STEP_CLASSES)
    return _about(document, "classes", step, kind)


def note(document: Document, step: Step, text: Any) -> Document:
    if not isinstance(text, str) or len(text) > LONGEST_NOTE:
        raise refused("text", text, f"is not a note; give up to {LONGEST_NOTE} characters.")
    return _about(document, "notes", step, text.strip())


def _about(document: Document, field: str, step: Step, value: str | None) -> Document:
    others = {name: one for name, one in getattr(document.said, field).items() if name != step.name}
    about: Any = {field: {**others, step.name: value} if value else others}
    return replace(document, said=msgspec.structs.replace(document.said, **about))


# ---------- verbs: segments


def _at(document: Document, video: str, time: float) -> Segment:
    mine = document.segments[video]
    whole = next((one for one in mine if one.start < time < one.end), None)
    if whole is None:
        raise refused("time", time, f"is background in {video}; choose a time in a segment.")
    if min(time - whole.start, whole.end - time) < LEAST:
        words = f"is at the boundary of the segment; choose a time {LEAST:g} s or more inside it."
        raise refused("time", time, words)
    return whole


def cut(document: Document, video: str, time: float) -> Document:
    whole = _at(document, video, time)
    others = [one for one in document.segments[video] if one is not whole]
    halves = replace(whole, end=time), replace(whole, start=time)
    return document.draw(video, [*others, *halves], (whole.start, whole.end))


def split(document: Document, video: str, time: float, everywhere: Any) -> Document:
    """With `everywhere`, split all segments of the step at the same share."""
    whole = _at(document, video, time)
    share = (time - whole.start) / whole.duration
    taken, count = {each.name for each in document.steps}, 2
    while (name := f"{whole.step} ({count})") in taken:
        count += 1
    grown = add(document, name)
    for place in document.segments if everywhere else [video]:
        parts: list[Segment] = []
        touched = []
        for one in document.segments[place]:
            middle = time
            if one is not whole:
                middle = time_in_video(one.start + share * one.duration, one.end)
            chosen = one.step == whole.step if everywhere else one is whole
            if chosen and min(middle - one.start, one.end - middle) >= LEAST:
                parts += [replace(one, end=middle), replace(one, start=middle, step=name)]
                touched.append((one.start, one.end))
            else:
                parts.append(one)
        if touched:
            grown = grown.draw(place, parts, *touched)
    return grown


def move(document: Document, video: str, part: int, edge: Any, time: float) -> Document:
    """Move a boundary; a touching neighbour follows, and both sides count as confirmed."""
    parts = list(document.segments[video])
    choose("edge", edge, dict.fromkeys(("start", "end")))
    # A point event is not a neighbour.
    solid = [k for k, one in enumerate(parts) if not one.is_click or k == part]
    around, at = [-1, *solid, len(parts)], solid.index(part) + 1
    left, right = around[at - 1 : at + 1] if edge == "start" else around[at : at + 2]
    here = getattr(parts[part], edge)
    touching = left >= 0 and right < len(parts) and abs(parts[left].end - parts[right].start) < 1e-6
    ends, starts = edge == "end" or touching, edge == "start" or touching
    low, high = 0.0, document.said.videos[video].end
    if left >= 0:
        low = parts[left].start + LEAST if ends else parts[left].end
    if right < len(parts):
        high = parts[right].end - LEAST if starts else parts[right].start
    moved = min(max(time, low), high) if low <= high else here
    touched = []
    if ends:
        parts[left] = replace(parts[left], end=moved)
        touched.append((parts[left].start, max(here, moved)))
    if starts:
        parts[right] = replace(parts[right], start=moved)
        touched.append((min(here, moved), parts[right].end))
    return document.draw(video, parts, *touched)


def mark(document: Document, video: str, start: float, end: float, step: Step | None) -> Document:
    if end - start < LEAST:
        words = f"makes the interval from {start:g} s too short; mark {LEAST:g} s or more."
        raise refused("end", end, words)
    name = NO_STEP if step is None else step.name
    return document.draw(video, over(document.segments[video], start, end, name), (start, end))


def over(segments: Iterable[Segment], start: float, end: float, step: str) -> tuple[Segment, ...]:
    """Return `segments` with another step, or background, from `start` to `end`."""
    kept = []
    for one in segments:
        if one.start < start:
            kept.append(one if one.end <= start else replace(one, end=start))
        if one.end > end:
            kept.append(one if one.start >= end else replace(one, start=end))
    if step != NO_STEP:
        kept.append(Segment(start, end, step))
    return join(sorted(kept), {start, end})


def confirm(document: Document, videos: Sequence[str], holds: bool, **_: Any) -> Document:
    """Confirm all segments of `videos`; with `holds` false, they count as proposals again."""
    for video in videos:
        if holds:
            whole = (0.0, document.said.videos[video].end)
            document = document.draw(video, document.segments[video], whole)
        else:
            clicks = tuple(document.said.videos[video].clicks)
            document = document.say(video, segments=clicks, annotated=())
    return document


# ---------- verbs: videos and findings


def mistake(document: Document, video: str, holds: bool) -> Document:
    marked = document.said.mistakes
    if len(document.segments) - len(marked | {video}) < FEWEST_NORMAL and holds:
        words = f": the reference set needs at least {FEWEST_NORMAL} videos."
        raise refused("video", video, words)
    return document.say(video, mistake=holds, normal=not holds and video not in marked)


def add_click(document: Document, video: str, time: float, step: Step | None) -> Document:
    clicks = document.said.videos[video].clicks
    name = NO_STEP if step is None else step.name
    return _with_clicks(document, video, [*clicks, Segment(time, time, name)])


def move_click(document: Document, video: str, click: int, time: float) -> Document:
    clicks = document.said.videos[video].clicks
    clicks[click] = replace(clicks[click], start=time, end=time)
    return _with_clicks(document, video, clicks)


def remove_click(document: Document, video: str, click: int) -> Document:
    clicks = document.said.videos[video].clicks
    return _with_clicks(document, video, [*clicks[:click], *clicks[click + 1 :]])


def complete_clicks(document: Document, video: str, complete: bool) -> Document:
    if complete and not document.said.videos[video].clicks:
        raise refused("video", video, "has no clicks. Click its steps first.")
    return document.say(video, complete=complete)


def _with_clicks(document: Document, video: str, clicks: list[Segment]) -> Document:
    for one, other in pairwise(sorted(set(clicks))):
        if one.start == other.start:
            words = f"in {video} has a click of another step. Move or remove it."
            raise refused("time", one.start, words)
    before = document.said.videos[video]
    labels = [one for one in before.segments if not one.is_click]
    return document.say(
        video,
        segments=tuple(sorted({*labels, *clicks})),
        complete=before.complete if before.clicks and clicks else not clicks,
    )


# ---------- verbs: onsets


def add_onset(
    document: Document, video: str, time: float, step: Step | None, speed: float
) -> Document:
    """From `time`, less the reaction time, the video shows a step, up to the next onset."""
    onset = Onset(time, NO_STEP if step is None else step.name, speed)
    others = (one for one in document.said.videos[video].onsets if one.time != time)
    return _with_onsets(document, video, [*others, onset])


def move_onset(document: Document, video: str, onset: int, time: float) -> Document:
    onsets = list(document.said.videos[video].onsets)
    onsets[onset] = msgspec.structs.replace(onsets[onset], start=time)
    return _with_onsets(document, video, onsets)


def remove_onset(document: Document, video: str, onset: int) -> Document:
    onsets = document.said.videos[video].onsets
    return _with_onsets(document, video, [*onsets[:onset], *onsets[onset + 1 :]])


def _with_onsets(document: Document, video: str, onsets: Iterable[Onset]) -> Document:
    """Draw the onsets that change, where nothing is annotated."""
    before, late = document.said.videos[video], document.reaction
    ordered = tuple(sorted(onsets, key=lambda one: one.time))
    after = document.say(video, onsets=ordered)
    drawn = document.segments[video]
    for one in after.said.videos[video].keyed(late):
        if one not in before.keyed(late):
            for start, end in gaps(before.annotated, before.end):
                if max(start, one.start) < min(end, one.end):
                    drawn = over(drawn, max(start, one.start), min(end, one.end), one.step)
    return replace(after, segments={**document.segments, video: drawn})


def accept(document: Document, kind: Any, step: int | None, video: Any, fine: bool) -> Document:
    """A finding without a step, such as the length, is accepted for one video only."""
    check_kind("kind", kind, str, "the kind of finding, such as missed")
    check_kind("video", video, str, "the name of the checked video")
    one = {Fine(str(kind), step, "" if step is not None else str(video))}
    return replace(document, fine=document.fine | one if fine else document.fine - one)


# ---------- edits


class Verb(NamedTuple):
    run: Callable[..., Document]
    words: str
    reads: Mapping[str, Reader]
    negated: str = ""
    """The description if the last of its values is false."""


READERS: dict[str, Reader] = {
    "step": step_in, "name": name_in, "names": names_in, "kinds": kinds_in, "video": video_in,
    "time": time_in, "start": time_in, "end": time_in, "part": place_in, "click": place_in,
    "onset": place_in, "speed": speed_in, "videos": videos_in, "holds": flag_in, "complete": flag_in, "fine": flag_in,
}  # fmt: skip


def _verb(
    run: Callable[..., Document], words: str, keys: str, negated: str = "", **own: Reader
) -> Verb:
    reads = {key: own.get(key, READERS.get(key, any_in)) for key in keys.split()}
    return Verb(run, words, reads, negated)


VERBS = {
    "rename": _verb(
        rename, "rename {step} to {name}", "step name names", step=any_in, name=any_in
    ),
    "colour": _verb(colour, "colour {step}", "step colour"),
    "add": _verb(add, "add step {name}", "name"),
    "merge": _verb(merge, "merge {step} into {into}", "step into", into=step_or_none_in),
    "cut": _verb(cut, "split a segment in {video}", "video time"),
    "split": _verb(split, "split a step in {video}", "video time everywhere"),
    "move": _verb(move, "move a boundary in {video}", "video time part edge"),
    "mark": _verb(
        mark, "mark {step} in {video}", "video start end step", step=step_or_none_in
    ),
    "confirm": _verb(
        confirm, "confirm {video}", "video videos holds", "{video} is not confirmed", video=any_in
    ),
    "severity": _verb(
        severity, "set the severity of {step}", "step severity kinds", step=step_or_none_in
    ),
    "classify": _verb(classify, "set the class of {step}", "step kind"),
    "note": _verb(note, "write a note on {step}", "step text"),
    "mistake": _verb(
        mistake, "{video} contains a mistake", "video holds", "{video} is normal"
    ),
    "click": _verb(
        add_click, "click {step} in {video}", "video time step", step=step_or_none_in
    ),
    "onset": _verb(
        add_onset, "{step} starts in {video}", "video time step speed", step=step_or_none_in
    ),
    "move_onset": _verb(move_onset, "move an onset in {video}", "video time onset"),
    "remove_onset": _verb(remove_onset, "remove an onset in {video}", "video onset"),
    "move_click": _verb(move_click, "move a click in {video}", "video time click"),
    "remove_click": _verb(remove_click, "remove a click in {video}", "video click"),
    "clicks_complete": _verb(
        complete_clicks,
        "clicks in {video} are complete",
        "video complete",
        "clicks in {video} are incomplete",
    ),
    "fine": _verb(
        accept,
        "accept a finding in {video}",
        "kind step video fine",
        "stop accepting a finding in {video}",
        step=learned_step_in,
        video=any_in,
    ),
}  # fmt: skip


def apply(document: Document, edit: Edit) -> Document:
    if not isinstance(edit, Mapping):
        raise OptionError(
            f"an edit must be an object with a verb under 'do', not {edit!r}.", value=edit
        )
    verb = choose("do", str(edit.get("do")), VERBS)
    values = {key: read(document, edit, key) for key, read in verb.reads.items()}
    after = verb.run(document, **values)
    names = [step.name for step in after.steps]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise refused("name", twice, "is already a step. Merge the two instead.")
    return after


def correct(document: Document, edit: Edit) -> Document:
    """Refuse names that differ only by capitals or spaces; stored edits may have them."""
    after = apply(document, edit)
    for step in set(after.steps) - set(document.steps) if edit["do"] in ("rename", "add") else ():
        same = (o for o in after.steps if o != step and plain(o.name) == plain(step.name))
        if other := next(same, None):
            words = f"is already a step, {other.name!r}. Merge the two instead."
            raise refused("name", step.name, words)
    return after


def plain_edit(document: Document, edit: Edit) -> dict[str, Any]:
    kept = {key: edit[key] for key in ("do", *VERBS[edit["do"]].reads) if key in edit}
    try:
        json.dumps(kept, allow_nan=False)
        for key, value in kept.items():
            if key != "video" or value not in document.segments:  # file names may not be UTF-8
                json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise OptionError(
            f"the edit {edit['do']} cannot be saved as JSON ({error}). Use strings and numbers."
        ) from error
    return kept


def describe(document: Document, edit: Edit) -> str:
    verb, several = VERBS[edit["do"]], edit.get("names")
    if several is not None and edit["do"] == "rename":
        return f"rename {len(several)} steps"
    step, into = (
        document.step(edit[key]) if edit.get(key) is not None else None for key in ("step", "into")
    )
    negated = verb.negated and not edit.get([*verb.reads][-1], True)
    words = (verb.negated if negated else verb.words).format(
        step=step.name if step else "background",
        into=into.name if into else "background",
        name=edit.get("name"),
        video=edit.get("video") or f"{len(edit.get('videos', ()))} videos",
    )
    return words.encode(errors="replace").decode()
