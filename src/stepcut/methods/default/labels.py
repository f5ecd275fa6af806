"""Labels that a person gave to some videos: checked, and matched with the steps that were found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import OptionError
from stepcut.methods.contract import BACKGROUND, OPEN, Labels
from stepcut.methods.default.consensus import overlap, pair_steps


def check_labels(labels: Sequence[Labels | None], lengths: Sequence[int]) -> list[Labels]:
    """Labels (T,) of every video, `OPEN` where nobody said anything; one sentence for what makes no sense."""
    if not hasattr(labels, "__len__") or len(labels) != len(lengths):
        raise OptionError(
            f"labels must be a list of {len(lengths)}, one for each of the videos; None stands for no labels."
        )
    checked = []
    for number, (given, length) in enumerate(zip(labels, lengths, strict=True)):
        known = np.full(length, OPEN, dtype=np.int64) if given is None else np.asarray(given)
        if known.shape != (length,) or known.dtype.kind not in "iu":
            raise OptionError(
                f"the labels of video {number} are {known.dtype} of shape {known.shape}; they must be whole numbers "
                f"({length},), one per row of features: a step from 0, -1 for background, -2 for open."
            )
        if known.size and known.min() < OPEN:
            raise OptionError(
                f"the labels of video {number} hold {known.min()}; allowed are steps from 0, -1 for background and "
                "-2 for open."
            )
        checked.append(known.astype(np.int64))
    if not any((known != OPEN).any() for known in checked):
        raise OptionError("labels were given, but all of them are open (-2); label a video, or leave labels out.")
    return checked


def match_found(found: Sequence[Labels], labels: Sequence[Labels], steps: int) -> NDArray[np.int64]:
    """(K,): the found step that stands for each labelled one, paired for the highest mean F1 on labelled frames; the
    others follow in their order."""
    known = np.concatenate(labels)
    inside = known != OPEN
    gain = overlap(known[inside], np.concatenate(found)[inside], steps)
    return np.asarray(pair_steps(gain)[1], dtype=np.int64)


def number_as_labelled(found: Sequence[Labels], labels: Sequence[Labels], steps: int) -> list[Labels]:
    """The steps found, in the numbers of the labelled ones that they stand for."""
    number = np.append(np.argsort(match_found(found, labels, steps)), BACKGROUND)
    return [number[cut] for cut in found]


def share_right(found: Sequence[Labels], labels: Sequence[Labels], steps: int) -> float:
    """The share of labelled rows that were found right, once the steps found are matched with those labelled."""
    known, cut = np.concatenate(labels), np.concatenate(number_as_labelled(found, labels, steps))
    return float((cut == known)[known != OPEN].mean())


def labelled_videos(labels: Sequence[Labels]) -> float:
    """How many videos are labelled; one that is labelled in part counts in part."""
    return float(sum((known != OPEN).mean() for known in labels))
