"""The online form: probabilities row by row, from the past alone, in constant memory."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stepcut.methods.arithmetic import Floats, as_vectors
from stepcut.methods.inputs import Array, check_videos
from stepcut.methods.stepcut.chain import forward

AGE = 0.5
"""Mean age of the rows in an exponential mean, in standard deviations of the Gaussian that it replaces.

A larger value smooths more, but lags further behind."""


@dataclass
class Causal:
    """A running mean in place of the video's, exponentials in place of Gaussians, the forward pass alone in place of
    forward-backward. It is made of what it needs to know of a learned method."""

    mean: Floats
    """(d,): mean of the videos learned from"""
    length: float
    """Rows of a usual video."""
    steps: int
    sigmas: Floats
    """(scales,): widths of the Gaussians over time, in rows, the finest first"""
    lag: int
    """Rows before and after between which motion is measured; 0 where the model knows none."""
    stay: float
    """Probability that a step continues in the next row."""
    evidence: Callable[[Floats, Floats], Floats]
    """From smoothed rows (scales, d), with the motion as one more, and the time (1,) to the log-likelihood (S,)."""
    probabilities: Callable[[Floats], Floats]
    """From a posterior (1, S) to probabilities (1, K)."""

    def __post_init__(self) -> None:
        self.seen = 0
        self.total = np.zeros_like(self.mean)
        age = AGE * self.sigmas
        self.fade = (age / (1 + age))[:, None]
        self.smoothed = np.zeros((len(self.fade), len(self.mean)))
        self.weight = np.zeros_like(self.fade)
        self.past: deque[Floats] = deque(maxlen=2 * self.lag + 1)
        self.belief: Floats | None = None

    def push(self, row: Array) -> Floats:
        """Take the next feature row; give its probabilities (K,)."""
        [rows] = check_videos([np.asarray(row)[None]], len(self.mean), kinds=(2, 4))
        vector = as_vectors(rows)[0].astype(np.float64)
        self.seen += 1
        self.total += vector
        # Until a few steps have been seen, the mean of the videos learned from stands in for this one's.
        trust = self.length / self.steps
        mean = (trust * self.mean + self.total) / (trust + self.seen)
        self.smoothed = self.fade * self.smoothed + (1 - self.fade) * vector
        self.weight = self.fade * self.weight + (1 - self.fade)
        scales = self.smoothed / self.weight
        centred = scales - mean
        if self.lag:
            self.past.append(scales[0])
            centred = np.vstack([centred, scales[0] - self.past[0]])
        # The end is not known: time is measured against the usual length of a video.
        when = np.array([min(1.0, (self.seen - 0.5) / self.length)])
        self.belief = forward(self.belief, self.evidence(centred, when), self.stay)
        return np.asarray(self.probabilities(self.belief[None])[0])
