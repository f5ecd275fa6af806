"""A lesson: what a person says, from labels, corrections and earlier lessons, in the numbers of the steps to learn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from stepcut.errors import AnnotationError, OptionError
from stepcut.methods.contract import OPEN, Labels
from stepcut.procedure.labels import Given, Labelled, check_enough, number_labels, read_labels, usual_order
from stepcut.procedure.record import Record
from stepcut.timeline import Timeline


@dataclass(frozen=True)
class Lesson:
    """What is to be learned: labels in numbers, and the names of the steps where they are known."""

    labels: Labelled
    names: list[str]
    """As many as there are steps; '' where a step has no name yet."""


def unnamed(number: int) -> str:
    """The name of a step that nobody has named.

    >>> unnamed(4)
    'step 4 (no name yet)'
    """
    return f"step {number} (no name yet)"


def first_lesson(labels: Labelled, steps: int | None, names: Sequence[str] | None) -> Lesson:
    """What `learn(labels=...)` asks for: the label names are the steps, and further ones have no name yet."""
    count = labels.count if steps is None else steps
    if labels.count > count:
        raise OptionError(
            f"the labels name {labels.count} steps, but steps={count}; give at least as many steps as there are names."
        )
    if labels.names is not None:
        if names is not None:
            raise OptionError("names were given beside labels that name the steps; leave names out.")
        return Lesson(labels, [*labels.names, *("" for _ in range(count - labels.count))])
    return Lesson(labels, list(names) if names else [f"step {number}" for number in range(count)])


def lesson(record: Record, given: Given | None, steps: int | None) -> Lesson:
    """What a procedure is taught: new labels, corrections, and the labels that it was taught before, in this order of
    weight.

    record  the procedure, with its corrections
    given   new labels; None for the corrections alone
    steps   how many steps there are to be; None: those that are named
    """
    shown = record.steps
    before = known_rows(record)
    if given is None:
        if not any((one != OPEN).any() for one in before.values()):
            raise OptionError(
                "there is nothing to learn from: no stretch of a video was corrected or confirmed. Correct some in "
                "stepcut view, or give labels."
            )
        return _whole(Labelled(before, shown), shown, steps, record.rate)
    new = read_labels(given)
    ends = {name: timeline.end for name, timeline in record.learned_timelines.items()}
    if not all(isinstance(one, Timeline) for one in new.values()):
        numbered = number_labels(new, record.samples, record.rate, ends)
        names = [*shown, *(unnamed(number) for number in range(len(shown), numbered.count))]
        return _whole(Labelled(_over(before, numbered.rows), names), names, steps, record.rate)
    timelines = {name: one for name, one in new.items() if isinstance(one, Timeline)}
    old_names = [shown[number] for number in sorted(Labelled(before).used)]
    names = usual_order([*timelines.values(), *(record.timelines[name] for name in before)])
    names = [name for name in names if name in old_names or any(name in one.sequence() for one in timelines.values())]
    fresh = number_labels(timelines, record.samples, record.rate, ends, names)
    said = {step for one in timelines.values() for step in one.sequence()}
    if record.given and not said & set(old_names):
        raise AnnotationError(
            f"none of the labelled steps ({', '.join(sorted(said)[:5])}) is one that this procedure was taught "
            f"({', '.join(old_names[:5])}). Are these the labels of another task?"
        )
    translate = np.array([*(names.index(step) if step in names else OPEN for step in shown), OPEN, -1])
    moved = {name: translate[one] for name, one in before.items()}
    return _whole(Labelled(_over(moved, fresh.rows), names), names, steps, record.rate)


def known_rows(record: Record) -> dict[str, Labels]:
    """What a person said of the rows of each video, in numbers of `record.steps`: labels that it was taught, as
    corrected since, and stretches that were set or confirmed; -2 elsewhere. Videos without any are left out."""
    document = record.document
    place = {step.number: number for number, step in enumerate(document.steps)}
    now = [document.stands_for(number) for number in range(len(record.learned_steps))]
    translate = np.array([*(-1 if number is None else place[number] for number in now), OPEN, -1])
    shown, known = record.labels, {}
    for name, rows in record.samples.items():
        labels = record.given.get(name, np.full(rows, OPEN))
        said = translate[labels]
        times = np.arange(rows) / float(record.rate)
        for start, end in document.known.get(name, ()):
            inside = (start <= times) & (times < end)
            said[inside] = shown[name][inside]
        if (said != OPEN).any():
            known[name] = said
    return known


def _over(before: Mapping[str, Labels], new: Mapping[str, Labels]) -> dict[str, Labels]:
    """The new labels over those before; where the new ones are open, the others stand."""
    together = dict(before)
    for name, rows in new.items():
        together[name] = np.where(rows == OPEN, before[name], rows) if name in before else rows
    return together


def _whole(labels: Labelled, names: Sequence[str], steps: int | None, rate: Fraction) -> Lesson:
    check_enough(labels, rate)
    count = len(names) if steps is None else steps
    if len(names) > count:
        raise OptionError(
            f"the labels name {len(names)} steps ({', '.join(names[:5])}), but steps={count}; give at least as many."
        )
    return Lesson(labels, [*names, *("" for _ in range(count - len(names)))])


def carry_names(lesson: Lesson, before: Mapping[str, Labels], after: Mapping[str, Labels]) -> list[str]:
    """Names for the steps found: labelled ones keep theirs; the names of the others go to the steps that now lie where
    those lay before, and what is left has no name yet.

    before  step numbers by video in the order of `lesson.names`, -1 for none
    after   the step numbers that were found now
    """
    from scipy.optimize import linear_sum_assignment

    used, count = lesson.labels.used, len(lesson.names)
    free = [number for number in range(count) if number not in used]
    old = [number for number in free if lesson.names[number]]
    names = [name if number in used else "" for number, name in enumerate(lesson.names)]
    shared = np.zeros((len(old), len(free)))
    for video, numbers in after.items():
        for i, was in enumerate(old):
            for j, now in enumerate(free):
                shared[i, j] += np.sum((before[video] == was) & (numbers == now)) if video in before else 0
    for i, j in zip(*linear_sum_assignment(shared, maximize=True), strict=True):
        if shared[i, j] > 0:
            names[free[j]] = lesson.names[old[i]]
    return [name or unnamed(number) for number, name in enumerate(names)]
