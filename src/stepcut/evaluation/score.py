"""score(): agreement of predicted labels with annotations under a named protocol."""

import math
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import OptionError, as_items, choose, wrong
from stepcut.evaluation import metrics
from stepcut.evaluation.metrics import Labels
from stepcut.evaluation.protocols import (
    BACKGROUND_ROW,
    NO_STEP,
    NOTHING,
    Counts,
    Protocol,
    each_step,
    find_matching,
    find_protocol,
    find_rates,
)
from stepcut.order import video_order
from stepcut.settings import check_number

Array = NDArray[np.int64]

LARGEST = 10_000  # number of a step or cluster: frames are counted for every pair of them
OVERLAPS = (10, 25, 50)  # IoU in percent at which segments are found


class StepScore(NamedTuple):
    step: int
    name: str
    cluster: int | None
    precision: float
    recall: float
    f1: float
    iou: float
    frames: int


class VideoScore(NamedTuple):
    """Scores under the matching of the video, in percent (tau from -1 to 1)."""

    precision: float
    recall: float
    f1: float
    iou: float
    mof: float
    edit: float
    tau: float


class Score:
    """Result of `score`: figures in percent, the matching, and breakdowns computed on demand.

    Examples
    --------
    >>> score([[0, 0, 1]], [[2, 2, 1]])
    <Score strict: F1 100.0, IoU 100.0, MoF 100.0>
    """

    def __init__(
        self,
        pred: list[Array],
        true: list[Array],
        protocol: Protocol,
        names: Sequence[str] | None,
        rate: float,
        clusters: int | None,
    ) -> None:
        self.protocol, self.rate = protocol.name, rate
        self.has_one_matching = not protocol.per_video
        self._pred, self._true, self._protocol, self._names = pred, true, protocol, names
        wanted = len(np.unique(np.concatenate(true))) if clusters is None else clusters
        # K, the number of clusters, including empty ones
        self.clusters = max(wanted, *(int(p.max()) + 1 for p in pred))
        steps = max(int(t.max()) for t in true) + 1
        self._counts = [
            metrics.count(p + 1, t, self.clusters + 1, steps)
            for p, t in zip(pred, true, strict=True)
        ]
        # Frames by true step (row 0 is background) and cluster (column 0 is "no step")
        self.confusion: Counts = np.sum(self._counts, axis=0)
        rows = np.flatnonzero(self.confusion.sum(axis=1))
        self._occurring = rows.tolist()
        counted = self._counts if protocol.per_video else [self.confusion]
        # What is matched together: the counts and the matching.
        self._groups = [(counts, find_matching(protocol, counts, rows)) for counts in counted]
        each = [matching for _, matching in self._groups]
        self._matching = each if protocol.per_video else each * len(pred)
        rates = [find_rates(protocol, *group) for group in self._groups]
        figures = protocol.average(rates) if protocol.per_video else rates[0]
        self.precision, self.recall, self.f1, self.iou = (100 * value for value in figures)

    def __repr__(self) -> str:
        return f"<Score {self.protocol}: F1 {self.f1:.1f}, IoU {self.iou:.1f}, MoF {self.mof:.1f}>"

    @property
    def used(self) -> float:
        """Number of clusters with frames; the mean per video if each is matched separately."""
        each = [(counts[:, NO_STEP + 1 :].sum(axis=0) > 0).sum() for counts, _ in self._groups]
        return float(np.mean(each))

    @property
    def matchings(self) -> list[dict[int, int]]:
        """For every video, cluster -> true step (0 is background, cluster -1 is "no step")."""
        used = self.confusion.sum(axis=0)
        return [{k - 1: s for k, s in sorted(one.items()) if used[k]} for one in self._matching]

    @property
    def matching(self) -> dict[int, int]:
        """Cluster -> true step, for all videos."""
        if not self.has_one_matching:
            why = "has one matching per video; use .matchings instead."
            raise wrong("protocol", self.protocol, why)
        return self.matchings[0]

    def mapped(self, video: int) -> Array:
        """Return the prediction of one video, by its place, in numbers of true steps; a cluster `k`
        without a step becomes `-2 - k`."""
        return self._mapped[video]

    @cached_property
    def _mapped(self) -> list[Array]:
        found = []
        for labels, matching in zip(self._pred, self._matching, strict=True):
            translate = -1 - np.arange(self.clusters + 1, dtype=np.int64)
            translate[NO_STEP] = BACKGROUND_ROW
            translate[list(matching)] = list(matching.values())
            found.append(translate[labels + 1])
        return found

    def explain(self, clusters: Sequence[str] | None = None) -> str:
        """Describe the matching, one line per cluster; `clusters` are names to print instead of
        "cluster 3"."""
        if not self.has_one_matching:
            return "every video has its own matching; see .matchings"
        frames_of_cluster, matching = self.confusion.sum(axis=0), self._matching[0]
        lines = []
        for cluster in np.flatnonzero(frames_of_cluster).tolist():
            numbered = f"cluster {cluster - 1}" if clusters is None else clusters[cluster - 1]
            who = "no step" if cluster == NO_STEP else numbered
            if cluster in matching:
                share = self.confusion[matching[cluster], cluster] / frames_of_cluster[cluster]
                both = dict.fromkeys((who, self.name(matching[cluster])))
                lines.append(f"{' = '.join(both)}, {100 * share:.0f} % of its frames")
            elif cluster != NO_STEP:
                lines.append(f"{who} = nothing, {frames_of_cluster[cluster]} frames")
        found = {BACKGROUND_ROW, *(s for k, s in matching.items() if frames_of_cluster[k])}
        missing = [step for step in self._occurring if step not in found]
        lines += [f"no cluster = {self.name(s)}, {self.confusion[s].sum()} frames" for s in missing]
        return "\n".join(lines)

    def name(self, step: int) -> str:
        """Return the name of a true step by its number, or `step N`; 0 is background."""
        if step == BACKGROUND_ROW:
            return "background"
        return self._names[step - 1] if self._names is not None else f"step {step}"

    @cached_property
    def mof(self) -> float:
        """Share of the frames of true steps that are right after the matching."""
        return 100 * metrics.mof(np.concatenate(self._mapped), np.concatenate(self._true))

    @cached_property
    def mof_all(self) -> float:
        """Share of all frames, including background, that are right after the matching."""
        return 100 * float(np.mean(np.concatenate(self._mapped) == np.concatenate(self._true)))

    @property
    def f1_sampled(self) -> float:
        """F1 of sampled frames, as CTE defines it (`metrics.sampled_f1`), with K predicted segments
        per video."""
        return self._f1_of_shares(metrics.sampled_f1, lambda _: self.clusters)

    @property
    def f1_majority(self) -> float:
        """F1 of segments with a majority of right frames, as ASOT defines it
        (`metrics.majority_f1`), with as many predicted segments per video as true classes."""
        return self._f1_of_shares(metrics.majority_f1, lambda true: len(np.unique(true)))

    def _f1_of_shares(self, f1: Callable[..., float], most: Callable[[Array], int]) -> float:
        shares = list(map(metrics.segment_shares, self._mapped, self._true))
        if self._protocol.per_video:
            return 100 * float(np.mean(list(map(f1, shares, map(most, self._true)))))
        predicted = len(shares) * most(np.concatenate(self._true))
        return 100 * f1(np.concatenate(shares), predicted)

    @property
    def edit(self) -> float:
        """Edit score of the segment sequences, averaged over videos."""
        return float(np.mean([video.edit for video in self.per_video]))

    @cached_property
    def f1_at(self) -> dict[int, float]:
        each = [
            metrics.segment_hits(found, true, [overlap / 100 for overlap in OVERLAPS])
            for found, true in zip(self._mapped, self._true, strict=True)
        ]
        both = sum(found + actual for _, found, actual in each)
        return {
            percent: 200 * sum(hits[i] for hits, _, _ in each) / both if both else 100.0
            for i, percent in enumerate(OVERLAPS)
        }

    @property
    def tau(self) -> float:
        """Kendall's tau between predicted and true order, averaged over videos; -1 to 1."""
        defined = [video.tau for video in self.per_video if not math.isnan(video.tau)]
        return float(np.mean(defined)) if defined else math.nan

    @cached_property
    def per_step(self) -> list[StepScore]:
        """Scores of every true step that occurs, and of background if it is a class."""
        clusters = {s: k for k, s in self.matching.items()} if self.has_one_matching else {}
        # In action segmentation, a step without a cluster in a video scores 0 there.
        without = [NOTHING] if self._protocol.segmentation else []
        scores = []
        for step in self._occurring:
            if step == BACKGROUND_ROW and not self._protocol.background_is_a_class:
                continue
            shown = [each_step(*group) for group in self._groups if group[0][step].any()]
            rates = [one for each in shown for one in ([each[step]] if step in each else without)]
            p, r, f1, iou = (100 * value for value in metrics.mean_rates(rates))
            frames = int(self.confusion[step].sum())
            name, cluster = self.name(step), clusters.get(step)
            scores.append(StepScore(step, name, cluster, p, r, f1, iou, frames))
        return scores

    @cached_property
    def per_video(self) -> list[VideoScore]:
        """Scores of every video under its matching."""
        scores = []
        each = zip(self._counts, self._matching, self._mapped, self._true, strict=True)
        for counts, matching, mapped, true in each:
            rates = find_rates(self._protocol, counts, matching)
            p, r, f1, iou = (100 * value for value in rates)
            mof, edit = 100 * metrics.mof(mapped, true), 100 * metrics.edit(mapped, true)
            # 0 is background and less a cluster without a step; `video_order` ignores -1.
            found, actual = (video_order(np.where(one > 0, one, -1)) for one in (mapped, true))
            scores.append(VideoScore(p, r, f1, iou, mof, edit, metrics.kendall(found, actual)))
        return scores

    @property
    def figures(self) -> dict[str, float]:
        """All figures by their names in tables."""
        sampled = {"F1 sampled": self.f1_sampled, "F1 majority": self.f1_majority}
        more = {"MoF all": self.mof_all, **sampled}
        return {
            "F1": self.f1,
            "IoU": self.iou,
            "precision": self.precision,
            "recall": self.recall,
            "MoF": self.mof,
            **(more if self._protocol.segmentation else {}),
            "edit": self.edit,
            **{f"F1@{percent}": value for percent, value in self.f1_at.items()},
            "tau": self.tau,
            "used": self.used,
        }


def score(
    pred: Sequence[Labels],
    true: Sequence[Labels],
    protocol: str | Protocol = "strict",
    background: str = "count",
    names: Sequence[str] | None = None,
    rate: float = 1.0,
    clusters: int | None = None,
) -> Score:
    """Score predicted labels against true ones.

    Parameters
    ----------
    pred
        An array of numbers per video: clusters from 0, -1 for "no step". Under the protocol
        `named`, cluster k stands for step k + 1.
    true
        An array of numbers per video: steps from 1, 0 for background.
    protocol
        A name in `PROTOCOLS`, or a `Protocol`.
    background
        "count" treats true background as the protocol defines; "drop" ignores these frames.
    names
        `names[s - 1]` is the name of step `s`.
    rate
        Frames per second, for lengths.
    clusters
        K, including empty clusters, which `paper` and `framewise` match too. By default the number
        of true classes; more if `pred` has more.

    Returns
    -------
    Score
        Figures in percent, and the matching.

    Raises
    ------
    OptionError
        If the arrays do not fit each other or contain nothing to score.

    Examples
    --------
    >>> result = score([[0, 0, 1, 1]], [[2, 2, 1, 0]], names=["pour", "stir"])
    >>> result.matching
    {0: 2, 1: 1}
    >>> print(result.explain())
    cluster 0 = stir, 100 % of its frames
    cluster 1 = pour, 50 % of its frames
    """
    chosen = find_protocol(protocol)
    drop = choose("background", background, {"count": False, "drop": True})
    found, actual = _videos(pred, "pred", -1), _videos(true, "true", 0)
    lengths, others = ([len(found), *map(len, found)], [len(actual), *map(len, actual)])
    if lengths != others:
        place = next(i for i, length in enumerate(lengths) if length != others[i])
        what = (
            f"pred has {lengths[0]} videos and true {others[0]}. Use one array per video on both "
            "sides."
            if place == 0
            else f"video {place - 1} has {lengths[place]} predicted and {others[place]} true "
            "labels, but needs one per frame. Sample both at the same times, or pass timelines to "
            "stepcut.evaluate."
        )
        raise OptionError(what, setting="pred", value=lengths[place], allowed=others[place])
    if drop:
        kept = [t != BACKGROUND_ROW for t in actual]
        found = [p[keep] for p, keep in zip(found, kept, strict=True) if keep.any()]
        actual = [t[keep] for t, keep in zip(actual, kept, strict=True) if keep.any()]
    check_number("rate", rate, 0, above=True)
    if clusters is not None:
        check_number("clusters", clusters, 0, whole=True)
    last = max((int(t.max()) for t in actual), default=0)
    if not last:
        what = "true is background only, so there is nothing to score. Number the true steps from 1"
        raise OptionError(f"{what}.", setting="true")
    given = None if names is None else as_items("names", names, str, "the name of each true step")
    if given is not None and len(given) < last:
        what = f"{len(given)} names for true steps up to {last}. Name every step."
        raise OptionError(what, setting="names", value=names)
    return Score(found, actual, chosen, names, rate, clusters)


def _videos(labels: Sequence[Labels], what: str, lowest: int) -> list[Array]:
    wanted = "a list with one array of labels per video"
    try:
        arrays = [np.asarray(video) for video in as_items(what, labels, object, wanted)]
    except ValueError as error:  # rows of different lengths
        raise OptionError(f"{what} is not {wanted} ({error}).", setting=what) from error
    if not arrays:
        raise OptionError(f"{what} contains no video. Use {wanted}.", setting=what)
    for i, array in enumerate(arrays):
        if array.ndim == 1 and len(array) and array.dtype.kind in "iu":
            wrong = array[(array < lowest) | (array > LARGEST)]
            if not len(wrong):
                continue
            content = str(wrong[0])
        else:
            content = f"{array.dtype} of shape {array.shape}"
        nothing = "no step" if lowest < 0 else "background"
        why = (
            f"{what}[{i}] contains {content}, not one integer per frame, from {lowest} ({nothing}) "
            f"to {LARGEST}. Number steps without gaps, convert them with astype(int), and remove "
            "empty videos."
        )
        raise OptionError(why, setting=what, allowed=wanted)
    return [array.astype(np.int64, copy=False) for array in arrays]
