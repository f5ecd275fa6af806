"""The verbs of edits: one pure function each, which returns the document after the edit."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import pairwise

from stepcut import colours
from stepcut.annotations import union
from stepcut.errors import OptionError, check_kind, unknown
from stepcut.procedure.corrections.document import Click, Document, Fine, Part, Step, join
from stepcut.procedure.corrections.values import (
    Edit,
    click_in,
    flag_in,
    is_place,
    learned_step_in,
    name_in,
    rounded,
    step_in,
    time_in,
    video_in,
)

LEAST = 0.04
"""The shortest segment that an edit creates, in seconds: one frame at 25 frames per second."""
FEWEST_NORMAL = 2
"""The smallest reference set of videos without a mistake."""


def rename(document: Document, edit: Edit) -> Document:
    """Rename one step (`step`, `name`) or several (`names` by number), which may swap names."""
    wanted = edit["names"] if "names" in edit else {step_in(document, edit): edit.get("name")}
    check_kind("names", wanted, Mapping, "an object with a name for each step number")
    numbers = [int(key) if isinstance(key, str) and key.isdecimal() else key for key in wanted]
    names = {
        step_in(document, {"step": n}): name_in(name)
        for n, name in zip(numbers, wanted.values(), strict=True)
    }
    steps = tuple(step._replace(name=names.get(step.number, step.name)) for step in document.steps)
    return replace(document, steps=steps)


def colour(document: Document, edit: Edit) -> Document:
    number, value = step_in(document, edit), edit.get("colour")
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


def add(document: Document, edit: Edit) -> Document:
    return _with_new_step(document, name_in(edit.get("name")))


def merge(document: Document, edit: Edit) -> Document:
    number = step_in(document, edit)
    into = None if edit.get("into") is None else step_in(document, edit, "into")
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


def cut(document: Document, edit: Edit) -> Document:
    """Split a segment at `time`; both halves keep the step and count as confirmed."""
    video, time = video_in(document, edit), time_in(document, edit)
    whole = _part_at(document, video, time)
    halves = (whole._replace(end=time), whole._replace(start=time))
    parts = (
        half for part in document.parts[video] for half in (halves if part == whole else (part,))
    )
    return _with_parts(document, video, parts, (whole.start, whole.end))


def split(document: Document, edit: Edit) -> Document:
    """Split a step at `time` into the old and a new step; `everywhere`: at the same share."""
    video, time = video_in(document, edit), time_in(document, edit)
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
                else rounded(part.start + share * (part.end - part.start))
            )
            if chosen and min(middle - part.start, part.end - middle) >= LEAST:
                halves += [part._replace(end=middle), part._replace(start=middle, step=number)]
                covered[name] = union(covered.get(name, ()), (part.start, part.end))
            else:
                halves.append(part)
        parts[name] = tuple(halves)
    return replace(grown, parts=parts, annotated=covered)


def move(document: Document, edit: Edit) -> Document:
    """Move the start or end of a segment, and of a neighbour that touches it.

    The segments on both sides of the boundary count as confirmed.
    """
    video, time = video_in(document, edit), time_in(document, edit)
    parts, place, edge = list(document.parts[video]), edit.get("part"), edit.get("edge")
    if not is_place(place, len(parts)):
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
    moved = rounded(min(max(time, low), high)) if low <= high else here
    touched = []
    if ends:
        parts[left] = parts[left]._replace(end=moved)
        touched.append((parts[left].start, max(here, moved)))
    if starts:
        parts[right] = parts[right]._replace(start=moved)
        touched.append((min(here, moved), parts[right].end))
    return _with_parts(document, video, parts, *touched)


def mark(document: Document, edit: Edit) -> Document:
    """Label the interval from `start` to `end` as a step, or as background if the step is null."""
    video = video_in(document, edit)
    start, end = time_in(document, edit, "start"), time_in(document, edit, "end")
    number = None if edit.get("step") is None else step_in(document, edit)
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


def confirm(document: Document, edit: Edit) -> Document:
    """Confirm all segments of a video."""
    video = video_in(document, edit)
    return replace(
        document, annotated={**document.annotated, video: ((0.0, document.durations[video]),)}
    )


def severity(document: Document, edit: Edit) -> Document:
    """Check a severity edit, which changes only the list of corrections."""
    step_in(document, edit)
    return document


def mistake(document: Document, edit: Edit) -> Document:
    """Mark a video as containing a mistake; with `holds` false, as normal."""
    video, holds = video_in(document, edit), flag_in(edit, "holds")
    mistakes = document.mistakes | {video} if holds else document.mistakes - {video}
    if len(document.parts) - len(mistakes) < FEWEST_NORMAL:
        raise OptionError(
            f"video={video!r}: the reference set needs at least {FEWEST_NORMAL} videos.",
            setting="video",
            value=video,
        )
    return replace(document, mistakes=mistakes)


def click(document: Document, edit: Edit) -> Document:
    """Add a click of a step at `time`."""
    video, time = video_in(document, edit), time_in(document, edit)
    click = Click(time, step_in(document, edit))
    return _with_clicks(document, video, (*document.clicks.get(video, ()), click))


def move_click(document: Document, edit: Edit) -> Document:
    video, time = video_in(document, edit), time_in(document, edit)
    place = click_in(document, video, edit)
    clicks = list(document.clicks[video])
    clicks[place] = clicks[place]._replace(time=time)
    return _with_clicks(document, video, clicks)


def remove_click(document: Document, edit: Edit) -> Document:
    video = video_in(document, edit)
    place = click_in(document, video, edit)
    clicks = document.clicks[video]
    return _with_clicks(document, video, (*clicks[:place], *clicks[place + 1 :]))


def clicks_complete(document: Document, edit: Edit) -> Document:
    """Mark the clicks of a video as complete; with `complete` false, as incomplete."""
    video, complete = video_in(document, edit), flag_in(edit, "complete")
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


def fine(document: Document, edit: Edit) -> Document:
    """Accept a kind of finding about a step; with `fine` false, stop accepting it.

    A finding without a step, such as the length of the video, is accepted for one video only.
    """
    kind, video, fine = edit.get("kind"), edit.get("video"), flag_in(edit, "fine")
    check_kind("kind", kind, str, "the kind of finding, such as missed")
    check_kind("video", video, str, "the name of the checked video")
    step = None if edit.get("step") is None else learned_step_in(document, edit)
    one = Fine(str(kind), step, "" if step is not None else str(video))
    return replace(document, fine=document.fine | {one} if fine else document.fine - {one})


def _with_new_step(document: Document, name: str) -> Document:
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
