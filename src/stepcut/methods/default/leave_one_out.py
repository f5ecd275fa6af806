"""Leave-one-out: how far the videos learned from lie from the steps when each is left out of learning in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.arithmetic import squared_distances
from stepcut.methods.contract import BACKGROUND, LeftOut
from stepcut.methods.default.em import estimate, log_likelihood
from stepcut.methods.default.forward_backward import forward_backward
from stepcut.methods.default.found import SOFTEN, steps_alone
from stepcut.methods.default.slow_features import project, refined_axes, soft_normalise
from stepcut.methods.segmenter import normalised_times

Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


class Seen(NamedTuple):
    """A video seen as if it were new."""

    labels: Labels
    """The steps found, (T,), -1 for background."""
    memberships: Floats
    """(T, K)"""
    distance: Floats
    """Of each row to the nearest step, (T,)."""
    looks: tuple[Floats, Floats]
    """The video (T, p) and the centres of the steps (K, p) on the axes."""


def leave_one_out(
    slow: Sequence[Floats],
    labels: Sequence[Labels],
    axes: Floats | None,
    count: int,
    prior: float,
    background: float,
) -> list[Seen]:
    """Every video seen as if it were new, with axes and centres learned from the others.

    slow        smoothed, centred videos (T, d)
    labels      the step of each row, -1 for background
    axes        the axes (d, p); None learns them from the labels of the other videos
    count       the number of steps
    prior       the weight of a step's usual time
    background  how easily a row is background, from 0 to 1
    """
    out = []
    for i, own in enumerate(slow):
        others = [place for place in range(len(slow)) if place != i] or [i]
        rows, known = [slow[place] for place in others], [labels[place] for place in others]
        seen = refined_axes(rows, known, count) if axes is None else axes
        norm, views = project(rows, seen)
        memberships = [(cut[:, None] == np.arange(count)).astype(np.float64) for cut in known]
        steps = estimate(views, memberships, shortest=1.0)
        view = soft_normalise(own @ seen, norm)
        evidence = log_likelihood(view, normalised_times(len(view)), steps, prior, background)
        cut = forward_backward(evidence).argmax(axis=1)
        shares = steps_alone(forward_backward(evidence / SOFTEN), count)
        distance = np.sqrt(squared_distances(view, steps.centres).min(axis=1))
        found = np.where(cut == count, BACKGROUND, cut).astype(np.int64)
        out.append(Seen(found, shares, distance, (view, steps.centres)))
    return out


def as_left_out(
    look: Callable[[], list[Seen]], scale: float, told: tuple[list[Labels], list[Floats]] | None = None
) -> LeftOut:
    """What a method says of the videos learned from, in each as if it were new.

    look    gives what is seen in them so
    scale   the usual distance of a row to its step's centre
    told    labels and memberships of every video left out of what labels teach, where there are labels
    """
    seen = look()
    cuts, shares = told or ([one.labels for one in seen], [one.memberships for one in seen])
    return LeftOut(cuts, shares, [one.distance / scale for one in seen], [one.looks for one in seen])
