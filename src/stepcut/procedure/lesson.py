"""Lesson: annotations merged with earlier ones, as constraints on the feature rows of all videos."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.optimize import linear_sum_assignment

from stepcut.annotations import Annotation, Annotations
from stepcut.errors import AnnotationError, OptionError, unknown
from stepcut.files.names import plain, spell
from stepcut.methods.constraints import OPEN, Constraint
from stepcut.methods.inputs import Labels
from stepcut.order.orders import find_alike, grouped
from stepcut.procedure.contradictions import refuse_contradictions
from stepcut.procedure.given import Given, Videos, collect, count_numbers
from stepcut.progress import warn_once
from stepcut.timeline import is_unnamed, unnamed

LITTLE = 1.0
"""A step with fewer seconds of labels in all videos is reported as weakly annotated."""


@dataclass(frozen=True)
class Lesson:
    """The annotations that a method learns from."""

    annotations: Annotations
    names: list[str]
    """The names of all steps by number; '' for an unnamed one."""
    constraints: list[Constraint | None]
    """The constraints on the feature rows of every video."""
    labels: list[Labels | None]
    """Labels (T,) of every video; a click is a label of one row."""

    @property
    def used(self) -> set[int]:
        """The numbers of the annotated steps."""
        named = self.annotations.steps
        return {number for number, name in enumerate(self.names) if name in named}


def usual_order(annotations: Annotations) -> list[str]:
    """Return the steps in the order of the recipe, then by the median of their relative middles.

    >>> from stepcut.timeline import Segment
    >>> one = Annotation(end=9.0, segments=(Segment(0, 2, "pour"), Segment(2, 9, "stir")))
    >>> usual_order(Annotations(videos={"a": one}))
    ['pour', 'stir']
    """
    middles = [
        (one.step, (one.start + one.end) / 2 / max(video.end, 1e-9))
        for video in annotations.videos.values()
        for one in video.segments
    ]
    middles += [
        (step, (place + 0.5) / len(video.transcript))
        for video in annotations.videos.values()
        for place, step in enumerate(video.transcript)
    ]
    places = grouped(middles)
    others = sorted(places, key=lambda name: float(np.median(places[name])))
    return list(dict.fromkeys((*(one.name for one in annotations.recipe), *others)))


def _spell(new: Annotations, known: Sequence[str]) -> Annotations:
    """Spell the steps of `new` as in `known`, and those of its transcripts as in its labels."""
    new = new.renamed(spell(new.steps, known))
    labelled = [one.step for video in new.videos.values() for one in video.segments]
    vocabulary = list(dict.fromkeys((*known, *labelled)))
    listed = [step for one in new.videos.values() for step in one.transcript]
    return new.renamed(spell(listed, vocabulary))


def nameless(number: int) -> str:
    """Return the placeholder name of an unnamed step beside named ones.

    >>> nameless(4)
    'step 5 (no name yet)'
    """
    return f"{unnamed(number)} (no name yet)"


def first_lesson(
    videos: Videos, given: Given, count: int | None, names: Sequence[str] | None
) -> Lesson:
    """Create the lesson of `learn`: the steps are the names in the annotations.

    `names` applies to numbered labels. Steps beyond the annotated ones, up to `count`, are unnamed.
    """
    numbers = count_numbers(videos, given)
    if given.labels and numbers is None and names is not None:
        raise OptionError("the labels already name the steps; omit names.", setting="names")
    steps = list(names or (unnamed(n) for n in range(max(numbers, count or 0) if numbers else 0)))
    new = collect(videos, given, steps)
    return lesson(videos, {}, steps, Annotations(), new, count, names is not None or bool(numbers))


def next_lesson(
    videos: Videos,
    given: Given,
    count: int | None,
    *,
    steps: Sequence[str],
    shown: Mapping[str, Labels],
    before: Annotations,
    taught: bool,
) -> Lesson:
    """Create the lesson of `teach`: annotations `before`, and new ones; see `lesson`."""
    numbers = None if given.recipe else count_numbers(videos, given)
    names = [*steps, *map(nameless, range(len(steps), numbers or 0))]
    new = collect(videos, given, names) if given.anything else None
    return lesson(videos, shown, names, before, new, count, numbers is not None, taught)


def lesson(
    videos: Videos,
    shown: Mapping[str, Labels],
    steps: Sequence[str],
    before: Annotations,
    new: Annotations | None,
    count: int | None,
    fixed: bool,
    taught: bool = False,
) -> Lesson:
    """Merge `new` annotations with those `before` into a lesson.

    shown   the current step numbers of every video, (T,)
    steps   the names of these steps
    count   the number of steps; by default the number of names
    fixed   whether the new annotations can only refer to `steps`, by number for example
    taught  whether the procedure was learned from annotations
    """
    named = [name for name in steps if fixed or not is_unnamed(name)]
    old = [name for name in steps if name in before.steps]
    if new is not None:
        new = _spell(new, named)
        before = before.renamed(_placeholders(old, new.steps))
        labelled = {one.step for video in new.videos.values() for one in video.segments}
        _refuse_unknown(new, [*steps, *labelled] if named else [], labelled)
    together = before if new is None else new.over(before)
    if new is None or fixed:
        if not (together.annotated or together.recipe):
            raise OptionError(
                "there is nothing to learn from: all labels are open (-2), or no part of a video "
                "is corrected or confirmed. Correct some in stepcut view, or give labels.",
                setting="labels",
            )
        return _whole(together, steps, videos, count, quiet=new is None)
    labelled_now = set(new.steps)
    known = list(dict.fromkeys((*old, *named)))
    if taught and labelled_now and len(named) == len(steps) and not labelled_now & set(known):
        raise AnnotationError(
            f"the labelled steps ({', '.join(sorted(labelled_now)[:5])}) are not steps of this "
            f"procedure ({', '.join(known[:5])}). Do the labels belong to another task?",
            setting="labels",
            value=sorted(labelled_now),
            allowed=known,
        )
    names = usual_order(together)
    room = None if count is None else max(count - len(names), 0)
    stay = [
        name
        for name in _shown_elsewhere(shown, steps, together, videos)
        if name in named and name not in names
    ]
    names += stay[:room] if labelled_now & set(steps) else []
    return _whole(together, names, videos, count)


def _placeholders(old: Sequence[str], new: Sequence[str]) -> dict[str, str]:
    """New placeholder names for unnamed steps, if `new` uses theirs for another step."""
    taken = {plain(name) for name in new}
    return {
        name: unnamed(number)
        for number, name in enumerate(old)
        if is_unnamed(name) and plain(name) in taken and name not in new
    }


def _refuse_unknown(new: Annotations, known: Sequence[str], labelled: Collection[str]) -> None:
    """Refuse a transcript step that is not `known`, or looks like a typo of a labelled one."""
    choices = known or labelled
    for video, one in new.videos.items():
        for step in one.transcript:
            if step not in choices:
                error = unknown("step", step, choices)
                if known or "did you mean" in str(error):
                    raise AnnotationError(f"{video}: the transcript: {error}", video=video)


def _shown_elsewhere(
    shown: Mapping[str, Labels], steps: Sequence[str], together: Annotations, videos: Videos
) -> list[str]:
    """The steps that last longer than `LITTLE` in the unlabelled part."""
    count = np.zeros(len(steps) + 1, dtype=np.int64)  # the last is background
    for name, labels in shown.items():
        annotation = together.videos.get(name, Annotation(end=0.0))
        np.add.at(count, labels[annotation.is_open(len(labels), videos.rate)], 1)
    return [name for name, n in zip(steps, count, strict=False) if n / float(videos.rate) > LITTLE]


def _whole(
    annotations: Annotations,
    names: Sequence[str],
    videos: Videos,
    count: int | None,
    quiet: bool = False,
) -> Lesson:
    """Check `annotations` and make a lesson of them; unless `quiet`, warn about weak ones."""
    total = len(names) if count is None else count
    if len(names) > total:
        named = ", ".join([*names[:5], *["..."] * (len(names) > 5)])
        raise OptionError(
            f"the labels name {len(names)} steps ({named}), but steps={total}; "
            f"give steps={len(names)} or more.",
            setting="steps",
            value=total,
        )
    if alike := find_alike(names):
        where = [
            next((n for n, one in annotations.videos.items() if name in one.steps), "the procedure")
            for name in alike
        ]
        raise AnnotationError(
            f"the step names {alike[0]!r} ({where[0]}) and {alike[1]!r} ({where[1]}) differ only "
            "by spaces, underscores or capitals. Use one spelling for one step.",
            setting="labels",
            value=alike,
        )
    if not annotations.annotated and not annotations.recipe:
        raise OptionError(
            "all labels are open (-2); label a part of a video, or omit labels.", setting="labels"
        )
    if not total:
        raise OptionError("the labels contain no step; label at least one.", setting="labels")
    for video, one in annotations.videos.items():
        refuse_contradictions(one, video, annotations.recipe)
    constraints = annotations.constraints(videos.samples, videos.rate, names)
    if not quiet:
        _report_little(annotations, videos.rate)
    labels = [
        None if one is None else _labels_of(one, rows)
        for one, rows in zip(constraints, videos.samples.values(), strict=True)
    ]
    whole = [*names, *("" for _ in range(total - len(names)))]
    return Lesson(annotations, whole, constraints, labels)


def _labels_of(constraint: Constraint, rows: int) -> Labels | None:
    """The labels of a `constraint` with clicks as one-row labels, or None."""
    if constraint.labels is None and not constraint.clicks:
        return None
    labels = np.full(rows, OPEN) if constraint.labels is None else constraint.labels.copy()
    for row, step in constraint.clicks:
        labels[row] = step
    return labels


def _report_little(annotations: Annotations, rate: Fraction) -> None:
    """Warn about steps that have one click or a second of labels, and no transcript."""
    seconds: dict[str, float] = {}
    clicks: dict[str, int] = {}
    for video in annotations.videos.values():
        for one in video.segments:
            seconds[one.step] = seconds.get(one.step, 0.0) + one.duration
            clicks[one.step] = clicks.get(one.step, 0) + (one.duration == 0)
    listed = {step for one in annotations.videos.values() for step in one.transcript}
    listed |= {one.name for one in annotations.recipe}
    little: dict[str, list[str]] = {}
    for step, lasts in seconds.items():
        if step not in listed and lasts <= max(LITTLE, 1 / float(rate)) and clicks[step] < 2:
            how = f"for {lasts:g} s" if lasts else "by one click"
            little.setdefault(how, []).append(repr(step))
    for how, steps in little.items():
        many = f"steps {', '.join(steps)} are each" if len(steps) > 1 else f"step {steps[0]} is"
        warn_once(
            f"{many} annotated only {how} in all videos together, which is little evidence. "
            "Annotate another video, too."
        )


def carry_names(
    lesson: Lesson, before: Mapping[str, Labels], after: Mapping[str, Labels]
) -> list[str]:
    """Name the steps after teaching.

    Labelled steps keep their name. The other names go to the steps that share most rows with the
    steps of that name `before`; the rest get placeholders.
    """
    old_names, used = lesson.names, lesson.used
    count = len(old_names)
    free = [number for number in range(count) if number not in used]
    old = [number for number in free if old_names[number]]
    names = [name if number in used else "" for number, name in enumerate(old_names)]
    alike = shared_rows(before, after, count, count)[:-1, :-1] + 0.5 * np.eye(count)
    shared = alike[np.ix_(old, free)]
    for i, j in zip(*linear_sum_assignment(shared, maximize=True), strict=True):
        if before:
            names[free[j]] = old_names[old[i]]
    return [name or nameless(number) for number, name in enumerate(names)]


def shared_rows(
    before: Mapping[str, Labels], after: Mapping[str, Labels], rows: int, columns: int
) -> Labels:
    """Count rows by step `before` and `after`, (rows + 1, columns + 1); background is last."""
    shared = np.zeros((rows + 1, columns + 1), dtype=np.int64)
    for name in after:
        if name in before:
            np.add.at(shared, (before[name], after[name]), 1)  # -1 is the last
    return shared
