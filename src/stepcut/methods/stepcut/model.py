"""The learned model: what each state looks like, when it comes and how long it lasts, for any video."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Self

import numpy as np

from stepcut.methods.arithmetic import Floats, normalised_times, squared_distances
from stepcut.methods.inputs import Array, Labels, as_learned
from stepcut.methods.stepcut.chain import Chain, build_chain, soften
from stepcut.methods.stepcut.em import Emission
from stepcut.methods.stepcut.online import Causal
from stepcut.methods.stepcut.slow_features import (
    project,
    refined_axes,
    smooth,
    soft_normalise,
)
from stepcut.timeline import BACKGROUND

NOWHERE = 3.0
"""The centre of a step that no row shows, on every axis: embedded rows are shorter than 1, so none is near it."""


@dataclass(frozen=True)
class Scales:
    """How the rows of a video become what the model sees: smoothed at two scales, and motion at the finer one.

    Motion is how features change from a second before to a second after: a hand that reaches and one that returns look
    alike in a still picture.
    """

    sigmas: Floats
    """(2,): widths of the Gaussians over time, in rows, the finer first"""
    lag: int
    """Rows before and after between which motion is measured."""

    def view(self, rows: Floats) -> Floats:
        """(T, 3 p) of one centred video (T, p)."""
        fine, coarse = (smooth(rows, float(sigma)) for sigma in self.sigmas)
        return np.column_stack([fine, coarse, motion(fine, self.lag)])


@dataclass(frozen=True)
class Model:
    """K + 1 states: the steps and, last, background."""

    weights: Floats
    """(3, d, S): of the fine scale, of the coarse one, of motion"""
    bias: Floats
    """(S,)"""
    timing: Floats
    """(bins, S): log-density of the normalised time of each state"""
    sigmas: Floats
    """(2,): see `Scales`"""
    lag: float
    """See `Scales`."""
    stay: float
    """Probability that a state continues in the next row."""
    observation: float
    """Rows that count as one independent observation."""
    temperature: float
    """How much softer probabilities are than the posterior; see `soften`."""

    def __len__(self) -> int:
        return len(self.bias) - 1

    def evidence(self, rows: Floats) -> Floats:
        """Log-likelihood (T, S) of one centred video (T, d)."""
        # Smoothing and differences are linear, so they may come after the weights.
        fine, coarse, moving = rows @ self.weights
        scores = smooth(fine, float(self.sigmas[0])) + smooth(coarse, float(self.sigmas[1]))
        scores += motion(smooth(moving, float(self.sigmas[0])), int(self.lag))
        return self._at(scores, normalised_times(len(rows)))

    def posterior(self, rows: Floats, chain: Chain | None = None) -> Floats:
        """How likely each state is at each row of one centred video, (T, S); `chain`: its constraints."""
        way = build_chain(None, len(rows), len(self) + 1) if chain is None else chain
        return way.posterior(self.evidence(rows), self.stay)

    def probabilities(self, posterior: Floats) -> Floats:
        """Step probabilities (T, K) from a posterior (T, S), softened so that they are calibrated; rows sum to 1.

        What belongs to background is shared by all steps: no step is likely there.
        """
        softer = soften(posterior, self.temperature)
        return np.asarray(softer[:, :-1] + softer[:, -1:] / len(self))

    def online(self, mean: Floats, length: float) -> Causal:
        """Probabilities row by row; `mean` (d,) and `length` in rows are those of the videos learned from."""

        def evidence(rows: Floats, when: Floats) -> Floats:
            return np.asarray(self._at(np.einsum("sd,sdk->k", rows, self.weights)[None], when)[0])

        return Causal(
            mean,
            length,
            len(self),
            self.sigmas,
            int(self.lag),
            self.stay,
            evidence,
            self.probabilities,
        )

    def state(self) -> dict[str, Array]:
        """As arrays, for a method's `state`."""
        return {f"model.{name}": np.asarray(value) for name, value in vars(self).items()}

    @classmethod
    def restore(cls, state: Mapping[str, Array]) -> Self:
        """The model that a method's `state` holds."""
        return cls(**{one.name: as_learned(state[f"model.{one.name}"]) for one in fields(cls)})

    def _at(self, scores: Floats, times: Floats) -> Floats:
        bins = np.minimum((times * len(self.timing)).astype(np.int64), len(self.timing) - 1)
        return np.asarray((scores + self.bias + self.timing[bins]) / self.observation)


def make_model(
    emission: Emission,
    directions: Floats,
    scales: Scales,
    stay: float,
    observation: float,
    temperature: float,
) -> Model:
    """The model of features (d,) from an `emission` that was learned on principal `directions` (d, p)."""
    parts = np.split(np.asarray(emission.weights, dtype=np.float64), 3)
    return Model(
        np.stack([directions @ part for part in parts]),
        np.asarray(emission.bias, dtype=np.float64),
        emission.timing,
        scales.sigmas,
        float(scales.lag),
        stay,
        observation,
        temperature,
    )


@dataclass(frozen=True)
class Appearance:
    """An embedding in which the same step of different videos lies close: linear discriminant analysis of the steps.

    Novelty is the distance from the nearest step there.
    """

    axes: Floats
    """(d, p)"""
    norm: float
    """Median norm of a row on the axes."""
    sigma: float
    """Width of the Gaussian over time, in rows."""
    centres: Floats
    """(K, p)"""

    def view(self, rows: Floats) -> Floats:
        """One centred video (T, d) in the embedding, (T, p), rows of length nearly 1."""
        return soft_normalise(smooth(rows @ self.axes, self.sigma), self.norm)

    def distance(self, rows: Floats) -> Floats:
        """Distance of each row of one centred video to the nearest step, (T,)."""
        return np.asarray(np.sqrt(squared_distances(self.view(rows), self.centres).min(axis=1)))

    @property
    def shown(self) -> Floats:
        """The centres of the steps that some row shows."""
        return np.asarray(self.centres[(self.centres**2).sum(axis=1) < 1])

    def state(self) -> dict[str, Array]:
        """As arrays, for a method's `state`."""
        return {f"appearance.{name}": np.asarray(value) for name, value in vars(self).items()}

    @classmethod
    def restore(cls, state: Mapping[str, Array]) -> Self:
        """The appearance that a method's `state` holds."""
        return cls(**{one.name: as_learned(state[f"appearance.{one.name}"]) for one in fields(cls)})


def learn_appearance(slow: Sequence[Floats], labels: Sequence[Labels], count: int) -> Appearance:
    """The appearance of `count` steps from smoothed, centred videos (T, d) and their `labels`; its width is 0."""
    axes = refined_axes(slow, labels, count)
    norm, views = project(slow, axes)
    sums, shown = np.zeros((count, axes.shape[1])), np.zeros(count)
    for rows, numbers in zip(views, labels, strict=True):
        for step in np.unique(numbers[numbers >= 0]):  # every video counts once
            sums[step] += rows[numbers == step].mean(axis=0)
            shown[step] += 1
    centres = np.where(shown[:, None] > 0, sums / np.maximum(shown, 1)[:, None], NOWHERE)
    return Appearance(axes, norm, 0.0, centres)


def most_likely(posterior: Floats) -> Labels:
    """The most likely state of each row (T, S): a step, or -1 for the last one, background."""
    best = posterior.argmax(axis=1)
    return np.where(best == posterior.shape[1] - 1, BACKGROUND, best).astype(np.int64)


def motion(rows: Floats, lag: int) -> Floats:
    """x_(t + lag) - x_(t - lag) for every row of (T, d); before the first row and after the last nothing changes."""
    place = np.arange(len(rows))
    return np.asarray(
        rows[np.minimum(place + lag, len(rows) - 1)] - rows[np.maximum(place - lag, 0)]
    )
