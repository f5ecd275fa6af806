"""The model found without labels: slow axes, and on them a centre and a usual time for each step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.arithmetic import squared_distances
from stepcut.methods.contract import BACKGROUND, Array, Labels
from stepcut.methods.default.em import Steps, log_likelihood
from stepcut.methods.default.forward_backward import STAY, forward_backward, soften
from stepcut.methods.default.online import Causal, Model
from stepcut.methods.default.slow_features import smooth, soft_normalise
from stepcut.methods.segmenter import normalised_times

Floats = NDArray[np.float64]

SOFTEN = 8.0
"""Neighbouring smoothed rows say almost the same, so memberships count the log-likelihood of each this much less."""


@dataclass(frozen=True)
class Found:
    """What the steps of centred videos (T, d) look like, and when they come."""

    plane: Floats
    """(d, p): the slow axes"""
    centres: Floats
    """(K, p)"""
    times: Floats
    """(K,): usual normalised times"""
    spread: float
    """Variance of a row around its step's centre, per dimension."""
    norm: float
    """Median norm of a row on the axes."""
    sigma: float
    """Width of the Gaussian over time, in rows."""
    prior: float
    """Weight of the usual times."""
    background: float
    """How easily a row is background, from 0 to 1."""

    def __len__(self) -> int:
        return len(self.centres)

    def view(self, rows: Floats, sigma: float | None = None) -> Floats:
        """z = smooth(x - mean) on the axes, softly normalised; `sigma` where it is not the one that was learned."""
        width = self.sigma if sigma is None else sigma
        return soft_normalise(smooth(rows @ self.plane, width), self.norm)

    def predict(self, rows: Floats) -> Labels:
        """The step of each row of one centred video (T, d), -1 for background."""
        view = self.view(rows)
        cut = forward_backward(self._log_likelihood(view, normalised_times(len(view)))).argmax(axis=1)
        return np.where(cut == len(self), BACKGROUND, cut).astype(np.int64)

    def memberships(self, rows: Floats) -> Floats:
        """How much each row of one centred video belongs to each step: (T, K), rows sum to 1."""
        view = self.view(rows)
        evidence = self._log_likelihood(view, normalised_times(len(view)))
        return steps_alone(forward_backward(evidence / SOFTEN), len(self))

    def distance(self, rows: Floats) -> Floats:
        """The distance of each row of one centred video to the nearest centre, (T,)."""
        return np.asarray(np.sqrt(squared_distances(self.view(rows), self.centres).min(axis=1)))

    def online(self, mean: Floats, length: float) -> Causal:
        """Memberships row by row; `mean` (d,) and `length` in rows are those of the videos learned from."""

        def evidence(rows: Floats, when: Floats) -> Floats:
            return np.asarray(self._log_likelihood(self.view(rows, sigma=0.0), when)[0])

        def memberships(posterior: Floats) -> Floats:
            return steps_alone(soften(posterior, SOFTEN), len(self))

        return Causal(Model(mean, length, len(self), np.array([self.sigma]), 0, STAY, evidence, memberships))

    def renumbered(self, order: NDArray[np.intp]) -> Found:
        """The same steps, of which the one now at `order[k]` becomes number k."""
        return replace(self, centres=self.centres[order], times=self.times[order])

    def state(self, prefix: str = "") -> dict[str, Array]:
        """As arrays, for a method's `state`."""
        return {f"{prefix}{name}_": np.asarray(value) for name, value in vars(self).items() if name != "background"}

    @classmethod
    def restore(cls, state: Mapping[str, Array], background: float, prefix: str = "") -> Found:
        """The model that a method's `state` holds."""

        def part(name: str) -> Floats:
            return np.asarray(state[f"{prefix}{name}_"], dtype=np.float64)

        arrays = part("plane"), part("centres"), part("times")
        spread, norm, sigma, prior = (float(part(name)) for name in ("spread", "norm", "sigma", "prior"))
        return cls(*arrays, spread, norm, sigma, prior, background)

    def _log_likelihood(self, view: Floats, when: Floats) -> Floats:
        steps = Steps(self.centres, self.times, self.spread)
        return log_likelihood(view, when, steps, self.prior, self.background)


def steps_alone(posterior: Floats, count: int) -> Floats:
    """A posterior (T, K or K + 1) without the column of background, rows sum to 1; `count` is K."""
    steps = posterior[:, :count] + 1e-12
    return np.asarray(steps / steps.sum(axis=1, keepdims=True))
