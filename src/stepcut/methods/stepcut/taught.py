"""The taught model: what labels teach, beside what was found without them, which counts as one labelled video.

Labels teach a linear discriminant of features at two time scales and of motion, a usual time and a duration:

    log p(x_t, t | k)  =  ( sum over scales s of  w_sk . smooth(x, s)_t  +  w_mk . motion(x)_t  +  b_k ) / temperature
                          +  log p(t | k)

Motion is how features change from a second before to a second after, at the finest scale: a hand that reaches and one
that returns look alike in a still picture. There are K + 1 states: the steps, and background, which a person labels
like a step.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np

from stepcut.methods.arithmetic import Floats, normalised_times
from stepcut.methods.inputs import Array, Labels, as_learned
from stepcut.methods.stepcut.forward_backward import forward_backward, soften
from stepcut.methods.stepcut.found import Found, strongest
from stepcut.methods.stepcut.online import Causal
from stepcut.methods.stepcut.slow_features import smooth

NEVER = -1e6
"""Log-likelihood of a state that cannot be."""
LABELS, FIRST, COUNT, SURE = "taught.", "first.", "labelled_videos", "surest"
"""How the parts are named in a method's `state`."""


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
        *scales, moving = (
            rows @ self.weights
        )  # smoothing and differences are linear, so they may come last
        scores = [
            smooth(part, float(sigma)) for part, sigma in zip(scales, self.sigmas, strict=True)
        ]
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
        return Causal(
            mean,
            length,
            steps,
            self.sigmas,
            lag,
            self.stay,
            self._evidence,
            lambda posterior: posterior,
        )

    def _evidence(self, rows: Floats, when: Floats) -> Floats:
        return np.asarray(self.at_times(np.einsum("sd,sdk->k", rows, self.weights)[None], when)[0])

    def on_features(self, directions: Floats, doubt: float) -> Self:
        """The model that was learned on principal directions (d, p), as one of features (d,)."""
        return replace(
            self, weights=np.stack([directions @ part for part in self.weights]), doubt=doubt
        )

    def without_background(self) -> Self:
        """The same model, in which every row has a step."""
        return replace(self, bias=np.append(self.bias[:-1], NEVER))

    def state(self, prefix: str) -> dict[str, Array]:
        """As arrays, for a method's `state`."""
        return {prefix + name: np.asarray(value) for name, value in vars(self).items()}

    @classmethod
    def restore(cls, state: Mapping[str, Array], prefix: str) -> Self:
        """The model that a method's `state` holds."""
        return cls(**{one.name: as_learned(state[prefix + one.name]) for one in fields(cls)})


@dataclass(frozen=True)
class Taught:
    """p = (n p_labels + p_found) / (n + 1),  n the number of labelled videos.

    With one label the two have an equal say, so that one video in a kitchen of its own does not undo what all others
    show; with ten, what was found hardly counts.
    """

    labels: Discriminant
    first: Found
    """The steps found without labels, in the numbers of the labels."""
    labelled: float
    surest: float
    """What probabilities are multiplied by. They are calibrated by leaving labelled videos out in turn; where there is
    one alone, this is the share of its rows that were found right without it, and 1 otherwise."""

    def predict(self, rows: Floats) -> Labels:
        """The step of every row of one centred video (T, d), -1 for background."""
        return cut_mixture(
            self.labels.posterior(rows), self.first.probabilities(rows), self.labelled
        )

    def probabilities(self, rows: Floats) -> Floats:
        """(T, K), rows sum to 1: how sure it is that each row shows each step."""
        return self.sure(self.labels.posterior(rows), self.first.probabilities(rows))

    def sure(self, labels: Floats, found: Floats) -> Floats:
        """Memberships (T, K) from the posterior of what labels teach (T, S) and the probabilities found without."""
        return self.temper(mix(honest(labels, self.labels.doubt), found, self.labelled))

    def temper(self, shares: Floats) -> Floats:
        """Memberships (T, K), no surer than `surest`."""
        return np.asarray(self.surest * shares + (1 - self.surest) / shares.shape[1])

    def online(self, mean: Floats, length: float) -> "TaughtOnline":
        """Memberships row by row; `mean` (d,) and `length` in rows are those of the videos learned from."""
        return TaughtOnline(self, self.labels.online(mean, length), self.first.online(mean, length))

    def state(self) -> dict[str, Array]:
        """As arrays, for a method's `state`."""
        return {
            **self.labels.state(LABELS),
            **self.first.state(FIRST),
            COUNT: np.array(self.labelled),
            SURE: np.array(self.surest),
        }

    @classmethod
    def restore(cls, state: Mapping[str, Array], background: float) -> Self | None:
        """The model that a method's `state` holds, None where it was not taught."""
        if COUNT not in state:
            return None
        first = Found.restore(state, background, FIRST)
        return cls(
            Discriminant.restore(state, LABELS), first, float(state[COUNT]), float(state[SURE])
        )


@dataclass
class TaughtOnline:
    """The online form: both parts row by row."""

    model: Taught
    labels: Causal
    first: Causal

    def push(self, row: Array) -> Floats:
        """Take the next feature row; give its probabilities (K,)."""
        return self.model.sure(self.labels.push(row)[None], self.first.push(row)[None]).ravel()


def mix(labels: Floats, found: Floats, labelled: float) -> Floats:
    """(n p_labels + p_found) / (n + 1) from what labels say and what was found without them, n labelled videos."""
    return np.asarray((labelled * labels + found) / (labelled + 1))


def cut_mixture(labels: Floats, found: Floats, labelled: float) -> Labels:
    """The step of every row from a posterior of K + 1 states (T, K + 1) and probabilities found without labels (T, K)."""
    return strongest(mix(labels, np.pad(found, ((0, 0), (0, 1))), labelled), found.shape[1])


def motion(rows: Floats, lag: int) -> Floats:
    """x_(t + lag) - x_(t - lag) for every row of (T, d); before the first row and after the last nothing changes."""
    place = np.arange(len(rows))
    return np.asarray(
        rows[np.minimum(place + lag, len(rows) - 1)] - rows[np.maximum(place - lag, 0)]
    )


def honest(posterior: Floats, doubt: float) -> Floats:
    """Memberships (T, K) from a posterior (T, S), as sure as they are right; `doubt`: see `soften`.

    What belongs to background is shared by all steps: the membership of a step is how sure it is that the frame shows
    it.
    """
    softer = soften(posterior, doubt)
    return np.asarray(softer[:, :-1] + softer[:, -1:] / (softer.shape[1] - 1))
