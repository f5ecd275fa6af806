"""ProCut, the paper's ProCut Module: fuzzy memberships become costs, and a cut through each video
finds its steps.

E(x) = sum_t (1 - u[t, x_t] + prior |t/T - x_t/K|) + sum_(t,s) w(|t - s|) [x_t != x_s]
"""

from dataclasses import dataclass

from stepcut.checks import limited
from stepcut.errors import choose
from stepcut.methods.arithmetic import FUZZIFIER
from stepcut.methods.baselines.kmeans import CentreMethod, clock_cost
from stepcut.methods.constraints import Constraints
from stepcut.methods.inputs import Array, Labels, Rows
from stepcut.paper.cnc.fuzzy import fuzzy_c_means, memberships
from stepcut.paper.cnc.graph import chain, expand, window_links

SMOOTHNESS = 2.0
"""Seconds; chosen on toy features and CaptainCook4D recipes: benchmarks/reports/embedder.md."""


@dataclass(eq=False, repr=False)
class ProCut(CentreMethod):
    """Fuzzy c-means over the frames of all videos, then one cut per video; no link ever joins two
    videos.

    `smoothness`, in seconds: a change of step costs as much as this many seconds in a step that is
    surely wrong, at any rate and window. `window`, in seconds: how far apart linked frames may lie;
    0 links neighbours only, for which the cut is exact, unless `solver` is "expansion"
    (alpha-expansion from the cheapest label of every frame, as in the paper). `m` above 1: how
    fuzzy the memberships are. `normalise`: frames of length 1 first. `prior`: weight of the
    temporal prior, 0 is off. `restarts`: of fuzzy c-means.

    >>> import numpy as np
    >>> rows = np.repeat(np.eye(3), 20, axis=0)
    >>> ProCut(steps=3).fit([rows]).labels_[0].tolist() == [0] * 20 + [1] * 20 + [2] * 20
    True
    """

    smoothness: float = limited(SMOOTHNESS, 0)
    window: float = limited(0.0, 0, 3600)
    m: float = limited(FUZZIFIER, 1, above=True)
    restarts: int = limited(5, 1, 10_000, whole=True)
    solver: str = "exact"

    def check_settings(self, constraints: Constraints | None = None) -> None:
        super().check_settings(constraints)
        choose("solver", self.solver, dict.fromkeys(("exact", "expansion")))

    def _find_centres(self, videos: list[Array]) -> Rows:
        rows = self._stack(videos)
        return fuzzy_c_means(
            rows, self.count, self.m, self.seed, restarts=self.restarts, overwrite=True
        )[1]

    def shares(self, rows: Array) -> Rows:
        return memberships(self._prepare(rows), self.centres_, self.m, overwrite=True)

    def segment(self, rows: Array) -> Labels:
        """The labels of lowest energy: exactly on the chain, by alpha-expansion from there with a
        wider window."""
        cost: Array = 1 - self.shares(rows)
        if self.prior > 0:
            cost = cost + self.prior * clock_cost(*cost.shape)
        # One second has `rate` frames, so this many seconds of certainty cost smoothness * rate.
        change = float(self.smoothness * self.rate)
        links, weights = window_links(len(rows), self.window, float(self.rate), change)
        if self.solver == "expansion":
            return expand(cost, links, weights)
        labels = chain(cost, change)
        # With a window of less than two frames links reach neighbours only, and the chain is all
        # there is.
        return labels if self.window * self.rate < 2 else expand(cost, links, weights, start=labels)
