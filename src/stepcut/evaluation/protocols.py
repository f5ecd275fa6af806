"""Protocols: how clusters are matched to true steps, and what is averaged.

`C[s, k]` counts the frames of true step `s` (0 is background) in cluster `k - 1` (column 0: no
predicted step). A matching is a dict from column to row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import OptionError, wrong
from stepcut.evaluation.metrics import Rates as Rates  # imported by custom protocols
from stepcut.evaluation.metrics import harmonic, mean_rates, rates
from stepcut.methods.arithmetic import best_pairs
from stepcut.plugins import find

Counts = NDArray[np.int64]
Places = NDArray[np.intp]
Matching = dict[int, int]

NO_STEP = 0  # column of frames without a predicted step
BACKGROUND_ROW = 0  # row of frames that are truly background
NOTHING = Rates(0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Protocol:
    """One way to score predictions.

    Parameters
    ----------
    name
        Name of the protocol in tables.
    match
        `match(counts, rows)` returns a dict from columns of `counts` to rows. `counts[s, k]` are
        the frames of true step `s` (0 is background) in cluster `k - 1` (column 0 is "no step");
        `rows` are the classes that occur.
    rate
        `rate(counts, matching)` returns the `Rates`.
    per_video
        Match every video separately, and average their `Rates`.
    background_is_a_class
        Score background like a step.
    average
        `average(list of Rates)` returns those of all videos, if each is matched separately.
    segmentation
        Add the figures of action segmentation to tables: MoF over all frames, and sampled F1.

    Examples
    --------
    >>> steps = Protocol("steps", match_steps, rate_strict)
    >>> from stepcut.evaluation import score
    >>> score([[0, 0, 1, 1]], [[2, 2, 1, 0]], steps)
    <Score steps: F1 83.3, IoU 75.0, MoF 100.0>
    """

    name: str
    match: Callable[[Counts, Places], Matching]
    rate: Callable[[Counts, Matching], Rates]
    per_video: bool = False
    background_is_a_class: bool = False
    average: Callable[[list[Rates]], Rates] = mean_rates
    segmentation: bool = False


def find_matching(protocol: Protocol, counts: Counts, rows: Places) -> Matching:
    """Refuse what is not a one-to-one matching."""
    matching = protocol.match(counts, rows)
    steps, clusters = map(range, counts.shape)
    inside = isinstance(matching, dict) and all(
        k in clusters and s in steps for k, s in matching.items()
    )
    if inside and len(set(matching.values())) == len(matching):
        return matching
    wanted = "a dict from each matched column to a row of its own. Match a row once, or merge"
    raise _wrong_result(protocol, "match", matching, f"{wanted} the clusters before")


def find_rates(protocol: Protocol, counts: Counts, matching: Matching) -> Rates:
    figures = protocol.rate(counts, matching)
    numbers = isinstance(figures, tuple) and all(isinstance(value, Real) for value in figures)
    if numbers and len(figures) == len(Rates._fields):
        return figures
    raise _wrong_result(protocol, "rate", figures, f"Rates({', '.join(Rates._fields)})")


def _wrong_result(protocol: Protocol, part: str, value: object, wanted: str) -> OptionError:
    what = f"protocol {protocol.name!r}: {part} returned {value!r}, not {wanted}."
    return OptionError(what, setting=part, value=value)


def find_protocol(protocol: str | Protocol) -> Protocol:
    found: object = find("protocol", protocol, PROTOCOLS) if isinstance(protocol, str) else protocol
    if not isinstance(found, Protocol):
        kind = type(found).__name__
        raise wrong("protocol", protocol, f"is a {kind}, not a `stepcut.evaluation.Protocol`.")
    return found


def assign(gain: NDArray[Any], counts: Counts, rows: Places, columns: Places) -> Matching:
    """The one-to-one matching of rows and columns with the highest total gain.

    Ties go by the frames of steps and clusters. Only between a step that does not occur and one
    that does, the lower number wins, as in the published results.
    """
    if not len(rows) or not len(columns):
        return {}
    row_ranks, column_ranks = _ranks(counts)
    if counts[rows].any(axis=1).all():
        rows = rows[np.argsort(row_ranks[rows])]
    columns = columns[np.argsort(column_ranks[columns])]
    exact = np.round(gain[np.ix_(rows, columns)] * 2**30)  # integers make equal sums exactly equal
    return {int(columns[b]): int(rows[a]) for a, b in best_pairs(exact, least=-1)}


def _ranks(counts: Counts) -> tuple[Places, Places]:
    """Rank rows and columns by what they contain, wherever it stands.

    Each round tells apart what has the same numbers, but in columns (rows) of other ranks.
    """
    rows, columns = (np.arange(size) == 0 for size in counts.shape)  # background and "no step"
    for _ in range(3):
        rows = _rank(counts, rows, columns)
        columns = _rank(counts.T, columns, rows)
    return rows, columns


def _rank(counts: Counts, own: Places, other: Places) -> Places:
    entries = np.sort(counts * (len(other) + 1) + other, axis=1)[:, ::-1]
    ranks = np.unique(np.column_stack([own, entries]), axis=0, return_inverse=True)[1]
    return np.asarray(ranks.reshape(-1))


def match_f1(counts: Counts, rows: Places) -> Matching:
    """Steps only, for the highest mean F1."""
    return _match_steps(counts, rows, counts, _f1(counts))


def match_overlap(counts: Counts, rows: Places) -> Matching:
    """Classes, including background, to all K clusters so that most frames agree.

    As published, clusters without frames take part, pairs without a common frame score 0, and "no
    step" always matches background.
    """
    clusters, gain = np.arange(NO_STEP + 1, counts.shape[1]), _overlap(counts)
    if not counts[:, NO_STEP].any():
        return assign(gain, counts, rows, clusters)
    steps = assign(gain, counts, rows[rows != BACKGROUND_ROW], clusters)
    return {NO_STEP: BACKGROUND_ROW, **steps}


def match_classes(counts: Counts, rows: Places) -> Matching:
    """Classes, including background, so that most frames agree."""
    return _useful(match_overlap(counts, rows[counts[rows].any(axis=1)]), counts)


def match_steps(counts: Counts, rows: Places) -> Matching:
    """Steps only, so that most frames agree."""
    steps = _steps_of(counts)
    return _match_steps(counts, rows, steps, _overlap(steps))


def match_names(counts: Counts, _rows: Places) -> Matching:
    """Column k + 1 to row k + 1: cluster k has the name of true step k + 1."""
    return {step: step for step in range(1, min(counts.shape))}


def _match_steps(counts: Counts, rows: Places, used: Counts, gain: NDArray[np.float64]) -> Matching:
    """Steps to the clusters with frames in `used` so that the `gain` is highest."""
    clusters = np.flatnonzero(used[:, NO_STEP + 1 :].sum(axis=0)) + NO_STEP + 1
    return _useful(assign(gain, counts, rows[rows != BACKGROUND_ROW], clusters), counts)


def _steps_of(counts: Counts) -> Counts:
    steps = counts.copy()
    steps[BACKGROUND_ROW] = 0
    return steps


def _f1(counts: Counts) -> NDArray[np.float64]:
    """F1[s, k] = 2 C[s, k] / (frames of s + frames of k)."""
    frames = counts.sum(axis=1)[:, None] + counts.sum(axis=0)[None, :]
    return np.asarray(2 * counts / np.maximum(frames, 1))


def _overlap(counts: Counts) -> NDArray[np.float64]:
    """Common frames; F1 breaks ties, independent of the cluster numbers."""
    return np.asarray(counts + _f1(counts) / (min(counts.shape) + 1))


def _useful(matching: Matching, counts: Counts) -> Matching:
    return {cluster: step for cluster, step in matching.items() if counts[step, cluster]}


def rate_strict(counts: Counts, matching: Matching) -> Rates:
    """Average over all steps that occur; a step without a cluster scores 0."""
    return _mean_of(each_step(counts, matching), _steps_of(counts))


def rate_classes(counts: Counts, matching: Matching) -> Rates:
    """Average over all classes that occur, with background; without a cluster they score 0."""
    return _mean_of(each_step(counts, matching), counts)


def _mean_of(figures: dict[int, Rates], counts: Counts) -> Rates:
    occurring = np.flatnonzero(counts.any(axis=1)).tolist()
    return mean_rates([figures.get(step, NOTHING) for step in occurring])


def rate_paper(counts: Counts, matching: Matching) -> Rates:
    """Average over the matched classes that occur; F1 from mean precision and mean recall.

    K clusters match up to K classes; a class that is matched to an empty cluster scores 0.
    """
    each = each_step(counts, matching).items()
    return harmonic(mean_rates([value for step, value in each if counts[step].any()]))


def rate_framewise(counts: Counts, matching: Matching) -> Rates:
    """All matched pairs together: right frames over those of their clusters and classes."""
    clusters = sum(int(counts[:, cluster].sum()) for cluster in matching)
    classes = sum(int(counts[step].sum()) for step in matching.values())
    return rates(_right(counts, matching), clusters, classes)


def rate_framewise_steps(counts: Counts, matching: Matching) -> Rates:
    """Right frames over those in any cluster, and over those of all steps."""
    predicted, actual = counts[:, NO_STEP + 1 :].sum(), counts[BACKGROUND_ROW + 1 :].sum()
    return rates(_right(counts, matching), int(predicted), int(actual))


def _right(counts: Counts, matching: Matching) -> int:
    return sum(int(counts[step, cluster]) for cluster, step in matching.items())


def each_step(counts: Counts, matching: Matching) -> dict[int, Rates]:
    return {
        step: rates(int(counts[step, k]), int(counts[:, k].sum()), int(counts[step].sum()))
        for k, step in matching.items()
    }


def _harmonic_of_means(figures: list[Rates]) -> Rates:
    return harmonic(mean_rates(figures))


_Classes = partial(Protocol, match=match_overlap, background_is_a_class=True)
_Segmentation = partial(
    Protocol, match=match_classes, rate=rate_classes, background_is_a_class=True, segmentation=True
)
PROTOCOLS: dict[str, Protocol] = {
    p.name: p
    for p in (
        Protocol("strict", match_f1, rate_strict),
        _Classes("paper", rate=rate_paper),
        _Classes("paper-per-video", rate=rate_paper, per_video=True, average=_harmonic_of_means),
        _Classes("framewise", rate=rate_framewise),
        Protocol("framewise-steps", match_steps, rate_framewise_steps),
        _Segmentation("segmentation"),
        _Segmentation("segmentation-per-video", per_video=True),
        Protocol("named", match_names, rate_strict),
    )
}
