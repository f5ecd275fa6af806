"""Edits of a document: the verbs, and how to check, apply and describe an edit.

An edit is a JSON object with the verb under "do". `VERBS` names the values of each verb, and the
function that checks each value; a verb is a pure function of the document and these values.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple, TypeGuard, TypeVar

from stepcut import colours
from stepcut.annotations import union
from stepcut.checking.severity import KINDS
from stepcut.errors import OptionError, as_items, check_kind, choose, unknown
from stepcut.files.names import plain
from stepcut.procedure.corrections.document import Click, Document, Fine, Part, Step, join
from stepcut.timeline import time_in_video

Edit = Mapping[str, Any]
Reader = Callable[[Document, Edit, str], Any]
"""read(document, edit, key): the checked value of a key of an edit."""

Item = TypeVar("Item", Part, Click)

LONGEST_NAME = 200
JOINERS = dict.fromkeys(map(ord, "\u200c\u200d\u200e\u200f"))
"""Invisible characters that are allowed in names: joiners (Persian, 👩‍🍳) and direction marks."""
LEAST = 0.04
"""The shortest segment that an edit creates, in seconds: one frame at 25 frames per second."""
FEWEST_NORMAL = 2
"""The smallest reference set of videos without a mistake."""

# ------------------------------------------------------------------ values


def any_in(_: Document, edit: Edit, key: str) -> Any:
    """A value that the verb checks itself."""
    return edit.get(key)


def is_place(value: object, count: int) -> TypeGuard[int]:
    """Whether a value is a whole number from 0 to `count` - 1."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < count


def step_in(document: Document, edit: Edit, key: str) -> int:
    """The number of a step that is not merged."""
    value = edit.get(key)
    if is_place(value, document.fresh) and document.step(value) is not None:
        return value
    raise OptionError(
        f"{key}={value!r} is not a step. Choose from {[step.number for step in document.steps]}.",
        setting=key,
        value=value,
    )


def step_or_none_in(document: Document, edit: Edit, key: str) -> int | None:
    return None if edit.get(key) is None else step_in(document, edit, key)


def learned_step_in(document: Document, edit: Edit, key: str) -> int | None:
    """The number of a step, which may be merged, or None."""
    value = edit.get(key)
    if value is None or is_place(value, document.fresh):
        return value
    raise OptionError(
        f"step={value!r} is not a step; give a number from 0 to {document.fresh - 1}.",
        setting="step",
        value=value,
    )


def name_in(_: Document, edit: Edit, key: str) -> str:
    """The name of a step, without superfluous spaces."""
    value = edit.get(key)
    name = " ".join(value.split()) if isinstance(value, str) else ""
    if not (seen := name.translate(JOINERS)) or len(name) > LONGEST_NAME or not seen.isprintable():
        raise OptionError(
            f"name={value!r} is not allowed; give 1 to {LONGEST_NAME} printable characters.",
            setting="name",
            value=value,
        )
    return name


def names_in(document: Document, edit: Edit, key: str) -> dict[int, str]:
    """New names by step number, of several steps (`names`) or one (`step`, `name`)."""
    if key not in edit:
        return {step_in(document, edit, "step"): name_in(document, edit, "name")}
    check_kind(key, edit[key], Mapping, "an object with a name for each step number")
    found = {}
    for step, name in edit[key].items():
        number = int(step) if isinstance(step, str) and step.isdecimal() else step
        one = {"step": number, "name": name}
        found[step_in(document, one, "step")] = name_in(document, one, "name")
    return found


def video_in(document: Document, edit: Edit, key: str = "video") -> str:
    """The name of a video."""
    value = edit.get(key)
    if isinstance(value, str) and value in document.parts:
        return value
    raise unknown("video", value, document.parts)


def time_in(document: Document, edit: Edit, key: str) -> float:
    """Seconds, rounded to a millisecond and inside the video."""
    value, end = edit.get(key), document.durations[video_in(document, edit)]
    if isinstance(value, int | float) and not isinstance(value, bool) and -1e12 < value < 1e12:
        return time_in_video(value, end)
    raise OptionError(
        f"{key}={str(value)[:40]!r} is not a time; give seconds from 0 to {end:g}.",
        setting=key,
        value=value,
    )


def part_in(document: Document, edit: Edit, key: str) -> int:
    """The place of a segment of the video."""
    place, video = edit.get(key), video_in(document, edit)
    if is_place(place, count := len(document.parts[video])):
        return place
    raise OptionError(
        f"part={place!r} is not a segment of {video}; it has {count}, counted from 0.",
        setting="part",
        value=place,
    )


def click_in(document: Document, edit: Edit, key: str) -> int:
    """The place of a click of the video."""
    place, video = edit.get(key), video_in(document, edit)
    if is_place(place, count := len(document.clicks.get(video, ()))):
        return place
    raise OptionError(
        f"click={place!r} is not a click of {video}; it has {count}, from 0.",
        setting="click",
        value=place,
    )


def flag_in(_: Document, edit: Edit, key: str) -> bool:
    """True or false; true by default."""
    value = edit.get(key, True)
    check_kind(key, value, bool, "true or false")
    return bool(value)


def kinds_in(document: Document, edit: Edit, key: str) -> dict[int, list[str]]:
    """Severities by step number, which may be that of a merged step."""
    kinds = edit.get(key, {})
    check_kind(key, kinds, Mapping, "an object with severities for each step number")
    found = {}
    for step, wanted in kinds.items():
        number = int(step) if isinstance(step, str) and step.isdecimal() else None
        if not is_place(number, document.fresh):
            raise OptionError(f"{key}: {step!r} is not a step.", setting=key, value=step)
        for kind in as_items(key, wanted, str, "a list of severities"):
            choose("severity", kind, dict.fromkeys(KINDS))
        found[number] = list(wanted)
    return found


# ------------------------------------------------------------------ verbs


def rename(document: Document, names: Mapping[int, str], **_: Any) -> Document:
    """Rename steps, which may swap names."""
    steps = tuple(step._replace(name=names.get(step.number, step.name)) for step in document.steps)
    return replace(document, steps=steps)


def colour(document: Document, step: int, colour: Any) -> Document:
    if not isinstance(colour, str) or not re.fullmatch(r"#[0-9a-f]{6}", colour):
        raise OptionError(
            f"colour={colour!r} is not allowed; give #rrggbb in lower case, such as #4477aa.",
            setting="colour",
            value=colour,
        )
    steps = tuple(
        one._replace(colour=colour) if one.number == step else one for one in document.steps
    )
    return replace(document, steps=steps)


def merge(document: Document, step: int, into: int | None) -> Document:
    if step == into:
        raise OptionError(
            f"step={step} cannot be merged into itself; choose another one.",
            setting="step",
            value=step,
        )
    parts, covered = {}, dict(document.annotated)
    for video, mine in document.parts.items():
        touched = [(part.start, part.end) for part in mine if part.step == step]
        if touched:
            covered[video] = union(covered.get(video, ()), *touched)
        edges = () if into is None else {time for both in touched for time in both}
        parts[video] = join(_moved(mine, step, into), edges)
    return replace(
        document,
        steps=tuple(one for one in document.steps if one.number != step),
        parts=parts,
        annotated=covered,
        clicks={video: _moved(mine, step, into) for video, mine in document.clicks.items()},
        merged={**document.merged, step: into},
    )


def _moved(items: Iterable[Item], step: int, into: int | None) -> tuple[Item, ...]:
    """Move parts or clicks of a `step` to another one, or remove them if that is None."""
    if into is None:
        return tuple(one for one in items if one.step != step)
    return tuple(one._replace(step=into) if one.step == step else one for one in items)


def _part_at(document: Document, video: str, time: float) -> Part:
    """The segment to split at this time."""
    whole = next((part for part in document.parts[video] if part.start < time < part.end), None)
    if whole is None:
        raise OptionError(
            f"time={time:g} is background in {video}. Choose a time inside a segment.",
            setting="time",
            value=time,
        )
    if min(time - whole.start, whole.end - time) < LEAST:
        raise OptionError(
            f"time={time:g} is at the boundary of the segment; choose a time at least {LEAST:g} s "
            "inside it.",
            setting="time",
            value=time,
        )
    return whole


def cut(document: Document, video: str, time: float) -> Document:
    """Split a segment at `time`; both halves keep the step and count as confirmed."""
    whole = _part_at(document, video, time)
    halves = (whole._replace(end=time), whole._replace(start=time))
    parts = (
        half for part in document.parts[video] for half in (halves if part == whole else (part,))
    )
    return _with_parts(document, video, parts, (whole.start, whole.end))


def split(document: Document, video: str, time: float, everywhere: Any) -> Document:
    """Split a step at `time` into the old and a new step; `everywhere`: at the same share."""
    whole = _part_at(document, video, time)
    share = (time - whole.start) / (whole.end - whole.start)
    step = document.step(whole.step)
    assert step is not None
    taken, count = {each.name for each in document.steps}, 2
    while f"{step.name} ({count})" in taken:
        count += 1
    number = document.fresh
    grown = add(document, f"{step.name} ({count})")
    parts, covered = dict(document.parts), dict(document.annotated)
    for name in document.parts if everywhere else [video]:
        halves: list[Part] = []
        for part in document.parts[name]:
            chosen = part.step == whole.step if everywhere else part == whole
            middle = (
                time
                if part == whole and name == video
                else time_in_video(part.start + share * (part.end - part.start), part.end)
            )
            if chosen and min(middle - part.start, part.end - middle) >= LEAST:
                halves += [part._replace(end=middle), part._replace(start=middle, step=number)]
                covered[name] = union(covered.get(name, ()), (part.start, part.end))
            else:
                halves.append(part)
        parts[name] = tuple(halves)
    return replace(grown, parts=parts, annotated=covered)


def move(document: Document, video: str, part: int, edge: Any, time: float) -> Document:
    """Move the start or end of a segment, and of a neighbour that touches it.

    The segments on both sides of the boundary count as confirmed.
    """
    parts = list(document.parts[video])
    if edge not in ("start", "end"):
        raise unknown("edge", edge, ("start", "end"))
    # A point event is not a neighbour.
    solid = [k for k, one in enumerate(parts) if one.start < one.end or k == part]
    around, at = [-1, *solid, len(parts)], solid.index(part) + 1
    left, right = around[at - 1 : at + 1] if edge == "start" else around[at : at + 2]
    here = getattr(parts[part], edge)
    touching = left >= 0 and right < len(parts) and abs(parts[left].end - parts[right].start) < 1e-6
    ends, starts = edge == "end" or touching, edge == "start" or touching
    low, high = 0.0, document.durations[video]
    if left >= 0:
        low = parts[left].start + LEAST if ends else parts[left].end
    if right < len(parts):
        high = parts[right].end - LEAST if starts else parts[right].start
    moved = min(max(time, low), high) if low <= high else here
    touched = []
    if ends:
        parts[left] = parts[left]._replace(end=moved)
        touched.append((parts[left].start, max(here, moved)))
    if starts:
        parts[right] = parts[right]._replace(start=moved)
        touched.append((min(here, moved), parts[right].end))
    return _with_parts(document, video, parts, *touched)


def mark(document: Document, video: str, start: float, end: float, step: int | None) -> Document:
    """Label the interval from `start` to `end` as a step, or as background if the step is null."""
    if end - start < LEAST:
        raise OptionError(
            f"the interval from {start:g} to {end:g} s is too short; mark {LEAST:g} s or more.",
            setting="end",
            value=end,
        )
    kept: list[Part] = []
    for part in document.parts[video]:
        if part.start < start:
            kept.append(part._replace(end=min(part.end, start)))
        if part.end > end:
            kept.append(part._replace(start=max(part.start, end)))
    if step is not None:
        kept.append(Part(start, end, step))
    parts = join(sorted(kept, key=lambda part: part.start), {start, end})
    return _with_parts(document, video, parts, (start, end))


def confirm(document: Document, video: str) -> Document:
    """Confirm all segments of a video."""
    return _with_parts(document, video, document.parts[video], (0.0, document.durations[video]))


def severity(document: Document, **_: Any) -> Document:
    """A severity edit changes only the list of corrections."""
    return document


def mistake(document: Document, video: str, holds: bool) -> Document:
    """Mark a video as containing a mistake; with `holds` false, remove the mark.

    A video without the mark becomes one that a person called normal.
    """
    mistakes = document.mistakes | {video} if holds else document.mistakes - {video}
    said = not holds and video not in document.mistakes
    normal = document.normal | {video} if said else document.normal - {video}
    if len(document.parts) - len(mistakes) < FEWEST_NORMAL:
        raise OptionError(
            f"video={video!r}: the reference set needs at least {FEWEST_NORMAL} videos.",
            setting="video",
            value=video,
        )
    return replace(document, mistakes=mistakes, normal=normal)


def add_click(document: Document, video: str, time: float, step: int) -> Document:
    clicks = (*document.clicks.get(video, ()), Click(time, step))
    return _with_clicks(document, video, clicks)


def move_click(document: Document, video: str, click: int, time: float) -> Document:
    clicks = list(document.clicks[video])
    clicks[click] = clicks[click]._replace(time=time)
    return _with_clicks(document, video, clicks)


def remove_click(document: Document, video: str, click: int) -> Document:
    clicks = document.clicks[video]
    return _with_clicks(document, video, (*clicks[:click], *clicks[click + 1 :]))


def complete_clicks(document: Document, video: str, complete: bool) -> Document:
    """Mark the clicks of a video as complete; with `complete` false, as incomplete."""
    if complete and not document.clicks.get(video):
        raise OptionError(
            f"video={video!r} has no clicks. Click its steps first.", setting="video", value=video
        )
    changed = document.complete | {video} if complete else document.complete - {video}
    return replace(document, complete=changed)


def _with_clicks(document: Document, video: str, clicks: Iterable[Click]) -> Document:
    """Set the clicks of a video; refuse two steps at one time."""
    ordered = tuple(sorted(set(clicks)))
    for one, other in pairwise(ordered):
        if one.time == other.time:
            raise OptionError(
                f"time={one.time:g} in {video} has a click of another step. Move or remove it.",
                setting="time",
                value=one.time,
            )
    complete = document.complete if ordered else document.complete - {video}
    return replace(document, clicks={**document.clicks, video: ordered}, complete=complete)


def accept(document: Document, kind: Any, step: int | None, video: Any, fine: bool) -> Document:
    """Accept a kind of finding about a step; with `fine` false, stop accepting it.

    A finding without a step, such as the length of the video, is accepted for one video only.
    """
    check_kind("kind", kind, str, "the kind of finding, such as missed")
    check_kind("video", video, str, "the name of the checked video")
    one = Fine(str(kind), step, "" if step is not None else str(video))
    return replace(document, fine=document.fine | {one} if fine else document.fine - {one})


def add(document: Document, name: str) -> Document:
    step = Step(document.fresh, name, colours.colour(document.fresh))
    return replace(document, steps=(*document.steps, step), fresh=document.fresh + 1)


def _with_parts(
    document: Document, video: str, parts: Iterable[Part], *confirmed: tuple[float, float]
) -> Document:
    """Set the parts of a video, and count the `confirmed` intervals as annotated."""
    return replace(
        document,
        parts={**document.parts, video: tuple(parts)},
        annotated={
            **document.annotated,
            video: union(document.annotated.get(video, ()), *confirmed),
        },
    )


# ------------------------------------------------------------------ edits


class Verb(NamedTuple):
    """A kind of edit."""

    run: Callable[..., Document]
    words: str
    """Its description."""
    reads: Mapping[str, Reader]
    """How each of its values is read."""
    negated: str = ""
    """The description if the last of its values is false."""


VIDEO: dict[str, Reader] = {"video": video_in}
MOMENT: dict[str, Reader] = {**VIDEO, "time": time_in}
VERBS = {
    "rename": Verb(
        rename, "rename {step} to {name}", {"step": any_in, "name": any_in, "names": names_in}
    ),
    "colour": Verb(colour, "colour {step}", {"step": step_in, "colour": any_in}),
    "add": Verb(add, "add step {name}", {"name": name_in}),
    "merge": Verb(merge, "merge {step} into {into}", {"step": step_in, "into": step_or_none_in}),
    "cut": Verb(cut, "split a segment in {video}", MOMENT),
    "split": Verb(split, "split a step in {video}", {**MOMENT, "everywhere": any_in}),
    "move": Verb(move, "move a boundary in {video}", {**MOMENT, "part": part_in, "edge": any_in}),
    "mark": Verb(
        mark,
        "mark {step} in {video}",
        {**VIDEO, "start": time_in, "end": time_in, "step": step_or_none_in},
    ),
    "confirm": Verb(confirm, "confirm {video}", VIDEO),
    "severity": Verb(
        severity,
        "set the severity of {step}",
        {"step": step_in, "severity": any_in, "kinds": kinds_in, "were": kinds_in},
    ),
    "mistake": Verb(
        mistake, "{video} contains a mistake", {**VIDEO, "holds": flag_in}, "{video} is normal"
    ),
    "click": Verb(add_click, "click {step} in {video}", {**MOMENT, "step": step_in}),
    "move_click": Verb(move_click, "move a click in {video}", {**MOMENT, "click": click_in}),
    "remove_click": Verb(remove_click, "remove a click in {video}", {**VIDEO, "click": click_in}),
    "clicks_complete": Verb(
        complete_clicks,
        "clicks in {video} are complete",
        {**VIDEO, "complete": flag_in},
        "clicks in {video} are incomplete",
    ),
    "fine": Verb(
        accept,
        "accept a finding in {video}",
        {"kind": any_in, "step": learned_step_in, "video": any_in, "fine": flag_in},
        "stop accepting a finding in {video}",
    ),
}


def apply(document: Document, edit: Edit) -> Document:
    """Return the document after one edit; refuse an edit that does not fit."""
    if not isinstance(edit, Mapping):
        raise OptionError(
            f"an edit must be an object with a verb under 'do', not {edit!r}.", value=edit
        )
    verb = choose("do", str(edit.get("do")), VERBS)
    values = {key: read(document, edit, key) for key, read in verb.reads.items()}
    after = verb.run(document, **values)
    names = [step.name for step in after.steps]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise OptionError(
            f"name={twice!r} is already a step. Merge the two instead.", setting="name", value=twice
        )
    return after


def correct(document: Document, edit: Edit) -> Document:
    """Apply a new edit; refuse a name that differs from another one only by capitals or spaces.

    Stored edits skip this check, so that old corrections still load.
    """
    after = apply(document, edit)
    if edit["do"] not in ("rename", "add"):
        return after
    for step in (step for step in after.steps if step not in document.steps):
        same = (o for o in after.steps if o != step and plain(o.name) == plain(step.name))
        if other := next(same, None):
            raise OptionError(
                f"name={step.name!r} is already a step, {other.name!r}. Merge the two instead.",
                setting="name",
                value=step.name,
            )
    return after


def plain_edit(document: Document, edit: Edit) -> Edit:
    """Return an `edit` of the `document` with only the values that its verb uses."""
    kept = {key: edit[key] for key in ("do", *VERBS[edit["do"]].reads) if key in edit}
    try:
        json.dumps(kept, allow_nan=False)
        for key, value in kept.items():
            if key != "video" or value not in document.parts:  # file names may not be UTF-8
                json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise OptionError(
            f"the edit {edit['do']} cannot be saved as JSON ({error}). Use strings and numbers."
        ) from error
    return kept


def describe(document: Document, edit: Edit) -> str:
    """Return a description of an edit of the `document`."""
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
        video=edit.get("video", ""),
    )
    return words.encode(errors="replace").decode()
