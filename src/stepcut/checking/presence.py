"""Presence: the calibrated probability that a video shows each step.

The evidence for step k in a video with step probabilities p_tk at `rate` rows per second is

    e_k = ln(1 + sum over t of (p_tk - q_t)^2 / rate)

where q_t is the probability of the least likely step, which background shares with all steps.

Each training video is held out in turn, once as it is and once without the rows of step k. a_k and
b_k are the mean evidence of step k with and without its rows, shrunk towards the means of all
steps. s is the spread around these means. The log-odds of two normal distributions are

    l_k = (a_k - b_k) (e_k - (a_k + b_k) / 2) / s^2

and the probability is 1 / (1 + exp(-slope l_k - bias)). Slope and bias are fitted to the same
videos, each scored with the means of the others (Platt 1999), at prior odds of 1.
"""

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

Floats = NDArray[np.floating[Any]]

SEEN, UNSEEN = 0.75, 0.25
"""Steps at or above SEEN count as seen, steps below UNSEEN as not seen."""
PRIOR, SPREAD = 2.0, 0.5
"""Weight of the means of all steps in videos, and prior spread of the evidence with this weight."""
STIFF = 3.0
"""Inverse prior variance of slope and bias around 1 and 0."""
LARGEST = 1e3
"""Larger numbers mean that the file is damaged."""
Number = Annotated[float, msgspec.Meta(gt=-LARGEST, lt=LARGEST)]


def word_for(probability: float) -> str:
    """Describe a probability: `seen`, `not sure` or `not seen`.

    >>> [word_for(p) for p in (0.9, 0.5, 0.1)]
    ['seen', 'not sure', 'not seen']
    """
    return "seen" if probability >= SEEN else "not seen" if probability < UNSEEN else "not sure"


def step_evidence(probabilities: NDArray[Any], rate: float) -> Floats:
    """Evidence for each step as ln(1 + seconds), (K,), from step probabilities (T, K)."""
    rows = np.asarray(probabilities, dtype=np.float64)
    excess = rows - rows.min(axis=1, keepdims=True) if rows.shape[1] > 1 else rows
    return np.asarray(np.log1p((excess**2).sum(axis=0) / rate))


@dataclass(frozen=True)
class Presence:
    """Usual evidence of each step when it is done and when it is not."""

    done: tuple[Number, ...] = ()
    """a_k; the mean of all steps if no video shows step k."""
    absent: tuple[Number, ...] = ()
    """b_k."""
    spread: Annotated[float, msgspec.Meta(gt=0, lt=LARGEST)] = SPREAD
    slope: Number = 1.0
    bias: Number = 0.0

    def __post_init__(self) -> None:
        if len(self.done) != len(self.absent):
            raise ValueError("presence needs one number for each step")

    def probabilities(self, evidence: Floats) -> Floats:
        """Probability that each step was done, (K,), from the evidence of one video, (K,)."""
        seen = np.zeros(len(self.done))
        seen[: len(evidence)] = evidence[: len(seen)]
        odds = _log_odds(seen, np.array(self.done), np.array(self.absent), self.spread)
        return _logistic(self.slope * odds + self.bias)


def learn_presence(done: Floats, absent: Floats) -> Presence:
    """Learn from the evidence (N, K) of each video, as it is and with the rows of the step removed.

    NaN marks a step that a video does not show.
    """
    shown = ~np.isnan(done)
    if not shown.any():
        return Presence()
    usual, lacking = (_means(values, shown) for values in (done, absent))
    left = np.concatenate([(done - usual)[shown], (absent - lacking)[shown]])
    spread = float(np.sqrt(((left**2).sum() + PRIOR * SPREAD**2) / (len(left) + PRIOR)))
    there, gone = (_means(values, shown, without=True) for values in (done, absent))
    odds = np.concatenate([_log_odds(seen, there, gone, spread)[shown] for seen in (done, absent)])
    slope, bias = _fit_logistic(odds, np.repeat([1.0, -1.0], shown.sum()))
    return Presence(tuple(usual.tolist()), tuple(lacking.tolist()), spread, slope, bias)


def _means(values: Floats, shown: NDArray[np.bool_], without: bool = False) -> Floats:
    """Shrunken mean of each step over the videos that show it, (K,).

    `without` leaves out each video in turn, (N, K).
    """
    filled = np.where(shown, values, 0.0)
    total, count = filled.sum(axis=0), shown.sum(axis=0)
    if without:
        total, count = total - filled, count - shown
    return np.asarray((total + PRIOR * values[shown].mean()) / (count + PRIOR))


def _log_odds(evidence: Floats, done: Floats, absent: Floats, spread: float) -> Floats:
    # A step that is done never has less evidence than one that is not.
    gap = np.maximum(done - absent, 0.0)
    return np.asarray(gap * (evidence - (done + absent) / 2) / spread**2)


def _fit_logistic(odds: Floats, sign: Floats) -> tuple[float, float]:
    """Fit slope and bias of a logistic regression, shrunk towards 1 and 0; `sign` is 1 or -1."""
    start = np.array([1.0, 0.0])

    def loss(weights: Floats) -> tuple[float, Floats]:
        margin, away = sign * (weights[0] * odds + weights[1]), weights - start
        slope = -sign * _logistic(-margin)
        value = np.logaddexp(0.0, -margin).sum() + STIFF / 2 * (away**2).sum()
        return float(value), np.array([(slope * odds).sum(), slope.sum()]) + STIFF * away

    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0.0, None), (None, None)])
    return float(found.x[0]), float(found.x[1])


def _logistic(odds: Floats) -> Floats:
    return np.asarray(expit(np.clip(odds, -30, 30)))
