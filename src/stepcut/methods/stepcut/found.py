"""The model found without labels: slow axes, and on them a centre and a usual time for each step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Self

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.arithmetic import Floats, normalised_times, squared_distances
from stepcut.methods.inputs import Array, Labels, as_learned
from stepcut.methods.learned import LeftOut
from stepcut.methods.stepcut.em import Joined, Steps, estimate, log_likelihood
from stepcut.methods.stepcut.forward_backward import STAY, forward_backward, soften
from stepcut.methods.stepcut.online import Causal
from stepcut.methods.stepcut.slow_features import (
    centre,
    project,
    refined_axes,
    smooth,
    soft_normalise,
)
from stepcut.timeline import BACKGROUND

SOFTEN = 8.0
"""Neighbouring smoothed rows say almost the same, so probabilities count the log-likelihood of each this much less."""

NOWHERE = 3.0
"""The centre of a step that no row shows, on every axis: rows are shorter than 1, so none is near it."""

FOLDS = 20
"""With more videos than this, as many groups are left out instead of single videos: the time that takes goes with the
number of videos then, and not with its square."""


@dataclass(frozen=True)
class Found(Steps):
    """What the steps of centred videos (T, d) look like, and when they come."""

    plane: Floats
    """(d, p): the slow axes"""
    norm: float
    """Median norm of a row on the axes."""
    sigma: float
    """Width of the Gaussian over time, in rows."""
    prior: float
    """Weight of the usual times."""
    background: float
    """How easily a row is background, from 0 to 1."""

    def view(self, rows: Floats) -> Floats:
        """z = smooth(x - mean) on the axes, softly normalised."""
        return soft_normalise(smooth(rows @ self.plane, self.sigma), self.norm)

    def predict(self, rows: Floats) -> Labels:
        """The step of each row of one centred video (T, d), -1 for background."""
        return strongest(forward_backward(self._log_likelihood(rows)), len(self))

    def probabilities(self, rows: Floats) -> Floats:
        """How much each row of one centred video belongs to each step: (T, K), rows sum to 1."""
        return steps_alone(forward_backward(self._log_likelihood(rows) / SOFTEN), len(self))

    def distance(self, rows: Floats) -> Floats:
        """The distance of each row of one centred video to the nearest centre, (T,)."""
        return np.asarray(np.sqrt(squared_distances(self.view(rows), self.centres).min(axis=1)))

    def online(self, mean: Floats, length: float) -> Causal:
        """Memberships row by row; `mean` (d,) and `length` in rows are those of the videos learned from."""
        as_it_is = replace(self, sigma=0.0)  # rows come smoothed

        def evidence(rows: Floats, when: Floats) -> Floats:
            return np.asarray(as_it_is._log_likelihood(rows, when)[0])

        def probabilities(posterior: Floats) -> Floats:
            return steps_alone(soften(posterior, SOFTEN), len(self))

        return Causal(
            mean, length, len(self), np.array([self.sigma]), 0, STAY, evidence, probabilities
        )

    def renumbered(self, order: NDArray[np.intp]) -> Self:
        """The same steps, of which the one now at `order[k]` becomes number k."""
        return replace(self, centres=self.centres[order], times=self.times[order])

    def state(self, prefix: str = "") -> dict[str, Array]:
        """As arrays, for a method's `state`."""
        return {
            f"{prefix}{name}_": np.asarray(value)
            for name, value in vars(self).items()
            if name != "background"
        }

    @classmethod
    def restore(cls, state: Mapping[str, Array], background: float, prefix: str = "") -> Self:
        """The model that a method's `state` holds."""
        names = [one.name for one in fields(cls) if one.name != "background"]
        return cls(
            **{name: as_learned(state[f"{prefix}{name}_"]) for name in names}, background=background
        )

    def _log_likelihood(self, rows: Floats, when: Floats | None = None) -> Floats:
        """(T, K), or (T, K + 1) with background, of one centred video, at the times (T,) `when` or over all of it."""
        times = normalised_times(len(rows)) if when is None else when
        return log_likelihood(self.view(rows), times, self, self.prior, self.background)


def found_of_labels(
    slow: Sequence[Floats], labels: Sequence[Labels], like: Found, axes: Floats | None = None
) -> Found:
    """The model that labels describe, whoever gave them; with as many steps and the settings of one `like` it.

    slow    smoothed, centred videos (T, d)
    labels  the step of each row, -1 for background
    axes    the axes (d, p); None learns them from the labels
    """
    plane = refined_axes(slow, labels, len(like)) if axes is None else axes
    norm, views = project(slow, plane)
    share = (np.concatenate(labels)[:, None] == np.arange(len(like))).astype(np.float64)
    steps = estimate(Joined.of(views), share, shortest=1.0)
    steps.centres[share.sum(axis=0) == 0] = NOWHERE
    return replace(like, **vars(steps), plane=plane, norm=norm)


def leave_one_out(
    videos: Sequence[Floats],
    labels: Sequence[Labels],
    like: Found,
    axes: Floats | None,
    scale: float = 1.0,
    told: tuple[list[Labels], list[Floats]] | None = None,
) -> LeftOut:
    """Every video seen as if it were new, with axes and centres learned from the others, of other groups.

    videos  centred videos (T, d)
    labels, like, axes  as for `found_of_labels`
    scale  the usual distance of a row to its step's centre
    told   labels and probabilities of every video left out of what labels teach, where there are labels
    """
    slow, groups = [smooth(video, like.sigma) for video in videos], []
    for left in range(min(FOLDS, len(slow))):
        others = [place for place in range(len(slow)) if place % FOLDS != left] or [left]
        rows, known = [slow[place] for place in others], [labels[place] for place in others]
        groups.append(found_of_labels(rows, known, like, axes))
    pairs = [(groups[place % FOLDS], rows) for place, rows in enumerate(videos)]
    cuts, shares = told or (
        [model.predict(rows) for model, rows in pairs],
        [model.probabilities(rows) for model, rows in pairs],
    )
    novelty = [model.distance(rows) / scale for model, rows in pairs]
    looks = [(model.view(rows), model.shown) for model, rows in pairs]
    number = [place % FOLDS for place in range(len(videos))]
    return LeftOut(cuts, shares, novelty, looks, partial(_embed, groups, videos), number)


def _embed(
    groups: Sequence[Found],
    videos: Sequence[Floats],
    without: int,
    place: int,
    kept: NDArray[np.int64] | None,
) -> Floats:
    """The rows, or those `kept`, of the video at a `place`, as the model sees them that was learned `without` a
    group."""
    return groups[without].view(videos[place] if kept is None else centre(videos[place][kept]))


def strongest(posterior: Floats, count: int) -> Labels:
    """The most likely state of each row (T,): one of `count` steps, or -1 for the column after them, background."""
    best = posterior.argmax(axis=1)
    return np.where(best == count, BACKGROUND, best).astype(np.int64)


def steps_alone(posterior: Floats, count: int) -> Floats:
    """A posterior (T, K or K + 1) without the column of background, rows sum to 1; `count` is K."""
    steps = posterior[:, :count] + 1e-12
    return np.asarray(steps / steps.sum(axis=1, keepdims=True))
