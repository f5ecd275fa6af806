"""Names of steps: those that a recipe or earlier labels decide, and words for what a step looks like, as suggestions.

A recipe is a text file with a line for each step, with a usual duration or "any time" after a semicolon:

    cut bread; 40 s
    spread butter; 1:30
    wipe table; any time
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import AnnotationError, OptionError, as_items
from stepcut.features.backbones.lite0 import LAYOUT, package_weights
from stepcut.features.contract import Features
from stepcut.features.video.sample import frame_at
from stepcut.formats.common import decode
from stepcut.methods.arithmetic import Floats
from stepcut.methods.inputs import Labels
from stepcut.methods.stepcut.consensus import pair_steps
from stepcut.procedure.lesson import StepLabels, find_alike, nameless

NOTHING = 1e6
"""What it costs to pair a step with no name, or a name with no step: more than any real pair."""
Namer = Callable[[list[NDArray[np.uint8]]], str | Sequence[str]]
"""From pictures (H, W, 3) of one step to words for it, the best first: a user's own image-text model."""

SHORTEST, LONGEST = 1e-9, 1e9
"""Seconds that a step of a recipe may take, beside 0, which says nothing."""
WORDS, PICTURES = 2, 3
"""How many words are offered for a step, and how many pictures of it a namer is shown."""


@dataclass(frozen=True)
class Ingredient:
    """One line of a recipe."""

    name: str
    seconds: float | None = None
    """How long it usually takes."""
    any_time: bool = False
    """Whether it may come at any place of the order."""


def read_recipe(given: str | os.PathLike[str] | Sequence[str]) -> list[Ingredient]:
    """The steps of the recipe that was `given`: a text file, or its lines."""
    if isinstance(given, str | os.PathLike):
        try:
            lines = decode(Path(given).read_bytes()).splitlines()
        except OSError as error:
            raise OptionError(
                f"recipe={str(given)!r} cannot be read ({error.strerror}). Give a text file with a step on each line."
            ) from error
    else:
        lines = as_items(
            "recipe", given, str, "a text file or a list of lines, each the name of a step"
        )
    steps = [_line(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not steps:
        raise AnnotationError("the recipe has no step in it.")
    if alike := find_alike([step.name for step in steps]):
        raise AnnotationError(f"the recipe names {alike[0]!r} twice; write each step once.")
    return steps


def _line(number: int, line: str) -> Ingredient:
    name, *marks = [part.strip() for part in line.split(";")]
    seconds, any_time = None, False
    for mark in marks:
        clock = re.fullmatch(
            r"(?:(\d+):)?(\d+(?:\.\d+)?)\s*(s|sec|seconds|m|min|minutes|h|hours)?", mark
        )
        if mark.casefold() == "any time":
            any_time = True
        elif clock:
            unit = {"m": 60.0, "h": 3600.0}.get((clock[3] or "s")[0], 1.0)
            seconds = float(clock[2]) * unit
            if clock[1]:  # 1:30 and 1:30 min are a minute and a half, 1:30 h are an hour and a half
                seconds = (60 * float(clock[1]) + float(clock[2])) * max(unit / 60, 1.0)
            if seconds and not SHORTEST <= seconds <= LONGEST:
                raise AnnotationError(
                    f"recipe, line {number}: no step takes {mark[:40]!r}; write 40 s, 1:30 or 2 min."
                )
        else:
            raise AnnotationError(
                f"recipe, line {number}: {mark!r} is neither a duration (40 s, 1:30, 2 min) nor 'any time'."
            )
    if not name:
        raise AnnotationError(
            f"recipe, line {number}: a step has no name; write it before the semicolon."
        )
    return Ingredient(name, seconds, any_time)


def fit_recipe(
    steps: Sequence[Ingredient], labels: Mapping[str, Labels], count: int, rate: float
) -> tuple[dict[int, str], dict[int, list[str]]]:
    """Which name is which step: those that order and durations decide, and for the other steps the likeliest names.

    Steps and names are paired for the least cost; a name's place is its rank in the recipe, before all steps that may
    come at any time, after them, or between; a step's the median of its ranks (as shares of the video), and a duration
    counts by the logarithm of the ratio. A pair is sure when the best pairing without it costs more by the spread of
    the step's place between videos.
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
    """For every step: its place in a video (the median of its ranks among the steps), how much that varies between
    videos, and how many seconds it takes."""
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
    lesson: StepLabels, before: Mapping[str, Labels], after: Mapping[str, Labels]
) -> list[str]:
    """Names for the steps found: labelled ones keep theirs; the names of the others go to the steps that now lie where
    those lay `before`, in the numbers of `lesson.names`, and what is left has no name yet."""
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
    """How many rows of all videos were a step `before` and are another `after`, (rows + 1, columns + 1), none last."""
    shared = np.zeros((rows + 1, columns + 1), dtype=np.int64)
    for name in after:
        if name in before:
            np.add.at(shared, (before[name], after[name]), 1)  # -1 is the last
    return shared


def words_of_features(
    features: Sequence[Features], labels: Mapping[str, Labels], count: int
) -> dict[int, list[str]]:
    """Words from the ImageNet classes of the default backbone, whose features these are; none for other features.

    The score of a class is linear in the pooled features, so that the mean score of a step is the score of its mean
    row. The words of a step are those whose probability there is highest above their mean over all steps.
    """
    spec = features[0].spec
    if spec is None or spec.backbone != "efficientnet-lite0" or features[0].rows.ndim != 2:
        return {}
    # The last 602 classes are things; the first 398 are animals.
    things = (
        (resources.files("stepcut.procedure") / "imagenet.txt")
        .read_text(encoding="utf-8")
        .split(",")
    )
    arrays = package_weights()
    weight, bias = (
        np.asarray(arrays[f"_fc.{part}"][-len(things) :], np.float64) for part in ("weight", "bias")
    )
    if spec.layer is not None:  # a layout row begins with the pooled features, divided
        weight = weight / LAYOUT["head"]
    wide = weight.shape[1]
    if (
        features[0].rows.shape[1] < wide
    ):  # a file that says the backbone's name, and holds something else
        return {}
    total, rows = np.zeros((count, wide)), np.zeros(count)
    for one in features:
        mine = (labels[one.name][:, None] == np.arange(count)).astype(np.float64)
        total += mine.T @ np.asarray(one.rows[:, :wide], dtype=np.float64)
        rows += mine.sum(axis=0)
    seen = np.flatnonzero(rows)
    if len(seen) < 2:
        return {}
    logits = (total[seen] / rows[seen, None]) @ weight.T + bias
    share = np.exp(logits - logits.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    best = np.argsort(share.mean(axis=0) - share, axis=1)[:, :WORDS].tolist()
    return {
        int(step): [" ".join(things[k].split()) for k in row]
        for step, row in zip(seen, best, strict=True)
    }


def words_of_namer(
    namer: Namer,
    videos: Mapping[str, str | None],
    labels: Mapping[str, Labels],
    count: int,
    rate: float,
) -> dict[int, list[str]]:
    """Words from a user's own model, which sees some pictures of each step; words that most share are left out."""
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
