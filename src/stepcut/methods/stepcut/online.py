"""The online form: probabilities row by row, from the past alone, in constant memory."""

from collections import deque

import numpy as np

from stepcut.methods.arithmetic import Floats, as_vectors
from stepcut.methods.inputs import Array, check_videos
from stepcut.methods.stepcut.chain import forward
from stepcut.methods.stepcut.model import Model

AGE = 0.5
"""Mean age of the rows in an exponential mean, in standard deviations of the Gaussian that it replaces.

A larger value smooths more, but lags further behind."""


class Causal:
    """A running mean in place of the video's, exponentials in place of Gaussians, the forward pass alone in place of
    forward-backward.

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
        """Take the next feature row; give its probabilities (K,)."""
        [rows] = check_videos([np.asarray(row)[None]], len(self.mean), kinds=(2, 4))
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
        return np.asarray(self.model.probabilities(self.belief[None])[0])
