"""Protocols: how clusters are matched to true steps, and what is averaged. Every table says which
one it used.

`C[s, k]` counts the frames of true step `s` (0 is background) that were given to cluster `k - 1`;
column 0 holds the frames that were given to no step at all (-1). A matching is a dict from column
to row. docs/evaluate.md has a table."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from stepcut.errors import OptionError
from stepcut.evaluation.metrics import Rates as Rates  # named by protocols of one's own
from stepcut.evaluation.metrics import harmonic, mean_rates, rates
from stepcut.plugins import find

Counts = NDArray[np.int64]
Places = NDArray[np.intp]
Matching = dict[int, int]

NO_STEP = 0
"""The column of frames that were given to no step."""
BACKGROUND_ROW = 0
"""The row of frames that are truly background."""


@dataclass(frozen=True)
class Protocol:
    """One way to score: `match(counts, rows)` matches the classes of the task, `rate(counts,
    matching)` rates them.

    `counts` is C above, `rows` the classes that occur, `matching` what `match` gave.
    """

    name: str
    match: Callable[[Counts, Places], Matching]
    rate: Callable[[Counts, Matching], Rates]
    per_video: bool = False
    background_is_a_class: bool = False

    def find_matching(self, counts: Counts, rows: Places) -> Matching:
        """What `match`, which may be somebody's own, gives for these `rows` of `counts`."""
        matching = self.match(counts, rows)
        steps, clusters = map(range, counts.shape)
        if not isinstance(matching, dict) or any(
            k not in clusters or s not in steps for k, s in matching.items()
        ):
            raise OptionError(
                f"protocol {self.name!r}: match gave {matching!r}; it must be a dict from column "
                "to row."
            )
        if len(set(matching.values())) < len(matching):
            what = f"match gave two columns for one row, {matching!r}; a step has one cluster"
            raise OptionError(
                f"protocol {self.name!r}: {what}. Keep one of them, or join the clusters "
                "beforehand."
            )
        return matching

    def find_rates(self, counts: Counts, matching: Matching) -> Rates:
        """What `rate`, which may be somebody's own, gives for `counts` and a `matching`."""
        figures = self.rate(counts, matching)
        numbers = isinstance(figures, tuple) and all(isinstance(value, Real) for value in figures)
        if not numbers or len(figures) != len(Rates._fields):
            wanted = ", ".join(Rates._fields)
            raise OptionError(
                f"protocol {self.name!r}: rate gave {figures!r}; it must be Rates({wanted})."
            )
        return figures


def find_protocol(protocol: str | Protocol) -> Protocol:
    """The protocol of this name, of an entry point or `package.module:NAME`; an object is taken as
    it is."""
    if protocol == "legacy":
        raise OptionError(
            "protocol='legacy' is now two readings with names of their own: choose 'framewise' "
            "(background is a class "
            "and is matched) or 'framewise-steps' (steps only, precision over every frame given "
            "to any cluster)."
        )
    found: object = find("protocol", protocol, PROTOCOLS) if isinstance(protocol, str) else protocol
    if not isinstance(found, Protocol):
        raise OptionError(
            f"protocol={protocol!r} is no `stepcut.evaluation.Protocol` but a "
            f"{type(found).__name__}."
        )
    return found


def assign(gain: NDArray[Any], counts: Counts, rows: Places, columns: Places) -> Matching:
    """The one-to-one matching of these rows and columns with the highest total gain: as many pairs
    as there can be.

    Where several have that gain, the frames in the clusters decide, and not how these are numbered.
    """
    if not len(rows) or not len(columns):
        return {}
    columns = columns[np.lexsort(counts[::-1, columns])]
    exact = np.round(
        gain[np.ix_(rows, columns)] * 2**30
    )  # whole numbers, whose sums are equal where they should be
    i, j = linear_sum_assignment(exact, maximize=True)
    return {int(columns[b]): int(rows[a]) for a, b in zip(i, j, strict=True)}


def match_f1(counts: Counts, rows: Places) -> Matching:
    """Steps to clusters so that the mean F1 is highest."""
    return _useful(
        assign(_f1(counts), counts, rows[rows != BACKGROUND_ROW], _clusters(counts)), counts
    )


def match_overlap(counts: Counts, rows: Places, empty: bool = False) -> Matching:
    """Classes, background among them, to clusters so that most frames agree. "No step" is
    background by its meaning.

    Pairs without a common frame stay in: such a class counts as matched, with 0 (so the published
    figures come out). With `empty`, clusters that hold no frame take part, and a class that falls
    to one of them is matched too."""
    clusters = np.arange(NO_STEP + 1, counts.shape[1]) if empty else _clusters(counts)
    if not counts[:, NO_STEP].any():
        return assign(_overlap(counts), counts, rows, clusters)
    return {
        NO_STEP: BACKGROUND_ROW,
        **assign(_overlap(counts), counts, rows[rows != BACKGROUND_ROW], clusters),
    }


def match_steps(counts: Counts, rows: Places) -> Matching:
    """Steps to clusters so that most frames agree; background takes no part."""
    steps = counts.copy()
    steps[BACKGROUND_ROW] = 0
    return _useful(
        assign(_overlap(steps), counts, rows[rows != BACKGROUND_ROW], _clusters(steps)), counts
    )


def match_names(counts: Counts, _rows: Places) -> Matching:
    """Cluster k, in column k + 1, carries the name of true step k + 1; there is nothing to
    choose."""
    return {step: step for step in range(1, min(counts.shape))}


def rate_strict(counts: Counts, matching: Matching) -> Rates:
    """The mean over all steps that occur; a step without a cluster scores 0."""
    figures = each_step(counts, matching)
    occurring = np.flatnonzero(counts[BACKGROUND_ROW + 1 :].sum(axis=1)) + BACKGROUND_ROW + 1
    return mean_rates([figures.get(int(step), Rates(0.0, 0.0, 0.0, 0.0)) for step in occurring])


def rate_paper(counts: Counts, matching: Matching) -> Rates:
    """The mean over the matched classes that occur; F1 is the harmonic mean of mean precision and
    mean recall."""
    occurring = set(np.flatnonzero(counts.sum(axis=1)).tolist())
    figures = [value for step, value in each_step(counts, matching).items() if step in occurring]
    return harmonic(mean_rates(figures))


def rate_framewise(counts: Counts, matching: Matching) -> Rates:
    """Of all matched pairs together: right / frames of the matched clusters, right / frames of the
    matched classes."""
    right = sum(int(counts[step, cluster]) for cluster, step in matching.items())
    clusters = sum(int(counts[:, cluster].sum()) for cluster in matching)
    classes = sum(int(counts[step].sum()) for step in matching.values())
    return rates(right, clusters, classes)


def rate_framewise_steps(counts: Counts, matching: Matching) -> Rates:
    """Right / frames given to any cluster, background among them; right / frames of all steps,
    matched or not."""
    right = sum(int(counts[step, cluster]) for cluster, step in matching.items())
    return rates(
        right, int(counts[:, NO_STEP + 1 :].sum()), int(counts[BACKGROUND_ROW + 1 :].sum())
    )


def each_step(counts: Counts, matching: Matching) -> dict[int, Rates]:
    """The four figures of every class in `matching`, by its row of `counts`."""
    frames_of_step, frames_of_cluster = counts.sum(axis=1), counts.sum(axis=0)
    return {
        step: rates(
            int(counts[step, cluster]), int(frames_of_cluster[cluster]), int(frames_of_step[step])
        )
        for cluster, step in matching.items()
    }


def _f1(counts: Counts) -> NDArray[np.float64]:
    """F1[s, k] = 2 C[s, k] / (frames of s + frames of k)."""
    frames = counts.sum(axis=1)[:, None] + counts.sum(axis=0)[None, :]
    return np.asarray(2 * counts / np.maximum(frames, 1))


def _overlap(counts: Counts) -> NDArray[np.float64]:
    """The frames in common; among equal sums the higher F1 wins, so that the numbers of the
    clusters do not matter."""
    return np.asarray(counts + _f1(counts) / (min(counts.shape) + 1))


def _useful(matching: Matching, counts: Counts) -> Matching:
    """Without the pairs that have no frame in common: they say nothing, and score 0 either way."""
    return {cluster: step for cluster, step in matching.items() if counts[step, cluster]}


def _clusters(counts: Counts) -> Places:
    """The columns of the clusters that hold a frame."""
    return np.flatnonzero(counts[:, NO_STEP + 1 :].sum(axis=0)) + NO_STEP + 1


PROTOCOLS: dict[str, Protocol] = {
    p.name: p
    for p in (
        Protocol("strict", match_f1, rate_strict),
        Protocol("paper", match_overlap, rate_paper, background_is_a_class=True),
        Protocol(
            "paper-per-video", match_overlap, rate_paper, per_video=True, background_is_a_class=True
        ),
        Protocol(
            "framewise",
            partial(match_overlap, empty=True),
            rate_framewise,
            background_is_a_class=True,
        ),
        Protocol("framewise-steps", match_steps, rate_framewise_steps),
        Protocol("named", match_names, rate_strict),
    )
}
