"""The default method: slow feature analysis, a consensus of restarts of EM, forward-backward in every video."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import NotLearned, OptionError
from stepcut.methods.arithmetic import as_vectors, squared_distances
from stepcut.methods.contract import BACKGROUND, OPEN, Array, Choice, Curve, Labels, Online, StepCount, as_step_count
from stepcut.methods.default import teaching
from stepcut.methods.default.em import Steps, log_likelihood
from stepcut.methods.default.forward_backward import STAY, forward_backward
from stepcut.methods.default.labels import check_labels
from stepcut.methods.default.leave_one_out import leave_one_out
from stepcut.methods.default.online import Causal, Model
from stepcut.methods.default.restarts import Search, Solution, choose_sigma, solution_of
from stepcut.methods.default.slow_features import DIRECTIONS, centre, principal_directions, smooth, soft_normalise
from stepcut.methods.default.step_count import RESTARTS, choose_count
from stepcut.methods.default.taught import Taught
from stepcut.methods.segmenter import check_number, check_videos, fingerprint, normalised_times
from stepcut.progress import Hook, Stage, silent

Floats = NDArray[np.float64]

LIGHT = 360
"""Principal directions are those of rows smoothed over this part of a video: lightly, whatever a step may last."""
SOFTEN = 8.0
"""Neighbouring smoothed rows say almost the same, so memberships count the log-likelihood of each this much less."""
TAUGHT = 4
"""With labels, one in so many restarts is enough."""


class StepCut:
    """Finds the steps that videos share, with or without labels and without training a network.

    steps       how many, "auto", or the fewest and the most: (8, 14)
    rate        rows of features per second
    seed        of the restarts
    seconds     width of the Gaussian over time that smooths features; None is a quarter of what a step lasts when a
                video of median length has `steps` of them, and less where features have little noise
    prior       weight of a step's usual time; it is less by itself where steps come at any time; 0 is off
    background  0 gives every frame a step, 1 gives frames that resemble no step much none (-1)
    restarts    from how many starts EM is run
    refine      learn the axes once more from the steps found
    """

    labels_: list[Labels]
    steps_: int
    centres_: Floats
    times_: Floats
    scale_: float
    novelty_: list[Floats] | None = None
    """Leave-one-out novelty of the videos learned from; not kept on disk."""
    left_out_labels_: list[Labels] | None = None
    """The steps of each video learned from as if it were new; not kept on disk."""
    right_: float | None = None
    """The share of labelled rows that are found right where their video is left out; not kept on disk."""
    choice_: Choice | None = None
    """How the number of steps was chosen, where it was not given."""
    taught_: Taught | None = None
    """What was learned from labels, where a person gave some."""
    curve_: Curve | None = None
    """There is no training, so no loss."""

    def __init__(
        self,
        steps: StepCount = "auto",
        rate: float = 1.0,
        seed: int = 0,
        seconds: float | None = None,
        prior: float = 2.0,
        background: float = 0.7,
        restarts: int = 48,
        refine: bool = True,
    ) -> None:
        self.steps, self.rate, self.seed = steps, rate, seed
        self.seconds, self.prior, self.background = seconds, prior, background
        self.restarts, self.refine = restarts, refine

    # ------------------------------------------------------------------ learning

    def fit(
        self,
        features: Sequence[Array],
        progress: Hook = silent,
        checkpoint: Path | None = None,
        labels: Sequence[Labels | None] | None = None,
    ) -> Self:
        """Find the steps of all videos together.

        features    (T, d) or (T, C, h, w) per video
        progress    is told how far this is
        checkpoint  not needed: this takes seconds, not hours
        labels      None, or for every video None or (T,) with the step, -1 for background, -2 where nobody said
                    anything; the steps found keep the numbers of the labels
        """
        del checkpoint
        self._check_settings()
        rows = check_videos([as_vectors(video) for video in features])
        known = None if labels is None else check_labels(labels, [len(video) for video in rows])
        # In an order of their own, so that the order in which they come cannot matter.
        centred = [centre(video) for video in sorted(rows, key=fingerprint)]
        median = float(np.median([len(video) for video in centred]))
        wide = principal_directions(centred, median / LIGHT, teaching.DIRECTIONS)
        directions = wide[:, :DIRECTIONS]
        short = [video @ directions for video in centred]
        count = self._count(short, known, progress)
        if count > sum(map(len, rows)):
            raise OptionError(f"steps={count} is more than the {sum(map(len, rows))} rows given; ask for fewer steps.")
        restarts = self.restarts if known is None else max(1, self.restarts // TAUGHT)
        search = self._search(short, count, restarts)
        with Stage(progress, "steps", total=restarts, unit="restarts") as stage:
            found = search.run(short, stage.advance)
        self.taught_, self.right_ = None, None
        self._keep(found, directions, search.sigma, rows)
        self.labels_ = self.predict(features)
        slow = [smooth(centre(video) @ directions, search.sigma) for video in rows]
        if known is not None:
            self._teach(rows, known, wide, progress)
            self._keep(solution_of(slow, self.labels_, count, found.prior), directions, search.sigma, rows, sort=False)
        axes = None if self.refine else found.axes
        left_out = leave_one_out(slow, self.labels_, axes, count, self.prior_, self.background)
        self.novelty_ = [distance / self.scale_ for distance, _ in left_out]
        self.left_out_labels_ = None if known is not None else [cut for _, cut in left_out]
        return self

    def _count(self, short: Sequence[Floats], known: Sequence[Labels] | None, progress: Hook) -> int:
        """The number of steps: given, or that of the labels where a video is labelled whole, or chosen."""
        self.choice_ = None
        labelled = 1 + max((int(given.max()) for given in known or ()), default=-1)
        given = as_step_count(self.steps)
        if isinstance(given, int):
            return max(given, labelled)
        if labelled > 0 and any((given != OPEN).all() for given in known or ()):
            return labelled
        with Stage(progress, "count", unit="numbers") as stage:
            make = partial(self._search, short, restarts=RESTARTS)
            limits = None if given == "auto" else given
            self.choice_ = choose_count(short, float(self.rate), make, limits, stage.advance)
        return max(self.choice_.count, labelled)

    def _teach(self, rows: Sequence[Array], known: Sequence[Labels], directions: Floats, progress: Hook) -> None:
        """Learn from labels, starting from the steps found without them; what a person said stays."""
        videos = [centre(video) @ directions for video in rows]
        with Stage(progress, "labels", unit="models") as stage:
            rate = float(self.rate)
            learned = teaching.teach(videos, rate, self.labels_, known, self.steps_)
            doubt, self.right_ = teaching.calibrate(videos, rate, self.labels_, known, self.steps_, stage.advance)
        self.taught_ = learned.on_features(directions, doubt)
        if self.background == 0 and not any((given == BACKGROUND).any() for given in known):
            self.taught_ = self.taught_.without_background()
        pairs = zip(known, self.predict(rows), strict=True)
        self.labels_ = [np.where(given == OPEN, cut, given) for given, cut in pairs]

    def _search(self, videos: Sequence[Floats], count: int, restarts: int | None = None) -> Search:
        given = self.seconds
        sigma = choose_sigma(videos, count, self.background) if given is None else given * float(self.rate)
        return Search(count, sigma, self.seed, self.prior, self.background, restarts or self.restarts, self.refine)

    def _keep(
        self, found: Solution, directions: Floats, sigma: float, rows: Sequence[Array], sort: bool = True
    ) -> None:
        """What was learned; `sort` numbers the steps by when they usually come."""
        order = np.argsort(found.steps.times, kind="stable") if sort else np.arange(len(found.steps))
        self.plane_ = directions @ found.axes
        self.steps_ = len(order)
        self.centres_, self.times_ = found.steps.centres[order], found.steps.times[order]
        self.spread_, self.norm_, self.sigma_ = found.steps.spread, found.norm, sigma
        self.prior_ = found.prior
        self.mean_ = np.mean([np.asarray(video, dtype=np.float64).mean(axis=0) for video in rows], axis=0)
        self.length_ = float(np.median([len(video) for video in rows]))
        nearest = [self._distance(view) for view in self._views(rows)]
        self.scale_ = float(np.median(np.concatenate(nearest))) or 1.0

    # ------------------------------------------------------------------ using

    def embed(self, features: Sequence[Array]) -> list[NDArray[np.float32]]:
        """Each frame on the slow axes, (T, p) per video, rows of length nearly 1."""
        return [view.astype(np.float32) for view in self._views(features)]

    def memberships(self, features: Sequence[Array]) -> list[Floats]:
        """How much each frame belongs to each step, (T, K) per video."""
        if self.taught_ is not None:
            return [self.taught_.memberships(video) for video in self._centred(features)]
        return [
            self._without_background(forward_backward(self._log_likelihood(view) / SOFTEN))
            for view in self._views(features)
        ]

    def predict(self, features: Sequence[Array]) -> list[Labels]:
        """Find the steps in videos, new ones too: (T,) per video, -1 is background."""
        if self.taught_ is not None:
            return [self.taught_.predict(video) for video in self._centred(features)]
        cuts = [forward_backward(self._log_likelihood(view)).argmax(axis=1) for view in self._views(features)]
        return [np.where(cut == self.steps_, -1, cut).astype(np.int64) for cut in cuts]

    def novelty(self, features: Sequence[Array]) -> list[Floats]:
        """Distance to the nearest step's centre, in units of what is usual in the videos learned from."""
        return [self._distance(view) / self.scale_ for view in self._views(features)]

    def online(self) -> Online:
        """Memberships frame by frame, from the past alone."""
        self._check_learned()
        if self.taught_ is not None:
            return Causal(self.taught_.online(self.mean_, self.length_))
        return Causal(
            Model(
                self.mean_,
                self.length_,
                self.steps_,
                np.array([self.sigma_]),
                lag=0,
                stay=STAY,
                evidence=lambda rows, when: self._log_likelihood(self._on_axes(rows), when)[0] / SOFTEN,
                memberships=self._without_background,
            )
        )

    def _views(self, features: Sequence[Array]) -> list[Floats]:
        """z = smooth(x - mean) on the axes, softly normalised."""
        return [self._on_axes(video, self.sigma_) for video in self._centred(features)]

    def _on_axes(self, rows: Floats, sigma: float = 0.0) -> Floats:
        return soft_normalise(smooth(rows @ self.plane_, sigma), self.norm_)

    def _centred(self, features: Sequence[Array]) -> list[Floats]:
        self._check_learned()
        return [centre(video) for video in check_videos([as_vectors(video) for video in features], len(self.plane_))]

    def _log_likelihood(self, view: Floats, times: Floats | None = None) -> Floats:
        steps = Steps(self.centres_, self.times_, self.spread_)
        when = normalised_times(len(view)) if times is None else times
        return log_likelihood(view, when, steps, self.prior_, self.background)

    def _without_background(self, posterior: Floats) -> Floats:
        """Posterior without the column of background, rows sum to 1."""
        steps = posterior[:, : self.steps_] + 1e-12
        return np.asarray(steps / steps.sum(axis=1, keepdims=True))

    def _distance(self, view: Floats) -> Floats:
        return np.asarray(np.sqrt(squared_distances(view, self.centres_).min(axis=1)))

    # ------------------------------------------------------------------ keeping

    LEARNED = ("plane_", "centres_", "times_", "mean_")
    NUMBERS = ("spread_", "norm_", "sigma_", "length_", "scale_", "prior_")
    """Stored by name; version 0.1.0 stored them as one array `numbers`, in this order."""

    def settings(self) -> dict[str, Any]:
        """What `__init__` was given."""
        names = ("rate", "seed", "seconds", "prior", "background", "restarts", "refine")
        steps = list(self.steps) if isinstance(self.steps, tuple) else self.steps
        return {"steps": steps, **{name: getattr(self, name) for name in names}}

    def state(self) -> dict[str, Array]:
        """Everything learned, as arrays."""
        self._check_learned()
        return {
            **{name: np.asarray(getattr(self, name)) for name in (*self.LEARNED, *self.NUMBERS)},
            **(self.choice_.state() if self.choice_ else {}),
            **(self.taught_.state() if self.taught_ else {}),
            **{f"labels.{number:05d}": labels for number, labels in enumerate(self.labels_)},
        }

    @classmethod
    def restore(cls, settings: Mapping[str, Any], state: Mapping[str, Array]) -> Self:
        """The method as it was when `settings` and `state` were taken."""
        method = cls(**settings)
        for name in cls.LEARNED:
            setattr(method, name, np.asarray(state[name], dtype=np.float64))
        numbers = dict(zip(cls.NUMBERS, state["numbers"], strict=True)) if "numbers" in state else state
        for name in cls.NUMBERS:
            setattr(method, name, float(numbers[name]))
        method.steps_ = len(method.centres_)
        method.choice_ = Choice.restore(method.steps_, state)
        method.taught_ = Taught.restore(state)
        names = sorted(name for name in state if name.startswith("labels."))
        method.labels_ = [state[name].astype(np.int64) for name in names]
        return method

    def _check_settings(self) -> None:
        as_step_count(self.steps)
        check_number("rate", self.rate, 0, above=True)
        check_number("seed", self.seed, 0, whole=True)
        if self.seconds is not None:
            check_number("seconds", self.seconds, 0, above=True)
        check_number("prior", self.prior, 0)
        check_number("background", self.background, 0, 1)
        check_number("restarts", self.restarts, 1, whole=True)

    def _check_learned(self) -> None:
        if not hasattr(self, "plane_"):
            raise NotLearned("this method has not been fitted; call fit(features) first.")
