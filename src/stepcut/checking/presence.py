"""Presence: how likely each step was done in a video, calibrated on videos that were left out of
learning.

The evidence for step k in a video with step probabilities p_tk, `rate` rows a second, is how long
it shows clearly,

    e_k = ln(1 + sum over t of p_tk^3 / rate)

Each video learned from is seen as a new one (left out), once as it is and once without the rows of
step k. With a_k and b_k the mean evidence of step k where it is done and where its rows are
removed, drawn towards the means of all steps, and s the spread around these means, the log-odds of
two normal distributions are

    l_k = (a_k - b_k) (e_k - (a_k + b_k) / 2) / s^2

and the probability is 1 / (1 + exp(-slope l_k - bias)). Slope and bias are fitted to the same
videos, each judged by the means of the others (Platt 1999). Done and removed count alike: the
probability is for even odds beforehand.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Floats = NDArray[np.floating[Any]]

SEEN, UNSEEN = 0.75, 0.25
"""From SEEN up a step counts as seen, below UNSEEN as not seen."""
PRIOR = 2.0
"""How many videos the means of all steps count for in those of one step."""
SPREAD = 0.5
"""The spread of the evidence that is assumed before any video is seen, worth PRIOR videos."""
STIFF = 3.0
"""How firmly slope and bias are held at 1 and 0, as the inverse of a variance."""
LARGEST = 1e3
"""No number of this model is larger; a file that says so is damaged."""


def word_for(probability: float) -> str:
    """A probability that a step was done in a word: `seen`, `not sure` or `not seen`.

    >>> [word_for(p) for p in (0.9, 0.5, 0.1)]
    ['seen', 'not sure', 'not seen']
    """
    return "seen" if probability >= SEEN else "not seen" if probability < UNSEEN else "not sure"


def step_evidence(probabilities: NDArray[Any], rate: float) -> Floats:
    """How long each step shows clearly, as ln(1 + seconds): (K,) from probabilities (T, K)."""
    return np.asarray(np.log1p((np.asarray(probabilities, dtype=np.float64) ** 3).sum(0) / rate))


@dataclass(frozen=True)
class Presence:
    """The evidence that is usual for each step where it is done and where it is not."""

    done: tuple[float, ...] = ()
    """a_k; of a step that no video does, the mean of all steps."""
    absent: tuple[float, ...] = ()
    """b_k."""
    spread: float = SPREAD
    slope: float = 1.0
    bias: float = 0.0

    def probabilities(self, evidence: Floats) -> Floats:
        """How likely each step was done, (K,), from the evidence of one video, (K,)."""
        count = len(self.done)
        seen = np.zeros(count)
        seen[: len(evidence)] = evidence[:count]
        odds = _log_odds(seen, np.array(self.done), np.array(self.absent), self.spread)
        return _logistic(self.slope * odds + self.bias)

    def to_json(self) -> dict[str, Any]:
        """A JSON-able object."""
        return asdict(self)

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> Self:
        """What `to_json` gave, read again."""
        done, absent = (tuple(map(float, record[key])) for key in ("done", "absent"))
        model = cls(done, absent, *(float(record[key]) for key in ("spread", "slope", "bias")))
        numbers = [*done, *absent, model.spread, model.slope, model.bias]
        if len(done) != len(absent) or not (np.abs(numbers) < LARGEST).all() or model.spread <= 0:
            raise ValueError("presence has not one finite number for each step")
        return model


def learn_presence(done: Floats, absent: Floats) -> Presence:
    """From the evidence (N, K) in each video for each step: as it is, and with the step's rows
    removed.

    NaN where a video does not do a step.
    """
    known = ~np.isnan(done)
    if not known.any():
        return Presence()
    middles = [(_means(values, known), values) for values in (done, absent)]
    left = np.concatenate([(values - mean)[known] for mean, values in middles])
    spread = float(np.sqrt(((left**2).sum() + PRIOR * SPREAD**2) / (len(left) + PRIOR)))
    there, gone = (_means(values, known, without=True) for values in (done, absent))
    odds = np.concatenate([_log_odds(seen, there, gone, spread)[known] for seen in (done, absent)])
    slope, bias = _fit_logistic(odds, np.repeat([1.0, 0.0], known.sum()))
    (usual, _), (without, _) = middles
    return Presence(tuple(usual.tolist()), tuple(without.tolist()), spread, slope, bias)


def _means(values: Floats, known: NDArray[np.bool_], without: bool = False) -> Floats:
    """The mean of each step over the videos that do it, (K,), drawn towards that of all; or, for
    each video, `without` it, (N, K)."""
    given = np.where(known, values, 0.0)
    total, count = given.sum(axis=0), known.sum(axis=0)
    if without:
        total, count = total - given, count - known
    return np.asarray((total + PRIOR * values[known].mean()) / (count + PRIOR))


def _log_odds(evidence: Floats, done: Floats, absent: Floats, spread: float) -> Floats:
    # Where the step is done there is never less evidence than without it.
    gap = np.maximum(done - absent, 0.0)
    return np.asarray(gap * (evidence - (done + absent) / 2) / spread**2)


def _fit_logistic(odds: Floats, true: Floats) -> tuple[float, float]:
    """Slope and bias of a logistic regression, held near 1 and 0."""
    sign, start = np.where(true > 0, 1.0, -1.0), np.array([1.0, 0.0])

    def loss(weights: Floats) -> tuple[float, Floats]:
        margin = sign * (weights[0] * odds + weights[1])
        slope = -sign * _logistic(-margin)
        away = weights - start
        value = np.logaddexp(0.0, -margin).sum() + STIFF / 2 * (away**2).sum()
        return float(value), np.array([(slope * odds).sum(), slope.sum()]) + STIFF * away

    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0.0, None), (None, None)])
    return float(found.x[0]), float(found.x[1])


def _logistic(odds: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-np.clip(odds, -30, 30))))
