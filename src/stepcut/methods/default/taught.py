"""The taught model: a linear discriminant of features at two time scales, a usual time and a duration for each step.

    log p(x_t, t | k)  =  ( sum over scales s of  w_sk . smooth(x, s)_t  +  b_k ) / temperature  +  log p(t | k)

There are K + 1 states: the steps, and background, which a person labels like a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.contract import BACKGROUND, Array, Labels
from stepcut.methods.default.forward_backward import forward_backward
from stepcut.methods.default.slow_features import smooth
from stepcut.methods.segmenter import normalised_times

Floats = NDArray[np.float64]

PREFIX = "taught."
NEVER = -1e6
"""Log-likelihood of a state that cannot be."""


@dataclass(frozen=True)
class Taught:
    """What was learned from labels. S = K + 1 states, the last is background."""

    weights: Floats
    """(scales, d, S)"""
    bias: Floats
    """(S,)"""
    clock: Floats
    """(bins, S): log-density of the normalised time of each state"""
    sigmas: Floats
    """(scales,): widths of the Gaussians over time, in rows"""
    stay: Floats
    """(): probability that a state goes on in the next row"""
    temperature: Floats
    """(): rows that count as one independent observation"""
    doubt: Floats
    """(): see `soften`"""

    def log_likelihood(self, rows: Floats) -> Floats:
        """(T, S) from one centred video (T, d)."""
        scales = [
            smooth(rows @ weights, float(sigma)) for weights, sigma in zip(self.weights, self.sigmas, strict=True)
        ]
        return self.at_times(np.sum(scales, axis=0), normalised_times(len(rows)))

    def at_times(self, scores: Floats, times: Floats) -> Floats:
        """The log-likelihood (T, S) from the sum over scales (T, S) and the normalised times (T,)."""
        bins = np.minimum((times * len(self.clock)).astype(np.int64), len(self.clock) - 1)
        return np.asarray((scores + self.bias) / self.temperature + self.clock[bins])

    def predict(self, rows: Floats) -> Labels:
        """The step of every row of one centred video, -1 for background."""
        return strongest(forward_backward(self.log_likelihood(rows), float(self.stay)))

    def memberships(self, rows: Floats) -> Floats:
        """(T, K), rows sum to 1; see `honest`."""
        return self.honest(forward_backward(self.log_likelihood(rows), float(self.stay)))

    def honest(self, posterior: Floats) -> Floats:
        """Memberships (T, K) from a posterior (T, S): as sure as they are right, and what belongs to background is
        shared by all steps, so that the membership of a step is how sure it is that the frame shows it."""
        softer = soften(posterior, float(self.doubt))
        return np.asarray(softer[:, :-1] + softer[:, -1:] / (softer.shape[1] - 1))

    def on_features(self, directions: Floats, doubt: float) -> Taught:
        """The model that was learned on principal directions (d, p), as one of features (d,)."""
        return replace(self, weights=np.stack([directions @ part for part in self.weights]), doubt=np.array(doubt))

    def without_background(self) -> Taught:
        """The same model, in which every row has a step."""
        return replace(self, bias=np.append(self.bias[:-1], NEVER))

    def state(self) -> dict[str, Array]:
        """As arrays, for a method's `state`."""
        return {PREFIX + name: np.asarray(value) for name, value in vars(self).items()}

    @classmethod
    def restore(cls, state: Mapping[str, Array]) -> Taught | None:
        """The model that a method's `state` holds, None where it was not taught."""
        names = [name for name in cls.__dataclass_fields__ if PREFIX + name in state]
        return cls(**{name: np.asarray(state[PREFIX + name], dtype=np.float64) for name in names}) if names else None


def soften(posterior: Floats, doubt: float) -> Floats:
    """p^(1 / doubt), rows sum to 1: neighbouring rows are not independent, so forward-backward is too sure."""
    power = np.maximum(posterior, 1e-300) ** (1 / doubt)
    return np.asarray(power / power.sum(axis=1, keepdims=True))


def strongest(posterior: Floats) -> Labels:
    """The most likely state of each row, -1 for background."""
    best = posterior.argmax(axis=1)
    return np.where(best == posterior.shape[1] - 1, BACKGROUND, best).astype(np.int64)
