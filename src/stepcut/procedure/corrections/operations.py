"""What a person may change, one pure function each: rename, colour, add, merge, cut, split, move,
mark, confirm ...

An edit is a JSON object with the verb under "do". `apply` checks every value before it changes
anything.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

from stepcut.annotations import union
from stepcut.colours import colour
from stepcut.errors import OptionError, check_kind, choose, unknown
from stepcut.files.names import plain
from stepcut.procedure.corrections.document import Click, Document, Fine, Part, Step, join

Edit = Mapping[str, Any]

LEAST = 0.04
"""The shortest segment that an edit leaves behind, in seconds: one frame at 25 a second."""
LONGEST_NAME = 200
FEWEST_NORMAL = 2
"""Videos that must be left where others are said to hold mistakes."""
JOINERS = dict.fromkeys(map(ord, "\u200c\u200d\u200e\u200f"))
"""Not seen, but part of words: what joins or parts letters and emoji (Persian, 👩‍🍳), and marks of
direction."""


def apply(document: Document, edit: Edit) -> Document:
    """The document after one edit, or an OptionError that says what is wrong with it."""
    if not isinstance(edit, Mapping):
        raise OptionError(f"an edit must be an object with a verb under 'do'; got {edit!r}.")
    after = choose("do", str(edit.get("do")), VERBS)[0](document, edit)
    names = [step.name for step in after.steps]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise OptionError(
            f"name={twice!r} is a step already; names must differ. Merge the two instead."
        )
    return after


def correct(document: Document, edit: Edit) -> Document:
    """The document after one new edit: as `apply`, and a name that is given must differ by more
    than capitals.

    Edits that were made before are applied as they are: nothing that a person did is lost.
    """
    after = apply(document, edit)
    given = [
        step
        for step in after.steps
        if edit["do"] in ("rename", "add") and step not in document.steps
    ]
    for step in given:
        if other := next(
            (o for o in after.steps if o != step and plain(o.name) == plain(step.name)), None
        ):
            raise OptionError(
                f"name={step.name!r} is a step already, {other.name!r}. Merge the two instead."
            )
    return after


def plain_edit(edit: Edit) -> Edit:
    """What is written down of an `edit` that fits: the values that its verb knows."""
    kept = {key: edit[key] for key in ("do", *VERBS[edit["do"]][1].split()) if key in edit}
    try:
        json.dumps(kept, allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise OptionError(
            f"the edit {edit['do']} cannot be written down ({error}). Give words and numbers."
        ) from error
    return kept


def describe(document: Document, edit: Edit) -> str:
    """What an edit does, in words, for the document it is done to."""
    step = document.step(edit.get("step", -1))
    name, several = (
        step.name if step else "background",
        edit.get("names") if edit["do"] == "rename" else None,
    )
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
        "severity": f"what a check makes of {name}",
        "mistake": f"{video} {'contains a mistake' if edit.get('holds', True) else 'is normal'}",
        "click": f"click {name} in {video}",
        "move_click": f"move a click in {video}",
        "remove_click": f"remove a click in {video}",
        "clicks_complete": f"clicks in {video} are "
        f"{'complete' if edit.get('complete', True) else 'incomplete'}",
        "fine": f"accept a finding in {video}"
        if edit.get("fine", True)
        else f"accept a finding in {video} no longer",
    }
    return words[edit["do"]]


def _rename(document: Document, edit: Edit) -> Document:
    """Name one step (`step`, `name`), or several at once (`names`, a name by number), which may
    exchange names."""
    given = (
        edit["names"] if "names" in edit else {_number(document, edit, "step"): edit.get("name")}
    )
    check_kind("names", given, Mapping, "an object with a name for each step number")
    numbers = [int(key) if isinstance(key, str) and key.isdecimal() else key for key in given]
    names = {
        _number(document, {"step": n}, "step"): _name(word)
        for n, word in zip(numbers, given.values(), strict=True)
    }
    steps = tuple(step._replace(name=names.get(step.number, step.name)) for step in document.steps)
    return replace(document, steps=steps)


def _colour(document: Document, edit: Edit) -> Document:
    number, value = _number(document, edit, "step"), edit.get("colour")
    if not isinstance(value, str) or not re.fullmatch(r"#[0-9a-f]{6}", value):
        raise OptionError(
            f"colour={value!r} is not allowed; give #rrggbb in small letters, as #4477aa."
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
    """The segment to cut at this time."""
    whole = next((part for part in document.parts[video] if part.start < time < part.end), None)
    if whole is None:
        raise OptionError(
            f"time={time:g} lies in no step of {video}, so there is nothing to split. Choose a segment."
        )
    if min(time - whole.start, whole.end - time) < LEAST:
        raise OptionError(
            f"time={time:g} is at the border of the segment; go {LEAST:g} s or more inside it."
        )
    return whole


def _cut(document: Document, edit: Edit) -> Document:
    """Cut a segment in two at `time`; both keep the step, and count as confirmed: who cuts a
    segment looked at it."""
    video, time = _video(document, edit), _time(document, edit, "time")
    whole = _part_at(document, video, time)
    halves = (whole._replace(end=time), whole._replace(start=time))
    cut = (
        half for part in document.parts[video] for half in (halves if part == whole else (part,))
    )
    covered = union(document.annotated.get(video, ()), (whole.start, whole.end))
    return replace(
        document,
        parts={**document.parts, video: tuple(cut)},
        annotated={**document.annotated, video: covered},
    )


def _split(document: Document, edit: Edit) -> Document:
    """Cut a step in two: what comes after `time` becomes a new step; with `everywhere`, at the same
    share of each."""
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
        cut: list[Part] = []
        for part in document.parts[name]:
            chosen = part.step == whole.step if edit.get("everywhere") else part == whole
            middle = (
                time
                if part == whole and name == video
                else _round(part.start + share * (part.end - part.start))
            )
            if chosen and min(middle - part.start, part.end - middle) >= LEAST:
                cut += [part._replace(end=middle), part._replace(start=middle, step=number)]
                covered[name] = union(covered.get(name, ()), (part.start, part.end))
            else:
                cut.append(part)
        parts[name] = tuple(cut)
    return replace(grown, parts=parts, annotated=covered)


def _move(document: Document, edit: Edit) -> Document:
    """Move the start or the end of one segment; a neighbour that touches it there moves along.

    Whoever moves a boundary has looked at both sides of it: the segments that meet there count as
    confirmed.
    """
    video, time = _video(document, edit), _time(document, edit, "time")
    parts, place, edge = list(document.parts[video]), edit.get("part"), edit.get("edge")
    if not isinstance(place, int) or isinstance(place, bool) or not 0 <= place < len(parts):
        raise OptionError(
            f"part={place!r} is not a segment of {video}; it has {len(parts)}, counted from 0."
        )
    if edge not in ("start", "end"):
        raise unknown("edge", edge, ("start", "end"))
    solid = [
        k for k, part in enumerate(parts) if part.start < part.end or k == place
    ]  # an instant is no neighbour
    around, at = [-1, *solid, len(parts)], solid.index(place) + 1
    left, right = around[at - 1 : at + 1] if edge == "start" else around[at : at + 2]
    here, covered = getattr(parts[place], edge), document.annotated.get(video, ())
    touching = left >= 0 and right < len(parts) and abs(parts[left].end - parts[right].start) < 1e-6
    ends, starts = edge == "end" or touching, edge == "start" or touching
    low, high = 0.0, document.durations[video]
    if left >= 0:
        low = parts[left].start + LEAST if ends else parts[left].end
    if right < len(parts):
        high = parts[right].end - LEAST if starts else parts[right].start
    moved = _round(min(max(time, low), high)) if low <= high else here
    if ends:
        parts[left] = parts[left]._replace(end=moved)
        covered = union(covered, (parts[left].start, max(here, moved)))
    if starts:
        parts[right] = parts[right]._replace(start=moved)
        covered = union(covered, (min(here, moved), parts[right].end))
    return replace(
        document,
        parts={**document.parts, video: tuple(parts)},
        annotated={**document.annotated, video: covered},
    )


def _mark(document: Document, edit: Edit) -> Document:
    """Give the stretch from `start` to `end` to a step, or to background when the step is null."""
    video = _video(document, edit)
    start, end = _time(document, edit, "start"), _time(document, edit, "end")
    number = None if edit.get("step") is None else _number(document, edit, "step")
    if end - start < LEAST:
        raise OptionError(
            f"the stretch from {start:g} to {end:g} s is too short; mark {LEAST:g} s or more."
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
    covered = union(document.annotated.get(video, ()), (start, end))
    return replace(
        document,
        parts={**document.parts, video: parts},
        annotated={**document.annotated, video: covered},
    )


def _confirm(document: Document, edit: Edit) -> Document:
    """This video is right as it is."""
    video = _video(document, edit)
    return replace(
        document, annotated={**document.annotated, video: ((0.0, document.durations[video]),)}
    )


def _severity(document: Document, edit: Edit) -> Document:
    """What a check makes of a step: no part of the document, but in the list, so that it can be
    undone."""
    _number(document, edit, "step")
    return document


def _mistake(document: Document, edit: Edit) -> Document:
    """This video contains a mistake, so it is not a normal one; with `holds` false it is one
    again."""
    video, holds = _video(document, edit), edit.get("holds", True)
    check_kind("holds", holds, bool, "true or false")
    mistakes = document.mistakes | {video} if holds else document.mistakes - {video}
    if len(document.parts) - len(mistakes) < FEWEST_NORMAL:
        raise OptionError(
            f"video={video!r}: fewer than {FEWEST_NORMAL} normal videos would be left to compare with."
        )
    return replace(document, mistakes=mistakes)


def _click(document: Document, edit: Edit) -> Document:
    """The step is done at `time`."""
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
    """Every occurrence of a step in this video has a click; with `complete` false some have
    none."""
    video, complete = _video(document, edit), edit.get("complete", True)
    check_kind("complete", complete, bool, "true or false")
    if complete and not document.clicks.get(video):
        raise OptionError(f"video={video!r} has no clicks. Click its steps first.")
    changed = document.complete | {video} if complete else document.complete - {video}
    return replace(document, complete=changed)


def _with_clicks(document: Document, video: str, clicks: Iterable[Click]) -> Document:
    """The document with these clicks in a video; two steps at one instant are refused."""
    ordered = tuple(sorted(set(clicks)))
    for one, other in pairwise(ordered):
        if one.time == other.time:
            raise OptionError(
                f"time={one.time:g} in {video} has a click of another step. Move or remove that one."
            )
    complete = document.complete if ordered else document.complete - {video}
    return replace(document, clicks={**document.clicks, video: ordered}, complete=complete)


def _click_place(document: Document, video: str, edit: Edit) -> int:
    place, count = edit.get("click"), len(document.clicks.get(video, ()))
    if isinstance(place, int) and not isinstance(place, bool) and 0 <= place < count:
        return place
    raise OptionError(f"click={place!r} is not a click of {video}; it has {count}, from 0.")


def _fine(document: Document, edit: Edit) -> Document:
    """Accept a kind of finding about a step from now on; with `fine` false, no longer.

    A finding about no step, such as the length of the whole video, is accepted in this video alone.
    """
    kind, video, fine = edit.get("kind"), edit.get("video"), edit.get("fine", True)
    check_kind("kind", kind, str, "the kind of finding, such as missed")
    check_kind("video", video, str, "the name of the checked video")
    check_kind("fine", fine, bool, "true or false")
    step = None if edit.get("step") is None else _learned(document, edit)
    one = Fine(str(kind), step, "" if step is not None else str(video))
    return replace(document, fine=document.fine | {one} if fine else document.fine - {one})


def _learned(document: Document, edit: Edit) -> int:
    """The number of a step of the model, whatever became of it."""
    value = edit.get("step")
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < document.fresh:
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
"""What each verb does, and the values that it knows."""


def _with_new_step(document: Document, name: str) -> Document:
    step = Step(document.fresh, name, colour(document.fresh))
    return replace(document, steps=(*document.steps, step), fresh=document.fresh + 1)


def _number(document: Document, edit: Edit, key: str) -> int:
    value = edit.get(key)
    if isinstance(value, int) and not isinstance(value, bool) and document.step(value) is not None:
        return value
    raise OptionError(
        f"{key}={value!r} is no step here. Choose from {[step.number for step in document.steps]}."
    )


def _name(value: object) -> str:
    """A step's name: plain text of one line."""
    name = " ".join(value.split()) if isinstance(value, str) else ""
    if not (seen := name.translate(JOINERS)) or len(name) > LONGEST_NAME or not seen.isprintable():
        raise OptionError(
            f"name={value!r} is not allowed; give 1 to {LONGEST_NAME} printable characters."
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
    raise OptionError(f"{key}={str(value)[:40]!r} is no time; give seconds from 0 to {end:g}.")


def _round(seconds: float) -> float:
    """To a millisecond: finer than any frame, and short to read in the file."""
    return round(seconds, 3)
