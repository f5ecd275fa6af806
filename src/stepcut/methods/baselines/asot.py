"""ASOT decoding (Xu and Gould, CVPR 2024): optimal transport of frames to steps, smooth in time.

The plan P (T, K), whose rows sum to 1, starts uniform and is updated 25 times:

    G = a Cv (P/T) (1 - I) + (1 - a) C + eps log P + lam (log(K mean_t P) + 1)
    P <- P exp(-step G), rows normalized to 1

with C = 1 - cosine between frame and step. Cv[i, j] = 1/r for frames 1 to r T apart links them as
in a graph cut. `lam` weakly favours steps of equal length, so rare steps survive.
"""

from dataclasses import dataclass, field

import numpy as np

from stepcut.methods.arithmetic import Floats, unit
from stepcut.methods.baselines.kmeans import CentreMethod, find_means, time_cost
from stepcut.methods.inputs import Array, Rows
from stepcut.settings import setting

ITERATIONS = 25
FIRST_STEP = 4.0
"""Size of the first update in the exponent; it determines the step size."""


@dataclass(eq=False, repr=False)
class Asot(CentreMethod):
    """Optimal-transport decoding around k-means centres, on frames of length 1."""

    normalise: bool = field(default=True, init=False)
    radius: float = setting(0.04, "Reach of the links, as a share of the video.", 0, 1)
    alpha: float = setting(0.3, "Weight of the links against the cost.", 0, 1)
    entropy: float = setting(0.07, "Weight of the entropy (eps).", 0, above=True)
    balance: float = setting(0.1, "How strongly steps are drawn to equal length (lam).", 0)
    restarts: int = setting(10, "Number of starts of k-means.", 1, 10_000)

    def _find_centres(self, videos: list[Array]) -> Rows:
        return find_means(self._stack(videos), self.count, self.seed, self.restarts)

    def shares(self, rows: Array) -> Rows:
        cost = 1 - self._prepare(rows) @ unit(self.centres_).T
        if self.prior > 0:
            cost = cost + self.prior * time_cost(*cost.shape)
        return transport(cost, self.radius, self.alpha, self.entropy, self.balance)


def transport(cost: Array, radius: float, alpha: float, entropy: float, balance: float) -> Rows:
    """Run the ASOT iteration on costs (T, K); return the plan (T, K), whose rows sum to 1."""
    frames, steps = cost.shape
    reach = int(radius * frames)
    plan = np.full((frames, steps), 1 / steps)
    logs = np.log(plan)
    size = 0.0
    for _ in range(ITERATIONS):
        gradient = (1 - alpha) * cost + entropy * logs
        gradient += balance * (np.log(np.maximum(steps * plan.mean(axis=0), 1e-300)) + 1)
        if reach > 0:
            near = around(plan, reach) / (radius * frames)
            gradient += alpha * (near.sum(axis=1, keepdims=True) - near)  # times (1 - I)
        if size == 0:
            size = FIRST_STEP / max(float(np.abs(gradient).max()), 1e-9)
        logs -= size * gradient
        logs -= logs.max(axis=1, keepdims=True)
        plan = np.exp(logs)
        total = plan.sum(axis=1, keepdims=True)
        plan /= total
        logs -= np.log(total)
    return plan.astype(np.float32)


def around(plan: Floats, reach: int) -> Floats:
    """Sum over frames 1 to `reach` away on either side, in O(T K): (T, K)."""
    frames = len(plan)
    sums = np.concatenate([np.zeros((1, plan.shape[1])), np.cumsum(plan, axis=0)])
    at = np.arange(frames)
    return np.asarray(
        sums[np.minimum(at + reach + 1, frames)] - sums[np.maximum(at - reach, 0)] - plan
    )
