"""Edits of a document, one pure function each: rename, merge, cut, split, move, mark, confirm ...

An edit is a JSON object with the verb under "do". `apply` checks every value first.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any, TypeGuard

from stepcut.annotations import union
from stepcut.colours import colour
from stepcut.errors import OptionError, check_kind, choose, unknown
from stepcut.files.names import plain
from stepcut.procedure.corrections.document import Click, Document, Fine, Part, Step, join

Edit = Mapping[str, Any]

LEAST = 0.04
"""The shortest segment that an edit creates, in seconds: one frame at 25 frames per second."""
LONGEST_NAME = 200
FEWEST_NORMAL = 2
"""The smallest reference set of videos without a mistake."""
JOINERS = dict.fromkeys(map(ord, "\u200c\u200d\u200e\u200f"))
"""Invisible characters that are allowed in names: joiners (Persian, 👩‍🍳) and direction marks."""


def apply(document: Document, edit: Edit) -> Document:
    """Return the document after one edit; refuse an edit that does not fit."""
    if not isinstance(edit, Mapping):
        raise OptionError(f"an edit must be an object with a verb under 'do', not {edit!r}.")
    after = choose("do", str(edit.get("do")), VERBS)[0](document, edit)
    names = [step.name for step in after.steps]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise OptionError(
            f"name={twice!r} is already a step. Merge the two instead.",
            setting="name",
            value=twice,
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


def plain_edit(edit: Edit) -> Edit:
    """Return an `edit` with only the values that its verb uses."""
    kept = {key: edit[key] for key in ("do", *VERBS[edit["do"]][1].split()) if key in edit}
    try:
        json.dumps(kept, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise OptionError(
            f"the edit {edit['do']} cannot be saved as JSON ({error}). Use strings and numbers."
        ) from error
    return kept


def describe(document: Document, edit: Edit) -> str:
    """Return a description of an edit of the `document`."""
    step = document.step(edit.get("step", -1))
    name = step.name if step else "background"
    several = edit.get("names") if edit["do"] == "rename" else None
    into = document.step(edit["into"]) if edit.get("into") is not None else None
    video = edit.get("video", "")
    words = {
        "rename": f"rename {len(several)} steps"
        if several is not None
        else f"rename {name} to {edit.get('name')}",
        "colour": f"colour {name}",
        "add": f"add step {edit.get('name')}",
        "merge": f"merge {name} into {into.name if into else 'background'}",
        "cut": f"split a segment in {video}",
        "split": f"split a step in {video}",
        "move": f"move a boundary in {video}",
        "mark": f"mark {name} in {video}",
        "confirm": f"confirm {video}",
        "severity": f"set the severity of {name}",
        "mistake": f"{video} {'contains a mistake' if edit.get('holds', True) else 'is normal'}",
        "click": f"click {name} in {video}",
        "move_click": f"move a click in {video}",
        "remove_click": f"remove a click in {video}",
        "clicks_complete": f"clicks in {video} are "
        f"{'complete' if edit.get('complete', True) else 'incomplete'}",
        "fine": f"accept a finding in {video}"
        if edit.get("fine", True)
        else f"stop accepting a finding in {video}",
    }
    return words[edit["do"]]


def _rename(document: Document, edit: Edit) -> Document:
    """Rename one step (`step`, `name`) or several (`names` by number), which may swap names."""
    wanted = (
        edit["names"] if "names" in edit else {_number(document, edit, "step"): edit.get("name")}
    )
    check_kind("names", wanted, Mapping, "an object with a name for each step number")
    numbers = [int(key) if isinstance(key, str) and key.isdecimal() else key for key in wanted]
    names = {
        _number(document, {"step": n}, "step"): _name(name)
        for n, name in zip(numbers, wanted.values(), strict=True)
    }
    steps = tuple(step._replace(name=names.get(step.number, step.name)) for step in document.steps)
    return replace(document, steps=steps)


def _colour(document: Document, edit: Edit) -> Document:
    number, value = _number(document, edit, "step"), edit.get("colour")
    if not isinstance(value, str) or not re.fullmatch(r"#[0-9a-f]{6}", value):
        raise OptionError(
            f"colour={value!r} is not allowed; give #rrggbb in lower case, such as #4477aa.",
            setting="colour",
            value=value,
        )
    steps = tuple(
        step._replace(colour=value) if step.number == number else step for step in document.steps
    )
    return replace(document, steps=steps)


def _add(document: Document, edit: Edit) -> Document:
    return _with_new_step(document, _name(edit.get("name")))


def _merge(document: Document, edit: Edit) -> Document:
    number = _number(document, edit, "step")
    into = None if edit.get("into") is None else _number(document, edit, "into")
    if number == into:
        raise OptionError(f"step={number} cannot be merged into itself; choose another one.")
    parts, covered = {}, dict(document.annotated)
    for video, mine in document.parts.items():
        if touched := [(part.start, part.end) for part in mine if part.step == number]:
            covered[video] = union(covered.get(video, ()), *touched)
        kept = [part for part in mine if part.step != number or into is not None]
        edges = {time for part in kept if part.step == number for time in (part.start, part.end)}
        new = (
            part._replace(step=into) if part.step == number and into is not None else part
            for part in kept
        )
        parts[video] = join(new, edges)
    steps = tuple(step for step in document.steps if step.number != number)
    clicks = {
        video: tuple(
            click._replace(step=into) if click.step == number and into is not None else click
            for click in mine
            if click.step != number or into is not None
        )
        for video, mine in document.clicks.items()
    }
    return replace(
        document,
        steps=steps,
        parts=parts,
        annotated=covered,
        clicks=clicks,
        merged={**document.merged, number: into},
    )


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


def _cut(document: Document, edit: Edit) -> Document:
    """Split a segment at `time`; both halves keep the step and count as confirmed."""
    video, time = _video(document, edit), _time(document, edit, "time")
    whole = _part_at(document, video, time)
    halves = (whole._replace(end=time), whole._replace(start=time))
    parts = (
        half for part in document.parts[video] for half in (halves if part == whole else (part,))
    )
    return _with_parts(document, video, parts, (whole.start, whole.end))


def _split(document: Document, edit: Edit) -> Document:
    """Split a step at `time` into the old and a new step; `everywhere`: at the same share."""
    video, time = _video(document, edit), _time(document, edit, "time")
    whole = _part_at(document, video, time)
    share = (time - whole.start) / (whole.end - whole.start)
    step = document.step(whole.step)
    assert step is not None
    taken, count = {each.name for each in document.steps}, 2
    while f"{step.name} ({count})" in taken:
        count += 1
    number = document.fresh
    grown = _with_new_step(document, f"{step.name} ({count})")
    parts, covered = dict(document.parts), dict(document.annotated)
    for name in document.parts if edit.get("everywhere") else [video]:
        halves: list[Part] = []
        for part in document.parts[name]:
            chosen = part.step == whole.step if edit.get("everywhere") else part == whole
            middle = (
                time
                if part == whole and name == video
                else _round(part.start + share * (part.end - part.start))
            )
            if chosen and min(middle - part.start, part.end - middle) >= LEAST:
                halves += [part._replace(end=middle), part._replace(start=middle, step=number)]
                covered[name] = union(covered.get(name, ()), (part.start, part.end))
            else:
                halves.append(part)
        parts[name] = tuple(halves)
    return replace(grown, parts=parts, annotated=covered)


def _move(document: Document, edit: Edit) -> Document:
    """Move the start or end of a segment, and of a neighbour that touches it.

    The segments on both sides of the boundary count as confirmed.
    """
    video, time = _video(document, edit), _time(document, edit, "time")
    parts, place, edge = list(document.parts[video]), edit.get("part"), edit.get("edge")
    if not _is_place(place, len(parts)):
        raise OptionError(
            f"part={place!r} is not a segment of {video}; it has {len(parts)}, counted from 0."
        )
    if edge not in ("start", "end"):
        raise unknown("edge", edge, ("start", "end"))
    # A point event is not a neighbour.
    solid = [k for k, part in enumerate(parts) if part.start < part.end or k == place]
    around, at = [-1, *solid, len(parts)], solid.index(place) + 1
    left, right = around[at - 1 : at + 1] if edge == "start" else around[at : at + 2]
    here = getattr(parts[place], edge)
    touching = left >= 0 and right < len(parts) and abs(parts[left].end - parts[right].start) < 1e-6
    ends, starts = edge == "end" or touching, edge == "start" or touching
    low, high = 0.0, document.durations[video]
    if left >= 0:
        low = parts[left].start + LEAST if ends else parts[left].end
    if right < len(parts):
        high = parts[right].end - LEAST if starts else parts[right].start
    moved = _round(min(max(time, low), high)) if low <= high else here
    touched = []
    if ends:
        parts[left] = parts[left]._replace(end=moved)
        touched.append((parts[left].start, max(here, moved)))
    if starts:
        parts[right] = parts[right]._replace(start=moved)
        touched.append((min(here, moved), parts[right].end))
    return _with_parts(document, video, parts, *touched)


def _mark(document: Document, edit: Edit) -> Document:
    """Label the interval from `start` to `end` as a step, or as background if the step is null."""
    video = _video(document, edit)
    start, end = _time(document, edit, "start"), _time(document, edit, "end")
    number = None if edit.get("step") is None else _number(document, edit, "step")
    if end - start < LEAST:
        raise OptionError(
            f"the interval from {start:g} to {end:g} s is too short; mark {LEAST:g} s or more."
        )
    kept: list[Part] = []
    for part in document.parts[video]:
        if part.start < start:
            kept.append(part._replace(end=min(part.end, start)))
        if part.end > end:
            kept.append(part._replace(start=max(part.start, end)))
    if number is not None:
        kept.append(Part(start, end, number))
    parts = join(sorted(kept, key=lambda part: part.start), {start, end})
    return _with_parts(document, video, parts, (start, end))


def _confirm(document: Document, edit: Edit) -> Document:
    """Confirm all segments of a video."""
    video = _video(document, edit)
    return replace(
        document, annotated={**document.annotated, video: ((0.0, document.durations[video]),)}
    )


def _severity(document: Document, edit: Edit) -> Document:
    """Check a severity edit, which changes only the list of corrections."""
    _number(document, edit, "step")
    return document


def _mistake(document: Document, edit: Edit) -> Document:
    """Mark a video as containing a mistake; with `holds` false, as normal."""
    video, holds = _video(document, edit), edit.get("holds", True)
    check_kind("holds", holds, bool, "true or false")
    mistakes = document.mistakes | {video} if holds else document.mistakes - {video}
    if len(document.parts) - len(mistakes) < FEWEST_NORMAL:
        raise OptionError(
            f"video={video!r}: the reference set needs at least {FEWEST_NORMAL} videos.",
            setting="video",
            value=video,
        )
    return replace(document, mistakes=mistakes)


def _click(document: Document, edit: Edit) -> Document:
    """Add a click of a step at `time`."""
    video, time = _video(document, edit), _time(document, edit, "time")
    click = Click(time, _number(document, edit, "step"))
    return _with_clicks(document, video, (*document.clicks.get(video, ()), click))


def _move_click(document: Document, edit: Edit) -> Document:
    video, time = _video(document, edit), _time(document, edit, "time")
    place = _click_place(document, video, edit)
    clicks = list(document.clicks[video])
    clicks[place] = clicks[place]._replace(time=time)
    return _with_clicks(document, video, clicks)


def _remove_click(document: Document, edit: Edit) -> Document:
    video = _video(document, edit)
    place = _click_place(document, video, edit)
    clicks = document.clicks[video]
    return _with_clicks(document, video, (*clicks[:place], *clicks[place + 1 :]))


def _clicks_complete(document: Document, edit: Edit) -> Document:
    """Mark the clicks of a video as complete; with `complete` false, as incomplete."""
    video, complete = _video(document, edit), edit.get("complete", True)
    check_kind("complete", complete, bool, "true or false")
    if complete and not document.clicks.get(video):
        raise OptionError(f"video={video!r} has no clicks. Click its steps first.")
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


def _click_place(document: Document, video: str, edit: Edit) -> int:
    place, count = edit.get("click"), len(document.clicks.get(video, ()))
    if _is_place(place, count):
        return place
    raise OptionError(f"click={place!r} is not a click of {video}; it has {count}, from 0.")


def _fine(document: Document, edit: Edit) -> Document:
    """Accept a kind of finding about a step; with `fine` false, stop accepting it.

    A finding without a step, such as the length of the video, is accepted for one video only.
    """
    kind, video, fine = edit.get("kind"), edit.get("video"), edit.get("fine", True)
    check_kind("kind", kind, str, "the kind of finding, such as missed")
    check_kind("video", video, str, "the name of the checked video")
    check_kind("fine", fine, bool, "true or false")
    step = None if edit.get("step") is None else _learned(document, edit)
    one = Fine(str(kind), step, "" if step is not None else str(video))
    return replace(document, fine=document.fine | {one} if fine else document.fine - {one})


def _learned(document: Document, edit: Edit) -> int:
    """The number of a step, which may be merged."""
    value = edit.get("step")
    if _is_place(value, document.fresh):
        return value
    raise OptionError(
        f"step={value!r} is not a step; give a number from 0 to {document.fresh - 1}."
    )


VERBS: dict[str, tuple[Callable[[Document, Edit], Document], str]] = {
    "rename": (_rename, "step name names"),
    "colour": (_colour, "step colour"),
    "add": (_add, "name"),
    "merge": (_merge, "step into"),
    "cut": (_cut, "video time"),
    "split": (_split, "video time everywhere"),
    "move": (_move, "video part edge time"),
    "mark": (_mark, "video start end step"),
    "confirm": (_confirm, "video"),
    "severity": (_severity, "step severity kinds were"),
    "mistake": (_mistake, "video holds"),
    "click": (_click, "video time step"),
    "move_click": (_move_click, "video click time"),
    "remove_click": (_remove_click, "video click"),
    "clicks_complete": (_clicks_complete, "video complete"),
    "fine": (_fine, "kind step video fine"),
}
"""The function of each verb, and the values that it uses."""


def _with_new_step(document: Document, name: str) -> Document:
    step = Step(document.fresh, name, colour(document.fresh))
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


def _is_place(value: object, count: int) -> TypeGuard[int]:
    """Whether a value from JSON is a whole number from 0 to `count` - 1."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < count


def _number(document: Document, edit: Edit, key: str) -> int:
    value = edit.get(key)
    if _is_place(value, document.fresh) and document.step(value) is not None:
        return value
    raise OptionError(
        f"{key}={value!r} is not a step. Choose from {[step.number for step in document.steps]}.",
        setting=key,
        value=value,
    )


def _name(value: object) -> str:
    name = " ".join(value.split()) if isinstance(value, str) else ""
    if not (seen := name.translate(JOINERS)) or len(name) > LONGEST_NAME or not seen.isprintable():
        raise OptionError(
            f"name={value!r} is not allowed; give 1 to {LONGEST_NAME} printable characters.",
            setting="name",
            value=value,
        )
    return name


def _video(document: Document, edit: Edit) -> str:
    value = edit.get("video")
    if isinstance(value, str) and value in document.parts:
        return value
    raise unknown("video", value, document.parts)


def _time(document: Document, edit: Edit, key: str) -> float:
    value, end = edit.get(key), document.durations[_video(document, edit)]
    if isinstance(value, int | float) and not isinstance(value, bool) and -1e12 < value < 1e12:
        return _round(min(max(value, 0.0), end))
    raise OptionError(
        f"{key}={str(value)[:40]!r} is not a time; give seconds from 0 to {end:g}.",
        setting=key,
        value=value,
    )


def _round(seconds: float) -> float:
    """Round to a millisecond."""
    return round(seconds, 3)
