"""Hierarchy: one tree for all videos of which steps join when fewer are wanted, so that a person picks the grain."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from stepcut.checks import check_number
from stepcut.methods.arithmetic import squared_distances, step_sums
from stepcut.methods.inputs import Labels


@dataclass(frozen=True)
class Merge:
    """Two groups of steps become one."""

    a: tuple[int, ...]
    """The steps of the one group."""
    b: tuple[int, ...]
    """The steps of the other."""
    cost: float
    """How much it costs, as a share of all that distinguishes the steps."""
    count: int
    """How many groups there are afterwards."""


@dataclass(frozen=True)
class Hierarchy:
    """The merges from all steps to one, the cheapest first, one tree for all videos."""

    steps: tuple[str, ...]
    """The names of the steps."""
    merges: tuple[Merge, ...]
    """From K - 1 groups to one."""
    split: int | None = None
    """The step that would part in two if there were one more, where that is known."""

    def groups(self, count: int) -> list[tuple[int, ...]]:
        """The steps in `count` groups, by their first step."""
        check_number("count", count, 1, len(self.steps), whole=True)
        groups: set[tuple[int, ...]] = {(step,) for step in range(len(self.steps))}
        for merge in self.merges[: len(self.steps) - count]:
            groups = (groups - {merge.a, merge.b}) | {tuple(sorted(merge.a + merge.b))}
        return sorted(groups)

    def labels(self, labels: Labels, count: int) -> Labels:
        """Step numbers (T,) as the numbers of `count` groups; -1 stays."""
        number = np.full(len(self.steps) + 1, -1, dtype=np.int64)
        for place, group in enumerate(self.groups(count)):
            number[list(group)] = place
        return number[labels]

    def to_json(self) -> dict[str, Any]:
        """Names and merges, for the viewer and the report."""
        merges = [
            {"a": list(m.a), "b": list(m.b), "cost": m.cost, "count": m.count} for m in self.merges
        ]
        return {"steps": list(self.steps), "merges": merges, "split": self.split}

    @classmethod
    def from_json(cls, record: dict[str, Any], steps: Sequence[str]) -> Self:
        """What `to_json` wrote, with the names that the `steps` have now."""
        merges = [
            Merge(tuple(m["a"]), tuple(m["b"]), m["cost"], m["count"]) for m in record["merges"]
        ]
        return cls(tuple(steps), tuple(merges), record["split"])

    def __str__(self) -> str:
        """What would part with one step more, and a line for every merge."""
        name = [
            ", ".join(self.steps[step] for step in group)
            for merge in self.merges
            for group in (merge.a, merge.b)
        ]
        lines = [
            f"{merge.count:3d} steps: ({name[2 * i]}) + ({name[2 * i + 1]}), cost {merge.cost:.0%}"
            for i, merge in enumerate(self.merges)
        ]
        if self.split is not None:
            lines.insert(
                0, f"{len(self.steps) + 1:3d} steps: ({self.steps[self.split]}) would part in two"
            )
        return "\n".join(lines) or "1 step"


def find_split(labels: Sequence[Labels], finer: Sequence[Labels], count: int) -> int:
    """Of `count` steps, the one that parts most evenly in a finer segmentation of the same videos."""
    coarse, fine = np.concatenate(labels), np.concatenate(finer)
    both = (coarse >= 0) & (fine >= 0)
    counts = np.zeros((count, max(int(fine.max(initial=0)) + 1, 2)))
    np.add.at(counts, (coarse[both], fine[both]), 1)
    ranked = np.sort(counts, axis=1)[:, ::-1]
    return int((ranked[:, 1] / np.maximum(ranked.sum(axis=1), 1)).argmax())


def build_hierarchy(
    embeddings: Sequence[NDArray[Any]], labels: Sequence[Labels], steps: Sequence[str]
) -> Hierarchy:
    """Join `steps` one pair after the other: those that look alike and follow each other in all videos, by `labels`
    (T,) and `embeddings` (T, d), first.

    The cost of joining groups a and b is Ward's,  n_a n_b / (n_a + n_b) |m_a - m_b|^2,  with n the videos that show the
    step and m its mean, every video counting once, over the share of the transitions of the one that has fewer
    which are between them (plus one half): two phases of one step follow each other in every video.
    """
    count = len(steps)
    sums, shown = step_sums(embeddings, labels, count)
    follow = np.zeros((count, count))
    for done in (cut[cut >= 0] for cut in labels):
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
        keep = [place for place in range(len(groups)) if place != j]
        groups, sums, shown, follow = (
            [groups[k] for k in keep],
            sums[keep],
            shown[keep],
            follow[np.ix_(keep, keep)],
        )
    total = sum(cost for _, _, cost in merges) or 1.0
    return Hierarchy(
        tuple(steps),
        tuple(
            Merge(a, b, round(cost / total, 4), count - 1 - place)
            for place, (a, b, cost) in enumerate(merges)
        ),
    )
