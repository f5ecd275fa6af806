"""The three rows of every table that look at no video: random, uniform, one cluster."""

import numpy as np

from stepcut.methods.contract import Array
from stepcut.methods.segmenter import Labels, Rows, Segmenter, equal_parts, fingerprint, one_hot


class Baseline(Segmenter):
    """A segmenter that learns nothing; its probabilities are all or nothing."""

    def _learn(self, videos: list[Array]) -> None:
        """There is nothing to learn."""

    def _probabilities(self, rows: Array) -> Rows:
        return one_hot(self._cut(rows), self.steps)


class Random(Baseline):
    """Every frame gets a step by chance, all steps equally likely.

    The seed and the video's own content decide, so a video gets the same labels wherever it stands in the list.
    """

    def _cut(self, rows: Array) -> Labels:
        content = int.from_bytes(fingerprint(rows.astype(np.float32))[1])
        return np.random.default_rng([self.seed, content]).integers(self.steps, size=len(rows))


class Uniform(Baseline):
    """Every video is cut into `steps` parts of equal length: a clock. A claim is a claim above this row."""

    def _cut(self, rows: Array) -> Labels:
        return equal_parts(len(rows), self.steps)


class OneCluster(Baseline):
    """Every frame gets step 0."""

    def _cut(self, rows: Array) -> Labels:
        return np.zeros(len(rows), dtype=np.int64)
