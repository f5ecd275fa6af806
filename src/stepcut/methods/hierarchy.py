"""Hierarchy: one tree for all videos that merges similar steps into fewer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import msgspec
import numpy as np

from stepcut.errors import OptionError
from stepcut.methods.arithmetic import squared_distances, step_sums
from stepcut.methods.inputs import Array, Labels
from stepcut.settings import check_number


@dataclass(frozen=True)
class Merge:
    """Two groups of steps become one."""

    a: tuple[int, ...]
    b: tuple[int, ...]
    cost: float  # as a share of the total distance between steps
    count: int  # groups after the merge


@dataclass(frozen=True)
class Hierarchy:
    """The merges from all steps to one, cheapest first.

    Examples
    --------
    >>> proc.hierarchy().merges[0].count
    2
    """

    steps: tuple[str, ...]
    merges: tuple[Merge, ...]
    """From K - 1 groups to one."""

    def groups(self, count: int) -> list[tuple[int, ...]]:
        """Return the steps in groups, sorted by their first step."""
        check_number("count", count, 1, len(self.steps), whole=True)
        groups: set[tuple[int, ...]] = {(step,) for step in range(len(self.steps))}
        for merge in self.merges[: len(self.steps) - count]:
            groups = (groups - {merge.a, merge.b}) | {tuple(sorted(merge.a + merge.b))}
        return sorted(groups)

    def labels(self, labels: Labels, count: int) -> Labels:
        """Convert step numbers to numbers of groups."""
        labels = np.asarray(labels)
        if len(odd := labels[(labels < -1) | (labels >= len(self.steps))]):
            known = f"steps are 0 to {len(self.steps) - 1}, or -1 for none."
            raise OptionError(f"labels contains step {odd[0]}; {known}", setting="labels")
        number = np.full(len(self.steps) + 1, -1, dtype=np.int64)
        for place, group in enumerate(self.groups(count)):
            number[list(group)] = place
        return number[labels]

    def to_json(self) -> dict[str, Any]:
        """Return the hierarchy as JSON values."""
        record: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return record

    @classmethod
    def from_json(cls, record: dict[str, Any], steps: Sequence[str]) -> Self:
        """Rebuild a hierarchy from `to_json` and the current names of its steps."""
        made = replace(msgspec.convert(record, cls), steps=tuple(steps))
        numbers = [step for merge in made.merges for step in (*merge.a, *merge.b)]
        if any(not 0 <= number < len(steps) for number in numbers):
            raise ValueError(f"the hierarchy does not match {len(steps)} steps")
        return made

    def __str__(self) -> str:
        lines = []
        for merge in self.merges:
            a, b = (", ".join(self.steps[step] for step in group) for group in (merge.a, merge.b))
            lines.append(f"{merge.count:3d} steps: ({a}) + ({b}), cost {merge.cost:.0%}")
        return "\n".join(lines) or "1 step"


def build_hierarchy(
    embeddings: Sequence[Array], labels: Sequence[Labels], steps: Sequence[str]
) -> Hierarchy:
    """Merge steps pair by pair: first those that look alike and follow each other.

    The cost of merging a and b is Ward's, n_a n_b / (n_a + n_b) |m_a - m_b|^2, with n the videos
    that contain the step and m its mean, every video counting once; divided by 1/2 plus the share
    of transitions between the two, relative to the group with fewer: phases of one step follow
    each other in every video. `labels` (T,) and `embeddings` (T, d) per video.
    """
    count = len(steps)
    sums, shown = step_sums(embeddings, labels, count)
    follow = np.zeros((count, count))
    for done in (numbers[numbers >= 0] for numbers in labels):
        np.add.at(follow, (done[:-1], done[1:]), 1)
    np.fill_diagonal(follow, 0)
    follow += follow.T.copy()
    groups: list[tuple[int, ...]] = [(step,) for step in range(count)]
    merges: list[tuple[tuple[int, ...], tuple[int, ...], float]] = []
    while len(groups) > 1:
        weight = np.maximum(shown, 1e-9)
        apart = squared_distances(sums / weight[:, None], sums / weight[:, None])
        ward = weight[:, None] * weight / (weight[:, None] + weight) * apart
        leave = np.maximum(follow.sum(axis=1), 1)
        near = follow / np.minimum(leave[:, None], leave)
        cost = np.where(np.eye(len(groups), dtype=bool), np.inf, ward / (0.5 + near))
        i, j = sorted(np.unravel_index(int(cost.argmin()), cost.shape))
        merges.append((groups[i], groups[j], float(ward[i, j])))
        sums[i] += sums[j]
        shown[i] += shown[j]
        follow[i] += follow[j]
        follow[:, i] += follow[:, j]
        follow[i, i] = 0
        groups[i] = tuple(sorted(groups[i] + groups[j]))
        del groups[j]
        keep = np.arange(len(shown)) != j
        sums, shown, follow = sums[keep], shown[keep], follow[np.ix_(keep, keep)]
    total = sum(cost for _, _, cost in merges) or 1.0
    shares = [
        Merge(a, b, round(cost / total, 4), count - 1 - place)
        for place, (a, b, cost) in enumerate(merges)
    ]
    return Hierarchy(tuple(steps), tuple(shares))
