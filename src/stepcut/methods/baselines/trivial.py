"""The three baselines that ignore the video: random, uniform, one cluster."""

import numpy as np

from stepcut.methods.arithmetic import equal_parts
from stepcut.methods.inputs import Array, Labels, fingerprint
from stepcut.methods.method import Method


class Random(Method):
    """Every frame gets a random step; all steps are equally likely.

    The seed and the content of the video decide, so its position in the list does not matter.
    """

    def segment(self, rows: Array) -> Labels:
        content = int.from_bytes(fingerprint(rows.astype(np.float32))[1])
        return np.random.default_rng([self.seed, content]).integers(self.count, size=len(rows))


class Uniform(Method):
    """Split every video into `steps` segments of equal length: the baseline to beat."""

    def segment(self, rows: Array) -> Labels:
        return equal_parts(len(rows), self.count)


class OneCluster(Method):
    """Every frame gets step 0."""

    def segment(self, rows: Array) -> Labels:
        return np.zeros(len(rows), dtype=np.int64)
