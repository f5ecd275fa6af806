"""Names of steps: from a recipe, from earlier labels, or suggested by a custom model."""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from stepcut.annotations import RecipeStep
from stepcut.features.video.sample import frame_at
from stepcut.methods.arithmetic import Floats
from stepcut.methods.inputs import Labels
from stepcut.procedure.lesson import Lesson, nameless

NOTHING = 1e6
"""The cost of a forbidden pair, higher than any real one."""
Namer = Callable[[list[NDArray[np.uint8]]], str | Sequence[str]]
"""Function from pictures (H, W, 3) of one step to names, best first; a custom image-text model."""
WORDS, PICTURES = 2, 3
"""The number of suggestions per step, and of pictures that a namer gets."""


def fit_recipe(
    steps: Sequence[RecipeStep], labels: Mapping[str, Labels], count: int, rate: float
) -> tuple[dict[int, str], dict[int, list[str]]]:
    """Match recipe names to steps by order and duration.

    Returns the certain names, and the likeliest names of the other steps, by step number.

    The matching has the least total cost. The cost of a pair is |rank of the step - rank in the
    recipe|, both as shares, plus |log(duration / recipe duration)| / number of names. The rank of a
    step is its median over videos; "any time" steps widen the rank in the recipe to an interval.
    A pair is certain if the best matching without it costs more than the spread of the step's rank.
    """
    places, spread, seconds = _measure(list(labels.values()), count, rate)
    fixed = [step for step in steps if not step.any_time]
    cost = np.zeros((count, len(steps)))
    for column, step in enumerate(steps):
        if not step.any_time:
            # Each "any time" step may come before this one and shift it by one rank.
            rank, free = fixed.index(step) + 0.5, len(steps) - len(fixed)
            cost[:, column] += np.abs(
                places - np.clip(places, rank / len(steps), (rank + free) / len(steps))
            )
        if step.seconds:
            cost[:, column] += np.abs(np.log(np.maximum(seconds, 1e-3) / step.seconds)) / len(steps)
    rows, columns = linear_sum_assignment(cost)
    best = cost[rows, columns].sum()
    certain: dict[int, str] = {}
    likely: dict[int, list[str]] = {}
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        without = cost.copy()
        without[row, column] = NOTHING
        other = without[linear_sum_assignment(without)].sum()
        if other - best > spread[row] + 1e-9:  # not by rounding alone
            certain[row] = steps[column].name
        else:
            likely[row] = [steps[k].name for k in np.argsort(cost[row], kind="stable")[:3]]
    left = [step.name for step in steps if step.name not in certain.values()]
    for row in range(count):
        if row not in certain:
            mine = [name for name in likely.get(row, []) if name in left]
            likely[row] = mine or left[:3]
    return certain, {row: names for row, names in likely.items() if names}


def _measure(labels: Sequence[Labels], count: int, rate: float) -> tuple[Floats, Floats, Floats]:
    """For every step: the median and spread of its rank in a video, and its median seconds."""
    ranks, lengths = np.full((2, len(labels), count), np.nan)
    for video, numbers in enumerate(labels):
        seen = np.unique(numbers[numbers >= 0])
        where = [np.flatnonzero(numbers == step) for step in seen]
        ranks[video, seen] = (np.argsort(np.argsort([each.mean() for each in where])) + 0.5) / max(
            len(seen), 1
        )
        lengths[video, seen] = [len(each) / rate for each in where]
    ranks[:, np.isnan(ranks).all(axis=0)] = 0.5
    lengths[:, np.isnan(lengths).all(axis=0)] = 1.0
    return np.nanmedian(ranks, axis=0), np.nanstd(ranks, axis=0), np.nanmedian(lengths, axis=0)


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


def words_of_namer(
    namer: Namer,
    videos: Mapping[str, str | None],
    labels: Mapping[str, Labels],
    count: int,
    rate: float,
) -> dict[int, list[str]]:
    """Suggest names with a `namer`; names that it gives to most steps are dropped."""
    found: dict[int, list[str]] = {}
    for step in range(count):
        places = [
            (videos[name], np.flatnonzero(numbers == step)) for name, numbers in labels.items()
        ]
        frames = (
            frame_at(path, (float(where[len(where) // 2]) + 0.5) / rate)
            for path, where in places
            if path and Path(path).is_file() and len(where)
        )
        pictures = list(islice((frame for frame in frames if frame is not None), PICTURES))
        if pictures:
            names = namer(pictures)
            found[step] = [names] if isinstance(names, str) else [str(name) for name in names]
    words = [word for mine in found.values() for word in set(mine)]
    common = {word for word in words if words.count(word) > max(1, len(found) / 2)}
    return {
        step: [word for word in mine if word not in common][:WORDS] for step, mine in found.items()
    }
