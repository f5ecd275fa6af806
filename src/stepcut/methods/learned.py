"""What learning leaves beside the steps: the loss curve, how the number of steps was chosen, what is left out."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from stepcut.files.addresses import AnyPath
from stepcut.files.atomic import write_text
from stepcut.methods.inputs import Array, Labels


@dataclass
class Curve:
    """The loss after every iteration of training, for methods that train."""

    names: tuple[str, ...] = ()
    """The loss and its parts."""
    values: list[list[float]] = field(default_factory=list)
    """A row per iteration, a column per name."""

    def csv(self) -> str:
        """A row per iteration: its number, then the loss and its parts."""
        head, rows = ["iteration", *self.names], enumerate(self.values, start=1)
        return "".join(
            ",".join(line) + "\n" for line in [head, *([str(n), *map(str, row)] for n, row in rows)]
        )

    def save(self, path: AnyPath) -> None:
        """Write it as CSV to `path`, whole or not at all."""
        write_text(path, self.csv())


@dataclass(frozen=True)
class Choice:
    """How a number of steps was chosen."""

    count: int
    """The number chosen."""
    candidates: NDArray[np.float64]
    """(n, 2): every number tried and its score; the highest was chosen."""
    reason: str
    """The choice in words."""

    def state(self) -> dict[str, Array]:
        """As arrays, for a method's `state`."""
        return {
            "choice": self.candidates,
            "choice.reason": np.frombuffer(self.reason.encode(), dtype=np.uint8),
        }

    @classmethod
    def restore(cls, count: int, state: Mapping[str, Array]) -> Self | None:
        """The choice of `count` steps that a method's `state` holds; version 0.1.0 kept other scores and no reason."""
        candidates = state.get("choice", np.zeros((0, 2)))
        if not len(candidates):
            return None
        reason = (
            state["choice.reason"].tobytes().decode()
            if "choice.reason" in state
            else f"{count} steps"
        )
        return cls(count, np.asarray(candidates[:, :2], dtype=np.float64), reason)


class LeftOut(NamedTuple):
    """What is seen in the videos learned from, in each as if it were new."""

    labels: list[Labels]
    """The step of each row, (T,) per video."""
    probabilities: list[NDArray[np.float64]]
    """(T, K) per video."""
    novelty: list[NDArray[np.float64]]
    """(T,) per video."""
    looks: list[tuple[NDArray[np.float64], NDArray[np.float64]]] | None = None
    """Its embedding (T, p) and the centres of the steps (K, p), per video, where the method knows them."""
    embed: Callable[[int, int, NDArray[np.int64] | None], NDArray[np.float64]] | None = None
    """embed(without, place, kept): the embedding (T, p) of all rows, or those kept, of the video at a place, by what
    was learned without the videos of a group, where the method knows it."""
    groups: list[int] | None = None
    """The group that each video was left out with, where the method knows it."""

    def of(self, places: Sequence[int]) -> "LeftOut":
        """The same for the videos at some places, which are counted from 0 then."""
        embed = self.embed
        return LeftOut(
            [self.labels[place] for place in places],
            [self.probabilities[place] for place in places],
            [self.novelty[place] for place in places],
            self.looks and [self.looks[place] for place in places],
            embed and (lambda without, place, kept: embed(without, places[place], kept)),
            self.groups and [self.groups[place] for place in places],
        )
