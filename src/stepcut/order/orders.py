"""Order of the steps in one video, and ranking of the orders of all videos."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import OptionError, unknown
from stepcut.files.names import plain, spell
from stepcut.timeline import BACKGROUND, unnamed

Labels = Sequence[int] | NDArray[np.integer[Any]]
Key = TypeVar("Key", bound=Hashable)
T = TypeVar("T")


def video_order(labels: Labels) -> list[int]:
    """Sort the steps of one video, labels (T,), by the mean of n / p over their frames n of p."""
    numbers = np.asarray(labels, dtype=np.int64)
    if numbers.ndim != 1:
        what = f"labels has shape {numbers.shape}; give one row, a step number per frame."
        raise OptionError(what, setting="labels")
    times = np.arange(len(numbers))  # n, not n / p: division would round equal means apart
    steps = np.unique(numbers[numbers != BACKGROUND])
    mean = {int(step): float(times[numbers == step].mean()) for step in steps}
    return sorted(mean, key=lambda step: (mean[step], step))


def sequence(labels: Labels) -> list[int]:
    """The steps of one video in order, with repetitions: another step was done in between."""
    numbers = (int(number) for number in labels)
    return [step for step, _ in groupby(number for number in numbers if number != BACKGROUND)]


@dataclass(frozen=True)
class Orders:
    """The distinct orders of a task, most frequent first, each with its videos.

    Examples
    --------
    >>> order, shown_in = proc.orders[0]
    >>> order, len(shown_in)
    ((0, 1, 2), 6)
    """

    ranked: list[tuple[tuple[int, ...], list[str]]]
    names: tuple[str, ...] = ()
    """Step names by number; steps without a name show their number."""
    by_first: bool = False
    """Whether steps are sorted by their first occurrence instead of their mean time."""

    def to_json(self) -> list[dict[str, Any]]:
        """Return the step numbers and videos of each order, as JSON values."""
        return [{"order": list(order), "videos": videos} for order, videos in self.ranked]

    def __iter__(self) -> Iterator[tuple[tuple[int, ...], list[str]]]:
        return iter(self.ranked)

    def __len__(self) -> int:
        return len(self.ranked)

    def __getitem__(self, place: int) -> tuple[tuple[int, ...], list[str]]:
        return self.ranked[place]

    def __repr__(self) -> str:
        how = ", by when each step is first done" if self.by_first else ""
        videos = sum(len(videos) for _, videos in self.ranked)
        return f"<Orders {len(self.ranked)} distinct, of {videos} videos{how}>"

    def __str__(self) -> str:
        lines = [repr(self)]
        for order, videos in self.ranked:
            lines.append(f"{counted(len(videos)):>10}  {self._text(order)}")
            lines.append(f"{'':>10}  ({', '.join(videos)})")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        def isolated(name: str) -> str:  # arrows keep their direction between right-to-left names
            return f"<bdi>{escape(name)}</bdi>"

        rows = "".join(
            f"<tr><td>{len(videos)}</td><td>{self._text(order, isolated)}</td>"
            f"<td>{escape(', '.join(videos))}</td></tr>"
            for order, videos in self.ranked
        )
        head = "<tr><th>videos</th><th>order</th><th>which</th></tr>"
        return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"

    def _text(self, order: Sequence[int], write: Callable[[str], str] = str) -> str:
        return " → ".join(write(name_of(step, self.names)) for step in order) or "(no step)"


def rank_orders(
    orders: Mapping[str, Sequence[int]], names: Sequence[str] = (), by_first: bool = False
) -> Orders:
    """Group equal orders of videos, by name, and rank them by their number of videos."""
    groups = grouped((tuple(int(step) for step in order), video) for video, order in orders.items())
    return Orders(sorted(groups.items(), key=lambda group: -len(group[1])), tuple(names), by_first)


def grouped(pairs: Iterable[tuple[Key, T]]) -> dict[Key, list[T]]:
    groups: dict[Key, list[T]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def name_of(step: int, names: Sequence[str]) -> str:
    return names[step] if 0 <= step < len(names) else unnamed(step)


def number_of(step: int | str, steps: Sequence[str]) -> int:
    """Number of a step that is given by number, or by name in any capitalization."""
    if isinstance(step, str) and (name := spell([step], steps)[step]) in steps:
        return steps.index(name)
    if isinstance(step, int | np.integer) and not isinstance(step, bool) and 0 <= step < len(steps):
        return int(step)
    raise unknown("step", step, steps, hint=f"Or give a number from 0 to {len(steps) - 1}.")


def find_alike(names: Sequence[str]) -> tuple[str, str] | None:
    """Two names that differ only by spaces, underscores and capitals, or None."""
    seen: dict[str, str] = {}
    for name in names:
        if plain(name) in seen:
            return seen[plain(name)], name
        seen[plain(name)] = name
    return None


def counted(videos: int) -> str:
    return f"{videos} video" if videos == 1 else f"{videos} videos"
