"""Teaching: labels of some videos, checked and matched with the steps that were found; then EM in which what a person
labelled stays, and all videos without labels together count as one with."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import OptionError
from stepcut.methods.arithmetic import Floats, normalised_times
from stepcut.methods.constraints import OPEN
from stepcut.methods.inputs import Labels
from stepcut.methods.stepcut.consensus import overlap, pair_steps
from stepcut.methods.stepcut.em import ANYTIME, BALANCE, MOST, WIDTH
from stepcut.methods.stepcut.forward_backward import forward_backward, soften
from stepcut.methods.stepcut.slow_features import SHRINK, smooth
from stepcut.methods.stepcut.taught import NEVER, Discriminant, cut_mixture, honest, mix, motion
from stepcut.timeline import BACKGROUND, runs

Estimate = tuple[Floats, Floats, Floats]

DIRECTIONS = 128
"""Principal directions that labels are learned on: twice as many as without, since labels tell noise from signal."""
SCALES = (16.0, 4.0)
"""A step lasts this many times the standard deviations of the Gaussians that smooth features."""
MOTION = 1.0
"""Seconds before and after between which motion is measured."""
ITERATIONS = 10
"""Iterations of EM."""
FOLDS = 5
"""Groups of videos that are left out in turn, some of the labelled and some of the others in each."""
DOUBT = 8.0
"""The doubt of probabilities where one video alone is labelled and none can be left out."""
DOUBTS = tuple(float(2**power) for power in np.arange(0, 4.25, 0.25))
"""Candidates for the same where more are labelled."""
BINS = 50
"""Bins of the normalised time."""


def check_labels(labels: Sequence[Labels | None], lengths: Sequence[int]) -> list[Labels]:
    """Labels (T,) of every video, `OPEN` where nobody said anything; one sentence for what makes no sense."""
    if not hasattr(labels, "__len__") or len(labels) != len(lengths):
        raise OptionError(
            f"labels must be a list of {len(lengths)}, one for each of the videos; None stands for no labels."
        )
    checked = []
    for number, (given, length) in enumerate(zip(labels, lengths, strict=True)):
        known = np.full(length, OPEN, dtype=np.int64) if given is None else np.asarray(given)
        if known.shape != (length,) or known.dtype.kind not in "iu":
            raise OptionError(
                f"the labels of video {number} are {known.dtype} of shape {known.shape}; they must be whole numbers "
                f"({length},), one per row of features: a step from 0, -1 for background, -2 for open."
            )
        if known.size and known.min() < OPEN:
            raise OptionError(
                f"the labels of video {number} hold {known.min()}; allowed are steps from 0, -1 for background and "
                "-2 for open."
            )
        checked.append(known.astype(np.int64))
    if not any((known != OPEN).any() for known in checked):
        raise OptionError(
            "labels were given, but all of them are open (-2); label a video, or leave labels out."
        )
    return checked


def match_found(found: Sequence[Labels], labels: Sequence[Labels], steps: int) -> NDArray[np.int64]:
    """(K,): the found step that stands for each labelled one, paired for the highest mean F1 on labelled frames; the
    others stay what they are where they can."""
    known = np.concatenate(labels)
    inside = known != OPEN
    gain = overlap(known[inside], np.concatenate(found)[inside], steps) + 1e-9 * np.eye(steps)
    return np.asarray(pair_steps(gain)[1], dtype=np.int64)


def number_as_labelled(
    found: Sequence[Labels], labels: Sequence[Labels], steps: int
) -> list[Labels]:
    """The steps found, in the numbers of the labelled ones that they stand for."""
    number = np.append(np.argsort(match_found(found, labels, steps)), BACKGROUND)
    return [number[cut] for cut in found]


def share_right(found: Sequence[Labels], labels: Sequence[Labels], steps: int) -> float:
    """The share of labelled rows that were found right, once the steps found are matched with those labelled."""
    known, cut = np.concatenate(labels), np.concatenate(number_as_labelled(found, labels, steps))
    return float((cut == known)[known != OPEN].mean())


def labelled_videos(labels: Sequence[Labels]) -> float:
    """How many videos are labelled; one that is labelled in part counts in part."""
    return float(sum((known != OPEN).mean() for known in labels))


@dataclass(frozen=True)
class Lesson:
    """What labels say before anything is learned from features."""

    known: list[Labels]
    """Labels (T,) per video; K is background, -2 is open."""
    count: int
    """The number of steps, K."""
    lasts: float
    """Rows that a labelled step lasts."""
    stay: float
    """Probability that a state goes on in the next row."""
    share: Floats
    """(K + 1,): the part of a video that each state usually lasts"""
    trust: float
    """What a row without a label counts: all of them together count as one video."""


def read_lesson(labels: Sequence[Labels], count: int, start: Sequence[Labels]) -> Lesson:
    """Durations and shares from labels (T,) per video, with the pseudo-count of one video of `count` equal steps.

    Where a video is labelled in part, what lies between is taken as `start` has it: who corrects one segment says by
    that how long this one lasts, and not that there are no others.
    """
    known = [np.where(given == BACKGROUND, count, given) for given in labels]
    begun = [np.where(cut == BACKGROUND, count, cut) for cut in start]
    some = [(given, cut) for given, cut in zip(known, begun, strict=True) if (given != OPEN).any()]
    whole = [np.where(given == OPEN, cut, given) for given, cut in some]
    median = float(np.median([len(given) for given in known]))
    states, first, last = np.concatenate([runs(given) for given in whole]).T
    lasts, done = last - first, states < count
    totals = np.full(count + 1, median / (count + 1))
    for given in whole:
        totals += np.bincount(given, minlength=count + 1)
    usual = median / count
    unsaid = sum(int((given == OPEN).sum()) for given in known)
    return Lesson(
        known,
        count,
        lasts=float((lasts[done].sum() + usual) / (done.sum() + 1)),
        stay=float(1 - min(0.5, (len(lasts) + 1) / (lasts.sum() + usual))),
        share=totals / totals.sum(),
        trust=1 / max(1.0, unsaid / median),
    )


def teach(
    videos: Sequence[Floats],
    rate: float,
    found: Sequence[Labels],
    labels: Sequence[Labels],
    count: int,
) -> Discriminant:
    """Learn `count` steps from the labels of some videos and the features of all, (T, p) each and centred.

    found   labels (T,) of every video found without a person; where EM starts
    labels  (T,) of every video, -2 where nobody said anything
    """
    start = number_as_labelled(found, labels, count)
    lesson = read_lesson(labels, count, start)
    sigmas = np.array([lesson.lasts / scale for scale in SCALES])
    stride = max(1, int(sigmas[0] / 2))
    lag = max(1, round(MOTION * rate))
    rows = [_at_scales(video, sigmas, lag)[::stride] for video in videos]
    known = [given[::stride] for given in lesson.known]
    pieces = [
        Piece(x, given, begin[::stride], lesson)
        for x, given, begin in zip(rows, known, start, strict=True)
    ]
    stay = max(0.5, 1 - stride * (1 - lesson.stay))
    temperature = max(1.0, float(sigmas[0]))
    learn = partial(
        estimate,
        pieces,
        np.sum([piece.scatter for piece in pieces], axis=0),
        lesson,
        sigmas[1] / stride,
    )
    for _ in range(ITERATIONS):
        weights, bias, clock = learn()
        for piece in pieces:
            piece.find((weights, bias, clock), temperature, stay, lesson.share)
    weights, bias, clock = learn()
    parts = np.stack(np.split(weights, len(SCALES) + 1))
    return Discriminant(parts, bias, clock, sigmas, float(lag), lesson.stay, temperature, doubt=1.0)


def _at_scales(video: Floats, sigmas: Floats, lag: int) -> Floats:
    """(T, 3 p): a centred video (T, p) smoothed at both scales, and its motion at the finer one."""
    scales = [smooth(video, float(sigma)) for sigma in sigmas]
    return np.column_stack([*scales, motion(scales[0], lag)])


def calibrate(
    videos: Sequence[Floats],
    rate: float,
    found: Sequence[Labels],
    shares: Sequence[Floats],
    labels: Sequence[Labels],
    count: int,
    advance: Callable[[], None] = lambda: None,
) -> tuple[float, float | None, dict[int, tuple[Labels, Floats]]]:
    """The doubt (see `soften`) with which probabilities are as sure as they are right, the share of labelled rows that
    are right where their video is left out (None where one video alone is labelled), and the steps (T,) and probabilities
    (T, K) of each video that was left out, found so.

    Videos are left out in turn, in `FOLDS` groups, a single labelled one never; the doubt is the one that makes
    the labels of those left out likeliest. Those without labels are then left out on their own, with all labels kept:
    so they are cut as new videos are, by what labels teach and by what was found.

    videos, rate, found, labels, count  as for `teach`
    shares   probabilities (T, K) of every video, found without a person
    advance  called after every group
    """
    told = [i for i, given in enumerate(labels) if (given != OPEN).any()]
    rest = [i for i in range(len(labels)) if i not in told]
    pairs = [
        (told[first::FOLDS] if len(told) > 1 else [], rest[first::FOLDS]) for first in range(FOLDS)
    ]
    groups = [some + others for some, others in pairs] + [others for some, others in pairs if some]
    loss = np.zeros(len(DOUBTS))
    hits: list[Labels] = []
    cuts: dict[int, Labels] = {}
    seen: dict[int, tuple[Floats, Floats, float]] = {}
    for group in filter(None, groups):
        others = [i for i in range(len(labels)) if i not in group]
        rows, start, known = (
            [videos[i] for i in others],
            [found[i] for i in others],
            [labels[i] for i in others],
        )
        model = teach(rows, rate, start, known, count)
        order, told_videos = match_found(start, known, count), labelled_videos(known)
        for i in group:
            whole = model.posterior(videos[i])
            seen[i] = whole, shares[i][:, order], told_videos
            cuts[i] = cut_mixture(*seen[i])
            inside = labels[i] != OPEN
            posterior, given = whole[inside], labels[i][inside]
            hits.append(cuts[i][inside] == given)
            for place, doubt in enumerate(DOUBTS):
                right = soften(posterior, doubt)[
                    np.arange(len(posterior)), given
                ]  # -1: the last column
                loss[place] -= np.log(right).sum()
        advance()
    doubt = DOUBT if len(told) < 2 else DOUBTS[int(np.argmin(loss))]
    left_out = {
        i: (cuts[i], mix(honest(whole, doubt), first, n)) for i, (whole, first, n) in seen.items()
    }
    return doubt, None if len(told) < 2 else float(np.concatenate(hits).mean()), left_out


class Piece:
    """One video in learning: its rows, and how likely each state is at each of them."""

    def __init__(self, rows: Floats, known: Labels, start: Labels, lesson: Lesson) -> None:
        states = np.arange(lesson.count + 1)
        self.rows, self.open = rows, known == OPEN
        self.times = normalised_times(len(rows))
        begin = np.where(start < 0, lesson.count, start)
        self.posterior = (np.where(self.open, begin, known)[:, None] == states).astype(np.float64)
        self.given = np.where(self.open[:, None] | (known[:, None] == states), 0.0, NEVER)
        self.trust = np.where(self.open, lesson.trust, 1.0)
        self.scatter = rows.T @ (rows * self.trust[:, None])
        self.kernel = np.exp(
            -((normalised_times(BINS)[:, None] - self.times) ** 2) / (2 * WIDTH**2)
        )
        self.bonus = np.zeros(lesson.count + 1)

    def find(self, model: Estimate, temperature: float, stay: float, share: Floats) -> None:
        """Forward-backward; the bonus makes states last their usual `share`, as in EM without labels."""
        if not self.open.any():
            return
        weights, bias, clock = model
        bins = np.minimum((self.times * BINS).astype(np.int64), BINS - 1)
        seen = (self.rows @ weights + bias) / temperature + clock[bins] + self.bonus + self.given
        self.posterior = forward_backward(seen, stay)
        lasts = self.posterior.mean(axis=0)
        self.bonus += BALANCE * np.log((share + 1e-3) / (lasts + 0.1 * share + 1e-3))
        np.clip(self.bonus, -MOST, MOST, out=self.bonus)


def estimate(pieces: Sequence[Piece], scatter: Floats, lesson: Lesson, shortest: float) -> Estimate:
    """Discriminant weights (p, S), bias (S,) and clock (bins, S) from the posteriors of all videos.

    w_k = C^-1 m_k,  b_k = -m_k' C^-1 m_k / 2,  m_k the mean of state k, every video once, and C the scatter within:

        C  =  sum over rows and states of  p_k (x - m_k)(x - m_k)'  =  X - S' M - M' S + M' diag(n) M

    pieces    the videos
    scatter   X, (p, p): the sum of x x' over all rows, each as far as it is trusted
    lesson    what labels say
    shortest  rows that a state must have in a video to count as one video's worth
    """
    states, dim = lesson.count + 1, len(scatter)
    means, clock, weight = np.zeros((states, dim)), np.zeros((BINS, states)), np.zeros(states)
    sums, mass = np.zeros((states, dim)), np.zeros(states)
    for piece in pieces:
        trusted = piece.posterior * piece.trust[:, None]
        sums += trusted.T @ piece.rows
        mass += trusted.sum(axis=0)
        once = np.empty_like(
            trusted
        )  # what a person said of a video, and what was found in the rest of it, each once
        for part in (~piece.open, piece.open):
            once[part] = trusted[part] / np.maximum(piece.posterior[part].sum(axis=0), shortest)
        means += once.T @ piece.rows
        clock += piece.kernel @ once
        weight += once.sum(axis=0)
    seen = weight > 1e-6
    means /= np.maximum(weight, 1e-9)[:, None]
    cross = sums.T @ means
    within = (scatter - cross - cross.T + (means.T * mass) @ means) / max(float(mass.sum()), 1e-9)
    level = float(np.trace(within)) / dim or 1.0
    weights = np.linalg.solve(within + SHRINK * level * np.eye(dim), means.T).astype(np.float64)
    bias = np.where(seen, -0.5 * (means.T * weights).sum(axis=0), NEVER)
    density = BINS * clock / np.maximum(clock.sum(axis=0), 1e-9)
    return (
        np.asarray(weights),
        np.asarray(bias),
        np.asarray(np.log((1 - ANYTIME) * density + ANYTIME)),
    )
