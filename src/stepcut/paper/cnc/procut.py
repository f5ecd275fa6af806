"""The segmenters of the paper: ProCut, and the subset selection that it is compared with.

ProCut turns fuzzy memberships u into costs, and cuts one graph per video:

    E(x) = sum_t (1 - u[t, x_t] + prior |t/T - x_t/K|) + sum_(t,s) w(|t - s|) [x_t != x_s]
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.arithmetic import FUZZIFIER, squared_distances
from stepcut.methods.baselines import CentreMethod, KMeans, find_means, time_cost
from stepcut.methods.constraints import Constraints
from stepcut.methods.inputs import Array, Labels, Rows
from stepcut.paper.cnc.fuzzy import fuzzy_c_means, memberships
from stepcut.paper.cnc.graph import chain, expand, window_links
from stepcut.settings import check_number, setting

SMOOTHNESS = 2.0
"""Seconds, tuned on toy features and CaptainCook4D recipes."""


@dataclass(eq=False, repr=False)
class ProCut(CentreMethod):
    """Fuzzy c-means over the frames of all videos, then one graph cut per video.

    >>> import numpy as np
    >>> rows = np.repeat(np.eye(3), 20, axis=0)
    >>> ProCut(steps=3).fit([rows]).labels_[0].tolist() == [0] * 20 + [1] * 20 + [2] * 20
    True
    """

    smoothness: float = setting(
        SMOOTHNESS,
        "Cost of a change of step, in seconds spent in a step that is certainly wrong.",
        0,
    )
    window: float = setting(
        0.0, "Largest distance of linked frames, in seconds. 0 links neighbours only.", 0, 3600
    )
    m: float = setting(FUZZIFIER, "Fuzzifier of the memberships.", 1, above=True)
    restarts: int = setting(5, "Number of starts of fuzzy c-means.", 1, 10_000)
    solver: Literal["exact", "expansion"] = setting(
        "exact",
        '"exact" solves the chain exactly; "expansion" is the alpha-expansion of the paper.',
    )
    change: Literal["equal", "numbers"] = setting(
        "equal",
        '"equal": any change of step costs the same; "numbers": k to l costs |k - l| / K of that.',
    )
    join_videos: bool = setting(
        False,
        "Cut all videos as one, with a link from each to the next, as the authors' code does.",
    )

    def learn(self, videos: list[Array]) -> None:
        if self.change == "numbers":  # as their code numbers them: in any order
            self.centres_ = self._find_centres(videos)
        else:
            super().learn(videos)

    def _find_centres(self, videos: list[Array]) -> Rows:
        rows = self._stack(videos)
        return fuzzy_c_means(
            rows, self.count, self.m, self.seed, restarts=self.restarts, overwrite=True
        )[1]

    def shares(self, rows: Array) -> Rows:
        return memberships(self._prepare(rows), self.centres_, self.m, overwrite=True)

    def label(self, videos: list[Array]) -> list[Labels]:
        if not self.join_videos:
            return super().label(videos)
        ends = np.cumsum([len(video) for video in videos])[:-1]
        return np.split(self.segment(np.concatenate(videos)), ends)

    def segment(self, rows: Array) -> Labels:
        """Labels of minimum energy: exact on the chain, alpha-expansion for a wider window."""
        cost: Array = 1 - self.shares(rows)
        if self.prior > 0:
            cost = cost + self.prior * time_cost(*cost.shape)
        # One second has `rate` frames, so `smoothness` seconds cost smoothness * rate.
        change = float(self.smoothness * self.rate)
        links, weights = window_links(len(rows), self.window, float(self.rate), change)
        if self.change == "numbers":
            numbers = np.arange(self.count)
            apart = np.abs(numbers[:, None] - numbers) / self.count
            return expand(cost, links, weights, apart=apart)
        if self.solver == "expansion":
            return expand(cost, links, weights)
        labels = chain(cost, change)
        # A window below two frames links neighbours only: the chain is exact.
        return labels if self.window * self.rate < 2 else expand(cost, links, weights, start=labels)


@dataclass(eq=False, repr=False)
class Subset(KMeans):
    """k-means to `states` states, then greedy choice of `steps` of them."""

    restarts: int = setting(1, "Number of starts of k-means.", 1, 10_000)
    states: int | None = setting(None, "Number of states. None: 10 per step.", 1)

    def check_settings(self, constraints: Constraints | None = None) -> None:
        super().check_settings(constraints)
        if self.states is not None:
            check_number("states", self.states, self.count, whole=True)

    def _choose_centres(self, rows: Rows) -> Rows:
        wanted = 10 * self.count if self.states is None else self.states
        states = find_means(rows, min(wanted, len(rows)), self.seed, self.restarts)
        return states[choose_subset(np.sqrt(squared_distances(states, rows)), self.count)]


def choose_subset(apart: NDArray[np.float32], k: int) -> list[int]:
    """Greedily choose k of M states that best represent all frames; `apart (M, T)` are distances.

    The nearest chosen state represents a frame. Each choice has the highest facility-location gain,
    sum_t max(0, served_t - apart[s, t]); the lowest number wins a tie.
    """
    served = apart.max(axis=0)
    chosen: list[int] = []
    for _ in range(k):
        gains = np.array([np.maximum(served - row, 0).sum() for row in apart])
        gains[chosen] = -1
        chosen.append(int(gains.argmax()))
        served = np.minimum(served, apart[chosen[-1]])
    return chosen
