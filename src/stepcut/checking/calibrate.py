"""Calibrate: learn from the videos at hand what a normal one looks like, and how far it may stray."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real

import numpy as np

from stepcut.checking.evidence import find_signs, measure
from stepcut.checking.expectations import Expectations, set_limits
from stepcut.checking.forecast import Planted
from stepcut.checking.observe import Floats, Observed, observe, some_of
from stepcut.checking.score import BELIEVED, find_limit, learn_scales, promised_rate
from stepcut.checking.simulate import WITHOUT_STEP, Recut, Rows, change
from stepcut.checking.task import learn_task
from stepcut.checking.usual import MOST, learn_usual
from stepcut.errors import OptionError, check_kind
from stepcut.order.orders import Labels

FOLDS = 20
"""With more videos than this, as many groups are left out instead of single videos."""


def check_false_alarms(share: float) -> None:
    """Whether it is a share that may be asked for."""
    check_kind("false_alarms", share, Real, "a share between 0 and 1, say 0.05")
    if not 0 < share < 1:
        raise OptionError(f"false_alarms={share!r} is a share of normal videos; choose between 0 and 1, say 0.05.")


def learn_expectations(
    labels: Sequence[Labels],
    rate: float,
    memberships: Sequence[Floats] | None = None,
    novelty: Sequence[Floats] | None = None,
    false_alarms: float = 0.05,
    embeddings: Sequence[Floats] | None = None,
    left_out: Sequence[Labels] | None = None,
    left_out_memberships: Sequence[Floats] | None = None,
    left_out_looks: Sequence[tuple[Floats, Floats]] | None = None,
    left_out_embed: Callable[[int, int, Rows | None], Floats] | None = None,
    recut: Recut | None = None,
    videos: Sequence[str] = (),
) -> Expectations:
    """Learn what is usual in the videos, and how far a normal video may stray from it.

    labels        the step of each row of each video, (T,), -1 for none
    rate          rows per second
    memberships   (T, K) per video
    novelty       (T,) per video, as if each were new
    false_alarms  the share of normal videos that may be called wrong; with n videos at least 1 / (n + 1)
    embeddings    (T, p) per video; without them another task is not told
    left_out      the labels again, as if each video were new: a new one is cut a little worse than those learned from,
                  and it is judged as these are, by the `labels` of the others
    left_out_memberships   and the memberships, likewise: how clearly steps show is told by these
    left_out_looks         and the embedding (T, p) with the centres of the steps (K, p), likewise: how far a video of
                           this task may be from its steps
    left_out_embed         and the embedding (T, p) of another video, or of some rows of it, by what was learned
                           without the first: what looks alike in a space that was made for it is no measure of new ones
    recut         cuts some rows of a video as a new one, to tell what will be found; without it they keep their labels
    videos        the name of each video; without them none can be said to hold a mistake
    """
    check_false_alarms(false_alarms)
    if not len(labels):
        raise OptionError("labels is empty; expectations are learned from the labels of the training videos.")
    nothing: list[None] = [None] * len(labels)
    shares = memberships or nothing
    parts = ([rate] * len(labels), novelty or nothing, embeddings or nothing)
    cuts = left_out or labels
    learned, shown = (
        [observe(cut, per, share, *rest) for cut, share, per, *rest in zip(given, seen, *parts, strict=True)]
        for given, seen in ((labels, shares), (cuts, left_out_memberships or shares))
    )
    learned = [one._replace(peaks=new.peaks, clarity=new.clarity) for one, new in zip(learned, shown, strict=True)]
    usual = learn_usual(learned)
    folds = range(min(FOLDS, len(shown))) if len(shown) > 1 else range(0)  # nothing can be left out of one

    def embedded(fold: int, place: int, video: Observed, kept: Rows | None = None) -> Observed:
        """The same video, outlined as it looks to what was learned without the videos of this fold."""
        if left_out_embed is None or video.outline is None:
            return video
        return video._replace(outline=video.outline.seen_as(left_out_embed(fold, place, kept)))

    others = []
    for fold in folds:
        places = [place for place in range(len(learned)) if place % FOLDS != fold]
        laid = set(some_of(places, MOST))  # beside which a video is laid
        part = [learned[place]._replace(outline=None) for place in places if place not in laid]
        part += [embedded(fold, place, learned[place]) for place in sorted(laid)]
        others.append(learn_usual(part, order=False))

    def judged(place: int, video: Observed, kept: Rows | None = None) -> dict[str, float]:
        """How far a video, or some rows of it, strays by what the others say."""
        fold = place % FOLDS
        known, seen = (others[fold], embedded(fold, place, video, kept)) if others else (usual, video)
        return measure(seen, find_signs(seen, known), known)

    measured = [judged(place, video) for place, video in enumerate(shown)]
    strayed = {way: tuple(amounts[way] for amounts in measured) for way in BELIEVED}
    if not others:
        scales, limit = learn_scales(strayed), find_limit([], false_alarms)
        return Expectations(usual, scales, {}, limit, false_alarms, promised_rate(0, false_alarms), 0.0)

    def look(place: int, kept: Rows) -> Observed:
        """What the video of these rows shows, as a new one."""
        parts = (np.asarray(cuts[place])[kept], None, None, None) if recut is None else recut(place, kept)
        return observe(parts[0], rate, *parts[1:])

    shortened: list[list[Observed]] = []
    changed: dict[str, list[tuple[int, dict[str, float]]]] = {}
    for place, cut in enumerate(cuts):
        for kind, every in change(cut, usual.graph).items():
            made = [look(place, kept) for kept in every]
            pairs = zip(made, every, strict=True)
            changed.setdefault(kind, []).extend((place, judged(place, video, kept)) for video, kept in pairs)
            if kind == WITHOUT_STEP:
                shortened.append(made)
    planted = {kind: Planted.gather(each) for kind, each in changed.items()}
    return Expectations(
        usual=usual,
        false_alarms=false_alarms,
        task=learn_task(learned, left_out_looks, shortened),
        videos=tuple(videos),
        **set_limits(strayed, planted, false_alarms),
    )
