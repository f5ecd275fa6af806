"""Restarts: from centred videos to a given number of steps. EM from many starts, a consensus of the best, refined."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from stepcut.checks import SEEDS
from stepcut.methods.arithmetic import Floats, one_hot, squared_distances
from stepcut.methods.baselines.kmeans import find_means
from stepcut.methods.inputs import Labels
from stepcut.methods.stepcut.alignment import align
from stepcut.methods.stepcut.change_points import find_change_points
from stepcut.methods.stepcut.consensus import (
    come_again,
    common_energy,
    consensus,
    first_times,
    majority,
    silhouette,
    time_regularity,
)
from stepcut.methods.stepcut.em import BALANCE, Joined, run_em
from stepcut.methods.stepcut.found import Found
from stepcut.methods.stepcut.slow_features import (
    noise_ratio,
    project,
    refined_axes,
    slow_axes,
    smooth,
)
from stepcut.timeline import runs

PER_STEP = 4
"""A step lasts this many times the standard deviation of the Gaussian that smooths noisy features; less for others."""
SEGMENTS = 1.5
"""Segments per step into which a video is cut for a start."""
TIME = 1.0
"""Weight of the normalised time in a start, against rows of length 1."""
ITERATIONS = 12
"""Iterations of EM from each start; half as many after the consensus."""
LATE = 0.7
"""Up to this `background` the restarts know none: a step that is not yet known is easily taken for background. Beyond,
more and more, and at 1 as much as the end: where most of a video is background, steps are not found in spite of it."""
BUSY = 0.5
"""The part of a video that steps fill where `background` is 1; all of it up to `LATE`."""
PROBES = 6
"""Restarts without any time, before all others, that measure whether steps have a time of their own."""
FREE, FIXED = 0.4, 0.5
"""At this time regularity and below the time prior is off; at this and above it has its full weight."""
REGULAR = 0.87
"""Above this time regularity steps come in one order, and the videos are aligned."""
BEST = 3
"""One in so many restarts takes part in the consensus."""
EDGES = 0.25
"""The number of segments found goes with width^-e, the width that of the Gaussian: e = 0 where segments have edges, 1/2
where features drift (the zero crossings of Brownian motion, smoothed). Below this, halfway, they have edges."""
MORE = 2.0
"""Half the width lets through twice the energy of white noise, and less than that of what drifts; where videos come to
have more than twice as much in common, actions have come to light that were joined before."""
HALVINGS = 3
"""How often the width is halved to see either."""
NARROWEST = 0.75
"""Rows: a narrower Gaussian hardly reaches the next one."""


@dataclass(frozen=True)
class Restarts:
    """What all restarts led to."""

    axes: Floats
    prior: float
    regularity: float
    """How regular the times of steps are that are found without any time; 0 where no time is wanted."""
    slow: list[Floats]
    """Smoothed videos (T, d)."""
    views: list[Floats]
    """The same on the axes, softly normalised (T, p)."""
    labels: list[Labels]
    """Of each restart, the labels of all videos, end to end."""
    silhouettes: Floats
    """Of each restart, how distinct its steps are."""


@dataclass(frozen=True)
class Search:
    """The settings of a search for `count` steps; `sigma`, the width of the Gaussian over time, is in rows."""

    count: int
    sigma: float
    seed: int = 0
    prior: float = 2.0
    background: float = 0.0
    restarts: int = 48
    refine: bool = True
    balance: float = BALANCE

    @property
    def stride(self) -> int:
        """Only every so many rows are learned from: smoothed rows in between say nothing more."""
        return max(1, int(self.sigma / 6))

    @property
    def shortest(self) -> float:
        """Rows (of those learned from) that a step must last to count as present in a video."""
        return max(1.0, 0.4 * self.sigma / self.stride)

    def run(self, videos: Sequence[Floats], advance: Callable[[], None] = lambda: None) -> Found:
        """Find the steps of centred videos (T, d), numbered by when they usually come, or first come where most of them
        come again; `advance` is called after every restart."""
        found = self.combine(self.run_restarts(videos, advance))
        cuts = [found.predict(rows) for rows in videos]
        again = come_again([cuts], self.count, self.shortest * self.stride)
        times = first_times(cuts, self.count) if again else found.times
        return found.renumbered(np.argsort(times, kind="stable"))

    def run_restarts(
        self, videos: Sequence[Floats], advance: Callable[[], None] = lambda: None
    ) -> Restarts:
        """EM from every start, on centred videos (T, d); `advance` is called after each."""
        background = early_background(self.background)
        axes, slow, light, views = self.look(videos)
        joined = Joined.of(views)
        regularity = self.measure_regularity(light, joined) if self.prior > 0 else 0.0
        prior = self.prior * float(np.clip((regularity - FREE) / (FIXED - FREE), 0, 1))
        labels, silhouettes = [], []
        for start in self.starts(light, joined, self.restarts):
            _, share = run_em(
                joined, start, ITERATIONS, prior, background, self.shortest, self.balance
            )
            labels.append(majority(share))
            silhouettes.append(
                silhouette(views, joined.split(labels[-1]), self.count, self.shortest)
            )
            advance()
        return Restarts(axes, prior, regularity, slow, views, labels, np.array(silhouettes))

    def look(
        self, videos: Sequence[Floats]
    ) -> tuple[Floats, list[Floats], list[Floats], list[Floats]]:
        """The slow axes of centred videos (T, d); the videos smoothed; lightly smoothed, on the axes; and smoothed, on
        the axes, softly normalised."""
        axes = slow_axes(videos, self.sigma)
        slow = [smooth(rows, self.sigma)[:: self.stride] for rows in videos]
        light = [(smooth(rows, self.sigma / 4) @ axes)[:: self.stride] for rows in videos]
        return axes, slow, light, project(slow, axes)[1]

    def probe(
        self, light: Sequence[Floats], views: Joined, iterations: int = ITERATIONS
    ) -> list[list[Labels]]:
        """The labels of all videos by each of a few restarts without any time, after some iterations; see `starts`."""
        found = []
        for start in self.starts(light, views, PROBES, time=0.0):
            _, share = run_em(views, start, iterations, 0.0, 0.0, self.shortest, self.balance)
            found.append(views.split(majority(share)))
        return found

    def measure_regularity(self, light: Sequence[Floats], views: Joined) -> float:
        """How regular the times of steps are that are found without any time. Where they are not, the time prior would
        only cut a step that moves into several; where they come in one order, the videos are aligned. What comes again
        and again has no time of its own, whatever the mean of its times."""
        found = self.probe(light, views)
        if come_again(found, self.count, self.shortest):
            return 0.0
        return float(
            np.mean([time_regularity(labels, self.count, self.shortest) for labels in found])
        )

    def find_edges(self, videos: Sequence[Floats]) -> float | None:
        """The width in rows of a Gaussian for centred videos (T, d) in which most steps come again and their segments
        have edges; None where they come once, or what is seen only drifts.

        Actions that come again and again last less than the video has time for each step, and smoothing by that would
        join them. So the width is halved, and segments have edges where that finds hardly more of them; or where all at
        once the videos have more than twice as much in common, which features that drift, or noise, never have. Where
        neither is so, the time that there is for each step is the one measure there is.
        """
        wide, before = self, self.probe_quickly(videos)
        width: float | None = None
        for _ in range(HALVINGS):
            narrow = replace(wide, sigma=wide.sigma / 2)
            if narrow.sigma < NARROWEST:
                break
            found = narrow.probe_quickly(videos)
            narrower = math.hypot(wide.sigma, 1) / math.hypot(
                narrow.sigma, 1
            )  # a row is as wide as it is
            edges = count_segments(found) < narrower**EDGES * count_segments(before)
            emerge = narrow.in_common(videos, found) > MORE * wide.in_common(videos, before)
            if (edges or emerge) and come_again(found, self.count, narrow.shortest):
                # At the width at which actions come to light they are still half blurred.
                width = narrow.sigma if edges else max(narrow.sigma / 2, NARROWEST)
            if edges:
                break
            wide, before = narrow, found
        return width

    def in_common(
        self, videos: Sequence[Floats], segmentations: Sequence[Sequence[Labels]]
    ) -> float:
        """The share of the energy of centred videos (T, d) that is common to a step in several, in the mean over
        `segmentations`, each the labels of the rows of all videos that are learned from."""
        rows = [video[:: self.stride] for video in videos]
        return float(np.mean([common_energy(rows, labels, self.count) for labels in segmentations]))

    def probe_quickly(self, videos: Sequence[Floats]) -> list[list[Labels]]:
        """As `probe`, of centred videos (T, d): how many segments there are is known long before where they are."""
        _, _, light, views = self.look(videos)
        return self.probe(light, Joined.of(views), ITERATIONS // 3)

    def combine(self, restarts: Restarts) -> Found:
        """What the restarts with the most distinct steps agree on, or the alignment of the videos where steps come at
        one time each; from it, refined axes and EM once more."""
        if restarts.regularity > REGULAR:
            votes = one_hot(np.concatenate(align(restarts.views, self.count)), self.count).astype(
                np.float64
            )
        else:
            best = np.argsort(-restarts.silhouettes, kind="stable")[
                : max(1, len(restarts.silhouettes) // BEST)
            ]
            votes = consensus([restarts.labels[i] for i in best], self.count)
        axes = restarts.axes
        if self.refine:
            labels = Joined.of(restarts.slow).split(majority(votes))
            axes = refined_axes(restarts.slow, labels, self.count)
        norm, views = project(restarts.slow, axes)
        prior, background = restarts.prior, self.background
        joined = Joined.of(views)
        steps, _ = run_em(
            joined, votes, ITERATIONS // 2, prior, background, self.shortest, self.balance
        )
        return Found(
            **vars(steps),
            plane=axes,
            norm=norm,
            sigma=self.sigma,
            prior=prior,
            background=background,
        )

    def starts(
        self, light: Sequence[Floats], views: Joined, restarts: int, time: float = TIME
    ) -> list[Floats]:
        """Memberships (N, K) of all rows to start from: k-means with the time appended.

        Two of three cluster the means of segments between change points, where a long step weighs no more than a short
        one; the others cluster all frames. Lightly smoothed videos on the axes, `light`, are cut at change points;
        `time` is the weight of the normalised time.
        """
        bounds, means, clocks = [], [], []
        for rows in light:
            bounds.append(self.change_points(rows))
            for first, last in zip(bounds[-1][:-1], bounds[-1][1:], strict=True):
                means.append(rows[first:last].mean(axis=0))
                clocks.append((first + last) / 2 / len(rows))
        segments = np.column_stack([_unit(np.array(means)), time * np.array(clocks)])
        frames = np.column_stack([_unit(views.rows), time * views.times])
        guesses = []
        for number in range(restarts):
            seed = (self.seed * 1000 + number) % (SEEDS + 1)
            whole = number % 3 == 2 or len(segments) < self.count
            rows = frames if whole else segments
            centres = find_means(rows.astype(np.float32), self.count, seed, 1).astype(np.float64)
            labels = squared_distances(rows, centres).argmin(axis=1)
            if not whole:
                lengths = np.concatenate([np.diff(bound) for bound in bounds])
                labels = np.repeat(labels, lengths)
            guesses.append(one_hot(labels, self.count).astype(np.float64))
        return guesses

    def change_points(self, rows: Floats) -> NDArray[np.int64]:
        """Where one video (T, p) changes; a short video is cut into fewer segments."""
        shortest = max(1, round(self.shortest))
        count = max(1, min(round(SEGMENTS * self.count), len(rows) // shortest))
        longest = max(round(60 * self.shortest), -(-len(rows) // count))
        return find_change_points(rows, count, shortest if count > 1 else 1, longest)


def early_background(background: float) -> float:
    """The `background` that restarts know: 0 up to `LATE`, from there to 1."""
    return max(0.0, (background - LATE) / (1 - LATE))


def choose_sigma(videos: Sequence[Floats], count: int, background: float) -> float:
    """The width in rows of the Gaussian that smooths centred `videos` (T, d): a quarter of what a step lasts, or less.

    sigma = busy L / 4  min(1, sqrt(n / s)),   L = median length / count,   n / s the noise ratio over L / 16.

    Smoothing leaves noise as 1 / sigma and blurs the ends of a step as sigma; their sum is least where sigma goes with
    sqrt(n / s). Where much is background, steps are shorter: `busy` is the part of a video that they fill.
    """
    most = float(np.median([len(rows) for rows in videos])) / (PER_STEP * count)
    busy = 1 - (1 - BUSY) * early_background(background)
    return busy * most * min(1.0, math.sqrt(noise_ratio(videos, most / 4)))


def count_segments(segmentations: Sequence[Sequence[Labels]]) -> float:
    """How many segments all videos have, in the mean over `segmentations`, each the labels of all videos."""
    return float(np.mean([sum(len(runs(cut)) for cut in labels) for labels in segmentations]))


def _unit(rows: Floats) -> Floats:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))
