"""Forward-backward: how likely each step is at each frame of a video, when steps last and any may come next."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.jit import compiled_later

STAY = 0.99
"""Probability that the step of a frame goes on in the next; the rest is shared by all steps, in any order."""


def forward_backward(evidence: NDArray[np.float64], stay: float = STAY) -> NDArray[np.float64]:
    """Posterior probability of each step at each frame, given the whole video: (T, K), in O(T K), from the `evidence`,
    log-likelihoods (T, K), where a step goes on in the next frame with probability `stay`."""
    return _forward_backward(np.ascontiguousarray(evidence), stay)


def forward(
    belief: NDArray[np.float64] | None, evidence: NDArray[Any], stay: float = STAY
) -> NDArray[np.float64]:
    """The same from the frames so far alone: (K,), from the `evidence` (K,) of the new frame and the `belief` that the
    last call gave, None before the first."""
    steps = len(evidence)
    before = np.full(steps, 1 / steps) if belief is None else stay * belief + (1 - stay) / steps
    after = before * np.exp(evidence - evidence.max())
    return np.asarray(after / after.sum())


def soften(posterior: NDArray[np.float64], doubt: float) -> NDArray[np.float64]:
    """p^(1 / doubt), rows sum to 1: neighbouring rows are not independent, so forward-backward is too sure."""
    power = np.maximum(posterior, 1e-300) ** (1 / doubt)
    return np.asarray(power / power.sum(axis=1, keepdims=True))


@compiled_later
def _forward_backward(evidence: NDArray[np.float64], stay: float) -> NDArray[np.float64]:
    """a_t = (stay a_{t-1} + (1 - stay)/K) L_t,   b_t = stay L_{t+1} b_{t+1} + (1 - stay)/K sum(L_{t+1} b_{t+1})."""
    frames, steps = evidence.shape
    change = (1 - stay) / steps
    likelihood, ahead = np.empty((frames, steps)), np.empty((frames, steps))
    for t in range(frames):
        top = evidence[t].max()
        total = 0.0
        for k in range(steps):
            likelihood[t, k] = np.exp(evidence[t, k] - top)
            before = 1.0 / steps if t == 0 else stay * ahead[t - 1, k] + change
            ahead[t, k] = before * likelihood[t, k]
            total += ahead[t, k]
        for k in range(steps):
            ahead[t, k] /= total
    back, seen = np.ones(steps), np.empty(steps)
    for t in range(frames - 2, -1, -1):
        total = 0.0
        for k in range(steps):
            seen[k] = back[k] * likelihood[t + 1, k]
            total += seen[k]
        norm = 0.0
        for k in range(steps):
            back[k] = stay * seen[k] / total + change
            norm += ahead[t, k] * back[k]
        for k in range(steps):
            ahead[t, k] *= back[k] / norm
    return ahead
