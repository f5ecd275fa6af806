"""Orders: in which order one video does its steps, and which orders the videos of a task share,
ranked."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import OptionError, unknown
from stepcut.files.names import spell
from stepcut.timeline import BACKGROUND, unnamed

Labels = Sequence[int] | NDArray[np.integer[Any]]
Key = TypeVar("Key", bound=Hashable)
T = TypeVar("T")


def video_order(labels: Labels) -> list[int]:
    """The steps in the `labels` of one video, sorted by when they are done on average.

    The time of frame n of p is n / p; the time of a step is the mean over its frames (background
    has none). Two steps with the same mean time stand by their number.

    >>> video_order([2, 2, -1, 0, 0, 2])
    [2, 0]
    """
    numbers = np.asarray(labels, dtype=np.int64)
    if numbers.ndim != 1:
        raise OptionError(
            f"labels has shape {numbers.shape}; give one row, a step number per frame."
        )
    times = np.arange(
        len(numbers)
    )  # n; divided by p the order is the same, and equal means would be rounded apart
    steps = np.unique(numbers[numbers != BACKGROUND])
    mean = {int(step): float(times[numbers == step].mean()) for step in steps}
    return sorted(mean, key=lambda step: (mean[step], step))


def sequence(labels: Labels) -> list[int]:
    """The steps in the `labels` of one video in the order of its segments, repeats included,
    background left out.

    A step that is interrupted by background alone is one segment: a pause is no repeat. It is
    repeated when another step was done in between.

    >>> sequence([0, 0, -1, 0, 1, 1, 0, -1])
    [0, 1, 0]
    """
    return [
        int(step)
        for step, _ in groupby(int(number) for number in labels if int(number) != BACKGROUND)
    ]


@dataclass(frozen=True)
class Orders:
    """The distinct orders of a task, the most followed first, each with the videos that follow
    it."""

    ranked: list[tuple[tuple[int, ...], list[str]]]
    names: tuple[str, ...] = ()
    """Step names by number; where there is none, the number is shown."""
    by_first: bool = False
    """Whether steps stand by when they are first done, and not by their mean times."""

    def to_json(self) -> list[dict[str, Any]]:
        """A list of objects with the steps of an order by number, and its videos."""
        return [{"order": list(order), "videos": videos} for order, videos in self.ranked]

    def __iter__(self) -> Iterator[tuple[tuple[int, ...], list[str]]]:
        return iter(self.ranked)

    def __len__(self) -> int:
        return len(self.ranked)

    def __getitem__(self, place: int) -> tuple[tuple[int, ...], list[str]]:
        return self.ranked[place]

    def __repr__(self) -> str:
        how = ", by when each step is first done" if self.by_first else ""
        return f"<Orders {len(self.ranked)} distinct, of {sum(len(videos) for _, videos in self.ranked)} videos{how}>"

    def __str__(self) -> str:
        lines = [repr(self)]
        for order, videos in self.ranked:
            lines.append(f"{counted(len(videos)):>10}  {self._words(order)}")
            lines.append(f"{'':>10}  ({', '.join(videos)})")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        def alone(name: str) -> str:
            """Between two names that are written from right to left the arrow would point the wrong
            way."""
            return f"<bdi>{escape(name)}</bdi>"

        rows = "".join(
            f"<tr><td>{len(videos)}</td><td>{self._words(order, alone)}</td><td>{escape(', '.join(videos))}</td></tr>"
            for order, videos in self.ranked
        )
        return f"<table><thead><tr><th>videos</th><th>order</th><th>which</th></tr></thead><tbody>{rows}</tbody></table>"

    def _words(self, order: Sequence[int], write: Callable[[str], str] = str) -> str:
        return " → ".join(write(name_of(step, self.names)) for step in order) or "(no step)"


def rank_orders(
    orders: Mapping[str, Sequence[int]], names: Sequence[str] = (), by_first: bool = False
) -> Orders:
    """Group the orders of the videos (`{video: order}`) and rank them by how many videos follow
    each.

    Orders with the same number of videos stand as in the mapping: the one met first comes first.
    `names` are those of the steps, and `by_first` says that the orders go by when each step is
    first done.

    >>> print(rank_orders({"a.mp4": [0, 1], "b.mp4": [1, 0], "c.mp4": [0, 1]}, names=["pour", "stir"]))
    <Orders 2 distinct, of 3 videos>
      2 videos  pour → stir
                (a.mp4, c.mp4)
       1 video  stir → pour
                (b.mp4)
    """
    groups = grouped((tuple(int(step) for step in order), video) for video, order in orders.items())
    return Orders(sorted(groups.items(), key=lambda group: -len(group[1])), tuple(names), by_first)


def grouped(pairs: Iterable[tuple[Key, T]]) -> dict[Key, list[T]]:
    """The second of all `pairs` by the first, in the order in which they come.

    >>> grouped([("pour", 3.0), ("stir", 1.0), ("pour", 2.0)])
    {'pour': [3.0, 2.0], 'stir': [1.0]}
    """
    groups: dict[Key, list[T]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def name_of(step: int, names: Sequence[str]) -> str:
    """The name of a `step` in `names`, or its placeholder where it has none."""
    return names[step] if 0 <= step < len(names) else unnamed(step)


def number_of(step: int | str, steps: Sequence[str]) -> int:
    """The number of a `step` of these `steps`, given by number or by name, whatever its
    capitals."""
    if isinstance(step, str) and (name := spell([step], steps)[step]) in steps:
        return steps.index(name)
    if isinstance(step, int | np.integer) and not isinstance(step, bool) and 0 <= step < len(steps):
        return int(step)
    raise unknown("step", step, steps, hint=f"Or give a number from 0 to {len(steps) - 1}.")


def counted(videos: int) -> str:
    """`1 video`, `2 videos`."""
    return f"{videos} video" if videos == 1 else f"{videos} videos"
