"""Results of learning beside the steps: loss curve and held-out predictions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepcut.files.addresses import AnyPath
from stepcut.files.atomic import write_text
from stepcut.methods.arithmetic import Computed
from stepcut.methods.inputs import Labels


@dataclass
class Curve:
    """The loss after every training iteration."""

    names: tuple[str, ...] = ()
    """The loss and its terms."""
    values: list[list[float]] = field(default_factory=list)
    """One row per iteration, one column per name."""

    def csv(self) -> str:
        """Return CSV: the number of the iteration, then the loss and its terms."""
        head, rows = ["iteration", *self.names], enumerate(self.values, start=1)
        return "".join(
            ",".join(line) + "\n" for line in [head, *([str(n), *map(str, row)] for n, row in rows)]
        )

    def save(self, path: AnyPath) -> None:
        """Write the curve as CSV to `path`, atomically."""
        write_text(path, self.csv())


class LeftOut(NamedTuple):
    """Held-out predictions: each training video as if it were new."""

    labels: list[Labels]
    """Step of each row, (T,) per video."""
    probabilities: list[NDArray[np.float64]]
    """(T, K) per video."""
    novelty: list[NDArray[np.float64]]
    """(T,) per video."""
    looks: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]] | None = None
    """Embedding (T, p) and step centres (K, p) per video, if the method has them."""
    embed: Callable[[int, int, NDArray[np.int64] | None], NDArray[np.float64]] | None = None
    """embed(without, place, kept): the embedding (T, p) of the `kept` rows, or all, of the video at
    `place`, learned without the videos of group `without`; None if the method has none."""
    groups: list[int] | None = None
    """The group that each video was held out with, if the method has groups."""

    def of(self, places: Sequence[int]) -> "LeftOut":
        """Select the videos at `places`, which are renumbered from 0."""
        embed = self.embed
        return LeftOut(
            [self.labels[place] for place in places],
            [self.probabilities[place] for place in places],
            [self.novelty[place] for place in places],
            self.looks and Computed(self.looks.__getitem__, places),
            embed and (lambda without, place, kept: embed(without, places[place], kept)),
            self.groups and [self.groups[place] for place in places],
        )
