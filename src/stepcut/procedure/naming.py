"""Names of steps: those that a recipe or earlier labels decide, and words that a user's own model
suggests."""

from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stepcut.annotations import RecipeStep
from stepcut.features.video.sample import frame_at
from stepcut.methods.arithmetic import Floats
from stepcut.methods.inputs import Labels
from stepcut.methods.stepcut.consensus import pair_steps
from stepcut.procedure.lesson import Lesson, nameless

NOTHING = 1e6
"""What it costs to pair a step with no name, or a name with no step: more than any real pair."""
Namer = Callable[[list[NDArray[np.uint8]]], str | Sequence[str]]
"""From pictures (H, W, 3) of one step to words for it, the best first: a user's own image-text
model."""
WORDS, PICTURES = 2, 3
"""How many words are offered for a step, and how many pictures of it a namer is shown."""


def fit_recipe(
    steps: Sequence[RecipeStep], labels: Mapping[str, Labels], count: int, rate: float
) -> tuple[dict[int, str], dict[int, list[str]]]:
    """Which name is which step: those that order and durations decide, and for the other steps the
    likeliest names.

    Steps and names are paired for the least cost; a name's place is its rank in the recipe, before
    all steps that may come at any time, after them, or between; a step's the median of its ranks
    (as shares of the video), and a duration counts by the logarithm of the ratio. A pair is sure
    when the best pairing without it costs more by the spread of the step's place between videos.
    """
    places, spread, seconds = _measure(list(labels.values()), count, rate)
    fixed = [step for step in steps if not step.any_time]
    cost = np.zeros((count, len(steps)))
    for column, step in enumerate(steps):
        if not step.any_time:
            # Each step that may come at any time may come before it, and moves it by one place.
            rank, free = fixed.index(step) + 0.5, len(steps) - len(fixed)
            cost[:, column] += np.abs(
                places - np.clip(places, rank / len(steps), (rank + free) / len(steps))
            )
        if step.seconds:
            cost[:, column] += np.abs(np.log(np.maximum(seconds, 1e-3) / step.seconds)) / len(steps)
    rows, columns = pair_steps(-cost)
    best = cost[rows, columns].sum()
    sure: dict[int, str] = {}
    likely: dict[int, list[str]] = {}
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        without = cost.copy()
        without[row, column] = NOTHING
        other = without[pair_steps(-without)].sum()
        if other - best > spread[row] + 1e-9:  # not by rounding alone
            sure[row] = steps[column].name
        else:
            likely[row] = [steps[k].name for k in np.argsort(cost[row], kind="stable")[:3]]
    left = [step.name for step in steps if step.name not in sure.values()]
    for row in range(count):
        if row not in sure:
            mine = [name for name in likely.get(row, []) if name in left]
            likely[row] = mine or left[:3]
    return sure, {row: names for row, names in likely.items() if names}


def _measure(labels: Sequence[Labels], count: int, rate: float) -> tuple[Floats, Floats, Floats]:
    """For every step: its place in a video (the median of its ranks among the steps), how much that
    varies between videos, and how many seconds it takes."""
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
    """Names for the steps found: labelled ones keep theirs; the names of the others go to the steps
    that now lie where those lay `before`, in the numbers of `lesson.names`, and what is left has no
    name yet."""
    given, used = lesson.names, lesson.used
    free = [number for number in range(len(given)) if number not in used]
    old = [number for number in free if given[number]]
    names = [name if number in used else "" for number, name in enumerate(given)]
    alike = shared_rows(before, after, len(given), len(given))[:-1, :-1] + 0.5 * np.eye(len(given))
    shared = alike[np.ix_(old, free)]
    for i, j in zip(*pair_steps(shared), strict=True):
        if before:
            names[free[j]] = given[old[i]]
    return [name or nameless(number) for number, name in enumerate(names)]


def shared_rows(
    before: Mapping[str, Labels], after: Mapping[str, Labels], rows: int, columns: int
) -> Labels:
    """How many rows of all videos were a step `before` and are another `after`, (rows + 1, columns
    + 1), none last."""
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
    """Words from a user's own model, which sees some pictures of each step; words that most share
    are left out."""
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
            said = namer(pictures)
            found[step] = [said] if isinstance(said, str) else [str(word) for word in said]
    words = [word for mine in found.values() for word in set(mine)]
    common = {word for word in words if words.count(word) > max(1, len(found) / 2)}
    return {
        step: [word for word in mine if word not in common][:WORDS] for step, mine in found.items()
    }
