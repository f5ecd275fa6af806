"""The default method: slow feature analysis, a consensus of restarts of EM, forward-backward in every video."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from stepcut.checks import SEEDS, limited
from stepcut.errors import OptionError
from stepcut.methods.arithmetic import Floats, as_vectors
from stepcut.methods.constraints import OPEN, Constraints
from stepcut.methods.inputs import (
    Array,
    Labels,
    StepCount,
    as_step_count,
    check_fitted,
    check_videos,
    fingerprint,
    part,
)
from stepcut.methods.learned import Choice, Curve, LeftOut
from stepcut.methods.method import Method, Online
from stepcut.methods.stepcut import teaching
from stepcut.methods.stepcut.found import Found, found_of_labels, leave_one_out
from stepcut.methods.stepcut.restarts import Search, choose_sigma
from stepcut.methods.stepcut.slow_features import DIRECTIONS, centre, principal_directions, smooth
from stepcut.methods.stepcut.step_count import RESTARTS, choose_count, usual_count
from stepcut.methods.stepcut.taught import Taught
from stepcut.progress import Hook, Stage, silent
from stepcut.timeline import BACKGROUND

LIGHT = 360
"""Principal directions are those of rows smoothed over this part of a video: lightly, whatever a step may last."""


@dataclass(eq=False, repr=False)
class StepCut(Method):
    """Finds the steps that videos share, with or without labels and without training a network.

    steps       how many, "auto", or the fewest and the most: (8, 14)
    rate        rows of features per second
    seed        of the restarts
    seconds     width of the Gaussian over time that smooths features; None is a quarter of what a step lasts when a
                video of median length has `steps` of them, and less where features have little noise, or where steps
                come again and again
    prior       weight of a step's usual time; it is less by itself where steps come at any time; 0 is off
    background  0 gives every frame a step, 1 gives frames that resemble no step much none (-1)
    restarts    from how many starts EM is run
    refine      learn the axes once more from the steps found
    """

    chooses_steps: ClassVar[bool] = True
    learns_from: ClassVar[frozenset[str]] = frozenset({"labels"})

    steps: StepCount = "auto"
    rate: float = limited(1.0, 0, above=True)
    seed: int = limited(0, 0, SEEDS, whole=True)
    seconds: float | None = limited(None, 0, 86_400, above=True)
    prior: float = limited(2.0, 0)
    background: float = limited(0.7, 0, 1)
    restarts: int = limited(48, 1, 10_000, whole=True)
    refine: bool = True

    right_: float | None = field(default=None, init=False)
    """The share of labelled rows that are found right where their video is left out; not kept on disk."""
    choice_: Choice | None = field(default=None, init=False)
    """How the number of steps was chosen, where it was not given."""
    taught_: Taught | None = field(default=None, init=False)
    """What was learned from labels, where a person gave some."""
    curve_: Curve | None = field(default=None, init=False)
    """There is no training, so no loss."""
    start: Found | None = field(default=None, init=False)
    shown: Sequence[Labels] | None = field(default=None, init=False)
    _edges: float | None = field(default=None, init=False)
    """The width of the Gaussian in rows, where it follows from edges of segments; see `Search.find_edges`."""
    _left_out: LeftOut | Callable[[], LeftOut] | None = field(default=None, init=False)

    def start_from(self, other: "StepCut", shown: Sequence[Labels] | None = None) -> None:
        """Teach what another method has found without labels in the same videos, instead of looking for it again; or
        the steps (T,) of every video as they are `shown` by now, numbered as the labels will be: then a step that
        nobody labelled stays where it is."""
        self.start = other.found_ if other.taught_ is None else other.taught_.first
        self.shown = shown

    # ------------------------------------------------------------------ learning

    def fit(
        self,
        features: Sequence[Array],
        constraints: Constraints | None = None,
        progress: Hook = silent,
        checkpoint: Path | None = None,
    ) -> Self:
        """Find the steps of all videos together.

        features     (T, d) or (T, C, h, w) per video
        constraints  None, or for every video None or its labels; the steps found keep the numbers of the labels
        progress     is told how far this is
        checkpoint   not needed: this takes seconds, not hours
        """
        del checkpoint
        self.check_settings(constraints)
        labels = (
            None
            if constraints is None
            else [None if one is None else one.labels for one in constraints]
        )
        rows = [as_vectors(video) for video in check_videos(features, kinds=(2, 4))]
        known = (
            None
            if labels is None
            else teaching.check_labels(labels, [len(video) for video in rows])
        )
        # In an order of their own, so that the order in which they come cannot matter.
        ordered = sorted(rows, key=fingerprint)
        median = float(np.median([len(video) for video in ordered]))
        wide = principal_directions(map(centre, ordered), median / LIGHT, teaching.DIRECTIONS)
        directions = wide[:, :DIRECTIONS]
        short = [centre(video) @ directions for video in ordered]
        count = self._count(short, known, progress)
        self.taught_, self.right_ = None, None
        found, shown = self.start, self.shown if known is not None else None
        if found is not None and shown is not None:
            slow = [smooth(centre(video) @ directions, found.sigma) for video in rows]
            like = replace(found, centres=np.empty((count, 0)))
            found = found_of_labels(slow, shown, like)
            found = replace(found, plane=directions @ found.plane)
        elif (
            found is None
            or known is None
            or found.plane.shape[0] != len(wide)
            or len(found) != count
        ):
            with Stage(progress, "steps", total=self.restarts, unit="restarts") as stage:
                if self.choice_ is None:
                    self._find_edges(short, count)
                found = self._search(short, count).run(short, stage.advance)
            found = replace(found, plane=directions @ found.plane)
        self._keep(found, rows)
        self.labels_ = self.predict(rows) if shown is None else list(shown)
        videos = [centre(video) @ directions for video in rows]
        told, like = None, replace(found, background=self.background)
        if known is not None:
            told = self._teach(rows, known, wide, progress)
            slow = [smooth(video, found.sigma) for video in videos]
            described = found_of_labels(slow, self.labels_, like)
            self._keep(replace(described, plane=directions @ described.plane), rows)
        axes = None if self.refine else directions.T @ found.plane
        self._left_out = partial(leave_one_out, videos, self.labels_, like, axes, self.scale_, told)
        return self

    @property
    def left_out_(self) -> LeftOut | None:
        """What is seen in each video learned from as if it were new: made when first asked for, not kept on disk."""
        if callable(self._left_out):
            self._left_out = self._left_out()
        return self._left_out

    def _count(
        self, short: Sequence[Floats], known: Sequence[Labels] | None, progress: Hook
    ) -> int:
        """The number of steps: given, or that of the labels where a video is labelled whole, or chosen."""
        self.choice_, self._edges = None, None
        labelled = 1 + max((int(given.max()) for given in known or ()), default=-1)
        given = as_step_count(self.steps)
        if isinstance(given, int):
            return max(given, labelled)
        if labelled > 0 and any((given != OPEN).all() for given in known or ()):
            return labelled
        with Stage(progress, "count", unit="numbers") as stage:
            make = partial(self._search, short, restarts=RESTARTS)
            limits = None if given == "auto" else given
            usual = usual_count(short, float(self.rate))
            wanted = round(usual if limits is None else np.clip(usual, *limits))
            if wanted <= sum(
                map(len, short)
            ):  # of fewer rows than steps only smaller numbers are tried
                self._find_edges(short, wanted)
            self.choice_ = choose_count(short, float(self.rate), make, limits, stage.advance)
        return max(self.choice_.count, labelled)

    def _teach(
        self, rows: Sequence[Array], known: Sequence[Labels], directions: Floats, progress: Hook
    ) -> tuple[list[Labels], list[Floats]]:
        """Learn from labels, starting from the steps found without them; what a person said stays.

        Gives the steps and the probabilities of each video as if it were new, but of one that alone is labelled.
        """
        videos = [centre(video) @ directions for video in rows]
        with Stage(progress, "labels", unit="models") as stage:
            rate = float(self.rate)
            learned = teaching.teach(videos, rate, self.labels_, known, self.steps_)
            shares = self.probabilities(rows)
            told = teaching.calibrate(
                videos, rate, self.labels_, shares, known, self.steps_, stage.advance
            )
            doubt, self.right_, left_out = told
        if self.background == 0 and not any((given == BACKGROUND).any() for given in known):
            learned = learned.without_background()
        first = self.found_.renumbered(teaching.match_found(self.labels_, known, self.steps_))
        surest = (
            1.0
            if self.right_ is not None
            else teaching.share_right(self.labels_, known, self.steps_)
        )
        self.taught_ = Taught(
            learned.on_features(directions, doubt), first, teaching.labelled_videos(known), surest
        )
        pairs = zip(known, self.predict(rows), strict=True)
        self.labels_ = [np.where(given == OPEN, cut, given) for given, cut in pairs]
        seen = {
            place: (cut, self.taught_.temper(share)) for place, (cut, share) in left_out.items()
        }
        whole = list(zip(self.labels_, self.probabilities(rows), strict=True))
        cuts, sure = zip(*(seen.get(place, one) for place, one in enumerate(whole)), strict=True)
        return list(cuts), list(sure)

    def _find_edges(self, short: Sequence[Floats], count: int) -> None:
        """Where no width of the Gaussian is given: what follows from edges of segments, if they have any."""
        if self.seconds is None:
            self._edges = self._search(short, count).find_edges(short)

    @property
    def chosen_(self) -> dict[str, Any]:
        """The width of the Gaussian, so that learning again need not look for it."""
        seconds = self.found_.sigma / float(self.rate)
        return {"seconds": seconds} if seconds > 0 else {}

    def _search(self, videos: Sequence[Floats], count: int, restarts: int | None = None) -> Search:
        rows, given = sum(map(len, videos)), self.seconds
        if count > rows:
            raise OptionError(
                f"steps={count} is more than the {rows} rows given; ask for fewer steps."
            )
        sigma = self._edges if given is None else given * float(self.rate)
        sigma = choose_sigma(videos, count, self.background) if sigma is None else sigma
        search = Search(
            count,
            sigma,
            self.seed,
            self.prior,
            self.background,
            restarts or self.restarts,
            self.refine,
        )
        if count > sum(len(video[:: search.stride]) for video in videos):
            raise OptionError(
                f"seconds={given!r} smooths the videos until fewer than {count} rows differ; give less."
            )
        return search

    def _keep(self, found: Found, rows: Sequence[Array]) -> None:
        """The model of the steps, found or made of what was taught, and what is usual in the videos learned from."""
        self.found_, self.steps_ = found, len(found)
        self.mean_ = np.mean(
            [np.asarray(video, dtype=np.float64).mean(axis=0) for video in rows], axis=0
        )
        self.length_ = float(np.median([len(video) for video in rows]))
        nearest = [self.found_.distance(centre(video)) for video in rows]
        self.scale_ = (
            float(np.median(np.concatenate(nearest))) or 1.0
        )  # the distance of a row to its step's centre

    # ------------------------------------------------------------------ using

    def embed(self, features: Sequence[Array]) -> list[NDArray[np.float32]]:
        """Each frame on the slow axes, (T, p) per video, rows of length nearly 1."""
        return [self.found_.view(video).astype(np.float32) for video in self._centred(features)]

    def probabilities(self, features: Sequence[Array]) -> list[Floats]:
        """How much each frame belongs to each step, (T, K) per video."""
        return [self.model.probabilities(video) for video in self._centred(features)]

    def predict(self, features: Sequence[Array]) -> list[Labels]:
        """Find the steps in videos, new ones too: (T,) per video, -1 is background."""
        return [self.model.predict(video) for video in self._centred(features)]

    def novelty(self, features: Sequence[Array]) -> list[Floats]:
        """Distance to the nearest step's centre, in units of what is usual in the videos learned from."""
        return [self.found_.distance(video) / self.scale_ for video in self._centred(features)]

    def online(self) -> Online:
        """Memberships frame by frame, from the past alone."""
        check_fitted(self, "found_")
        return self.model.online(self.mean_, self.length_)

    @property
    def model(self) -> Taught | Found:
        """What cuts videos: what was taught, otherwise what was found."""
        return self.taught_ or self.found_

    def _centred(self, features: Sequence[Array]) -> list[Floats]:
        check_fitted(self, "found_")
        videos = check_videos(features, len(self.mean_), kinds=(2, 4))
        return [centre(as_vectors(video)) for video in videos]

    # ------------------------------------------------------------------ keeping

    NUMBERS = ("spread_", "norm_", "sigma_", "length_", "scale_", "prior_")
    """Stored by name; version 0.1.0 stored them as one array `numbers`, in this order."""

    def settings(self) -> dict[str, Any]:
        """What `__init__` was given."""
        given = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        return {**given, "steps": list(self.steps) if isinstance(self.steps, tuple) else self.steps}

    def state(self) -> dict[str, Array]:
        """Everything learned, as arrays."""
        check_fitted(self, "found_")
        return {
            **self.found_.state(),
            **{name: np.asarray(getattr(self, name)) for name in ("mean_", "length_", "scale_")},
            **(self.choice_.state() if self.choice_ else {}),
            **(self.taught_.state() if self.taught_ else {}),
            **{f"labels.{number:05d}": labels for number, labels in enumerate(self.labels_)},
        }

    @classmethod
    def restore(cls, settings: Mapping[str, Any], state: Mapping[str, Array]) -> Self:
        """The method as it was when `settings` and `state` were taken."""
        method = cls(**settings)
        named = dict(state)
        if "numbers" in state:
            named |= zip(cls.NUMBERS, state["numbers"], strict=True)
        method.found_ = Found.restore(named, method.background)
        method.mean_ = np.asarray(named["mean_"], dtype=np.float64)
        method.length_, method.scale_ = float(named["length_"]), float(named["scale_"])
        method.steps_ = len(method.found_)
        method.choice_ = Choice.restore(method.steps_, state)
        method.taught_ = Taught.restore(state, method.background)
        method.labels_ = [
            labels.astype(np.int64) for _, labels in sorted(part(state, "labels.").items())
        ]
        return method
