"""What labels teach: a linear discriminant of features at two time scales and of motion, a usual time and a duration.

    log p(x_t, t | k)  =  ( sum over scales s of  w_sk . smooth(x, s)_t  +  w_mk . motion(x)_t  +  b_k ) / temperature
                          +  log p(t | k)

Motion is how features change from a second before to a second after, at the finest scale: a hand that reaches and one
that returns look alike in a still picture. There are K + 1 states: the steps, and background, which a person labels
like a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.contract import Array, as_learned
from stepcut.methods.default.forward_backward import forward_backward, soften
from stepcut.methods.default.online import Causal
from stepcut.methods.default.slow_features import smooth
from stepcut.methods.segmenter import normalised_times

Floats = NDArray[np.float64]

NEVER = -1e6
"""Log-likelihood of a state that cannot be."""


@dataclass(frozen=True)
class Discriminant:
    """What was learned from labels. S = K + 1 states, the last is background."""

    weights: Floats
    """(scales + 1, d, S): of every scale, then of the motion"""
    bias: Floats
    """(S,)"""
    clock: Floats
    """(bins, S): log-density of the normalised time of each state"""
    sigmas: Floats
    """(scales,): widths of the Gaussians over time, in rows, the finest first"""
    lag: float
    """Rows before and after between which motion is measured."""
    stay: float
    """Probability that a state goes on in the next row."""
    temperature: float
    """Rows that count as one independent observation."""
    doubt: float
    """See `soften`."""

    def log_likelihood(self, rows: Floats) -> Floats:
        """(T, S) from one centred video (T, d)."""
        *scales, moving = rows @ self.weights  # smoothing and differences are linear, so they may come last
        scores = [smooth(part, float(sigma)) for part, sigma in zip(scales, self.sigmas, strict=True)]
        scores.append(motion(smooth(moving, float(self.sigmas[0])), int(self.lag)))
        return self.at_times(np.sum(scores, axis=0), normalised_times(len(rows)))

    def at_times(self, scores: Floats, times: Floats) -> Floats:
        """The log-likelihood (T, S) from the sum of all scores (T, S) and the normalised times (T,)."""
        bins = np.minimum((times * len(self.clock)).astype(np.int64), len(self.clock) - 1)
        return np.asarray((scores + self.bias) / self.temperature + self.clock[bins])

    def posterior(self, rows: Floats) -> Floats:
        """How likely each state is at each row of one centred video, (T, S)."""
        return forward_backward(self.log_likelihood(rows), self.stay)

    def online(self, mean: Floats, length: float) -> Causal:
        """The posterior (S,) row by row; `mean` (d,) and `length` in rows are those of the videos learned from."""
        steps, lag = len(self.bias) - 1, int(self.lag)
        return Causal(mean, length, steps, self.sigmas, lag, self.stay, self._evidence, lambda posterior: posterior)

    def _evidence(self, rows: Floats, when: Floats) -> Floats:
        return np.asarray(self.at_times(np.einsum("sd,sdk->k", rows, self.weights)[None], when)[0])

    def on_features(self, directions: Floats, doubt: float) -> Discriminant:
        """The model that was learned on principal directions (d, p), as one of features (d,)."""
        return replace(self, weights=np.stack([directions @ part for part in self.weights]), doubt=doubt)

    def without_background(self) -> Discriminant:
        """The same model, in which every row has a step."""
        return replace(self, bias=np.append(self.bias[:-1], NEVER))

    def state(self, prefix: str) -> dict[str, Array]:
        """As arrays, for a method's `state`."""
        return {prefix + name: np.asarray(value) for name, value in vars(self).items()}

    @classmethod
    def restore(cls, state: Mapping[str, Array], prefix: str) -> Discriminant:
        """The model that a method's `state` holds."""
        return cls(**{one.name: as_learned(state[prefix + one.name]) for one in fields(cls)})


def motion(rows: Floats, lag: int) -> Floats:
    """x_(t + lag) - x_(t - lag) for every row of (T, d); before the first row and after the last nothing changes."""
    place = np.arange(len(rows))
    return np.asarray(rows[np.minimum(place + lag, len(rows) - 1)] - rows[np.maximum(place - lag, 0)])


def honest(posterior: Floats, doubt: float) -> Floats:
    """Memberships (T, K) from a posterior (T, S), as sure as they are right; `doubt`: see `soften`.

    What belongs to background is shared by all steps: the membership of a step is how sure it is that the frame shows
    it.
    """
    softer = soften(posterior, doubt)
    return np.asarray(softer[:, :-1] + softer[:, -1:] / (softer.shape[1] - 1))
