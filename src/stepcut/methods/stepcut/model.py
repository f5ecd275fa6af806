"""The learned model: what each state looks like, when it comes and how long it lasts."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from stepcut.methods.arithmetic import (
    Floats,
    as_vectors,
    normalised_times,
    squared_distances,
    step_sums,
)
from stepcut.methods.inputs import Array, Labels, check_videos
from stepcut.methods.stepcut.chain import Chain, build_chain, forward, soften
from stepcut.methods.stepcut.em import time_bins
from stepcut.methods.stepcut.slow_features import project, refined_axes, smooth, soft_normalise
from stepcut.timeline import BACKGROUND

# Mean age of the rows in an exponential mean, in SDs of the Gaussian that it replaces: more
# smooths more, but lags
AGE = 0.5
# on every axis, the centre of a step that no row shows: embedded rows are shorter than 1
NOWHERE = 3.0


@dataclass(frozen=True)
class Kept:
    """A part of a method that is kept as arrays."""

    def state(self) -> dict[str, Array]:
        prefix = type(self).__name__.lower()
        return {f"{prefix}.{name}": np.asarray(value) for name, value in vars(self).items()}

    @classmethod
    def restore(cls, state: Mapping[str, Array]) -> Self:
        prefix = cls.__name__.lower()
        kept = {
            one.name: np.asarray(state[f"{prefix}.{one.name}"], dtype=np.float64)
            for one in fields(cls)
        }
        return cls(**{name: one if one.ndim else one.item() for name, one in kept.items()})


@dataclass(frozen=True)
class Model(Kept):
    """K + 1 states: the steps and, last, background."""

    weights: Floats  # (3, d, S): of the fine scale, of the coarse one, of motion
    bias: Floats  # (S,)
    timing: Floats  # (bins, S): log-density of the normalised time of each state
    sigmas: Floats  # (2,): widths of the Gaussians over time, in rows, the finer first
    lag: float  # rows before and after between which motion is measured
    stay: float  # probability that a state continues in the next row
    observation: float  # rows that count as one independent observation
    temperature: float  # how much softer probabilities are than the posterior; see `soften`

    def __len__(self) -> int:
        return len(self.bias) - 1

    def posterior(self, rows: Floats, chain: Chain | None = None) -> Floats:
        """(T, S) of one centred video; `chain`: its constraints."""
        # Smoothing and differences are linear, so they may come after the weights.
        fine, coarse, moving = rows @ self.weights
        scores = smooth(fine, float(self.sigmas[0])) + smooth(coarse, float(self.sigmas[1]))
        scores += motion(smooth(moving, float(self.sigmas[0])), int(self.lag))
        way = build_chain(None, len(rows), len(self) + 1) if chain is None else chain
        return way.posterior(self.evidence(scores, normalised_times(len(rows))), self.stay)

    def evidence(self, scores: Floats, times: Floats) -> Floats:
        """Log-likelihood (T, S) of rows with these `scores` (T, S), x_t' w_k."""
        return np.asarray((scores + self.bias + self.timing[time_bins(times)]) / self.observation)

    def probabilities(self, posterior: Floats) -> Floats:
        """Calibrated, (T, K), from a posterior (T, S); all steps share those of background."""
        softer = soften(posterior, self.temperature)
        return np.asarray(softer[:, :-1] + softer[:, -1:] / len(self))


@dataclass(frozen=True)
class Appearance(Kept):
    """An embedding in which a step of different videos lies close: linear discriminant analysis.

    Novelty is the distance from the nearest step there.
    """

    axes: Floats  # (d, p)
    norm: float  # median norm of a row on the axes
    sigma: float  # width of the Gaussian over time, in rows
    centres: Floats  # (K, p)

    def view(self, rows: Floats) -> Floats:
        """One centred video (T, d) in the embedding, (T, p), rows of length nearly 1."""
        return self.on_axes(smooth(rows @ self.axes, self.sigma))

    def on_axes(self, slow: Floats) -> Floats:
        """The view of a video that is smoothed and projected already."""
        return soft_normalise(slow, self.norm)

    def distance(self, view: Floats) -> Floats:
        """Distance of each row of a `view` (T, p) to the nearest step, (T,)."""
        return np.asarray(np.sqrt(squared_distances(view, self.centres).min(axis=1)))

    @property
    def shown(self) -> Floats:
        return np.asarray(self.centres[(self.centres**2).sum(axis=1) < 1])


def learn_appearance(
    slow: Sequence[Floats], labels: Sequence[Labels], count: int, plane: Floats, sigma: float
) -> Appearance:
    """Learn from centred videos (T, p), smoothed by `sigma` rows on a `plane` (d, p)."""
    axes = refined_axes(slow, labels, count)
    norm, views = project(slow, axes)
    sums, shown = step_sums(views, labels, count)
    centres = np.where(shown[:, None] > 0, sums / np.maximum(shown, 1)[:, None], NOWHERE)
    return Appearance(plane @ axes, norm, sigma, centres)


def most_likely(posterior: Floats) -> Labels:
    """The most likely state of each row (T, S): a step, or -1 for the last one, background."""
    best = posterior.argmax(axis=1)
    return np.where(best == posterior.shape[1] - 1, BACKGROUND, best).astype(np.int64)


def motion(rows: Floats, lag: int) -> Floats:
    """x_(t + lag) - x_(t - lag) of (T, d), where the ends repeat: tells reaching from returning."""
    place = np.arange(len(rows))
    return np.asarray(
        rows[np.minimum(place + lag, len(rows) - 1)] - rows[np.maximum(place - lag, 0)]
    )


class Causal:
    """Step probabilities from the past alone: running means, exponentials, the forward pass.

    `mean` (d,) and `length` in rows are those of the videos learned from.
    """

    def __init__(self, model: Model, mean: Floats, length: float) -> None:
        self.model, self.mean, self.length = model, mean, length
        self.seen, self.total = 0, np.zeros_like(mean)
        age = AGE * model.sigmas
        self.fade = (age / (1 + age))[:, None]
        self.smoothed = np.zeros((len(self.fade), len(mean)))
        self.weight = np.zeros_like(self.fade)
        self.past: deque[Floats] = deque(maxlen=2 * int(model.lag) + 1)
        self.belief: Floats | None = None

    def push(self, row: Array) -> Floats:
        [rows] = check_videos([np.asarray(row)[None]], len(self.mean))
        vector = as_vectors(rows)[0].astype(np.float64)
        self.seen += 1
        self.total += vector
        # Until a few steps have been seen, the mean of the videos learned from stands in for this one's.
        trust = self.length / len(self.model)
        mean = (trust * self.mean + self.total) / (trust + self.seen)
        self.smoothed = self.fade * self.smoothed + (1 - self.fade) * vector
        self.weight = self.fade * self.weight + (1 - self.fade)
        scales = self.smoothed / self.weight
        self.past.append(scales[0])
        centred = np.vstack([scales - mean, scales[0] - self.past[0]])
        scores = np.einsum("sd,sdk->k", centred, self.model.weights)[None]
        # The end is not known: time is measured against the usual length of a video.
        when = np.array([min(1.0, (self.seen - 0.5) / self.length)])
        evidence = self.model.evidence(scores, when)[0]
        self.belief = forward(self.belief, evidence, self.model.stay)
        self.label = int(most_likely(self.belief[None])[0])
        return np.asarray(self.model.probabilities(self.belief[None])[0])
