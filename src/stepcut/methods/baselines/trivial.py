"""The three rows of every table that look at no video: random, uniform, one cluster."""

import numpy as np

from stepcut.methods.arithmetic import equal_parts
from stepcut.methods.inputs import Array, Labels, fingerprint
from stepcut.methods.method import Method


class Random(Method):
    """Every frame gets a random step, all steps equally likely.

    The seed and the video's own content decide, so a video gets the same labels wherever it stands in the list.
    """

    def segment(self, rows: Array) -> Labels:
        content = int.from_bytes(fingerprint(rows.astype(np.float32))[1])
        return np.random.default_rng([self.seed, content]).integers(self.count, size=len(rows))


class Uniform(Method):
    """Every video is cut into `steps` parts of equal length: what needs no video must be beaten."""

    def segment(self, rows: Array) -> Labels:
        return equal_parts(len(rows), self.count)


class OneCluster(Method):
    """Every frame gets step 0."""

    def segment(self, rows: Array) -> Labels:
        return np.zeros(len(rows), dtype=np.int64)
