"""The default method: one hidden Markov model of all videos, with or without annotations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from stepcut.errors import wrong
from stepcut.methods.arithmetic import Computed, Floats, as_vectors, strongest_directions
from stepcut.methods.constraints import OPEN, Constraints, check_constraints, named_steps
from stepcut.methods.inputs import (
    Array,
    Labels,
    StepCount,
    as_step_count,
    check_fitted,
    check_videos,
    fingerprint,
)
from stepcut.methods.method import LeftOut, Method, Online, Reading, named_labels, saved_labels
from stepcut.methods.stepcut.chain import build_chain, soften
from stepcut.methods.stepcut.learning import Learned, learn_model, precision, spread
from stepcut.methods.stepcut.model import Appearance, Causal, Model, learn_appearance, most_likely
from stepcut.methods.stepcut.restarts import choose_count, choose_width, discover
from stepcut.methods.stepcut.slow_features import PER_STEP, centre, smooth
from stepcut.progress import Hook, Stage, silent
from stepcut.settings import setting

# principal directions of the model, and, of them, those on which steps are discovered
DIRECTIONS, FEWER = 128, 64
LIGHT = 360  # principal directions are those of rows smoothed by the length of a video over this
FOLDS = 20  # groups of videos that are held out in turn; with fewer videos, each alone
# candidates for the measured temperature
TEMPERATURES = tuple(float(2**power) for power in np.arange(0, 4.25, 0.25))


@dataclass(eq=False, repr=False)
class StepCut(Method):
    """Find the steps that videos share, with or without annotations: clicks, transcripts or labels.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> looks = 3 * rng.normal(size=(2, 4))
    >>> videos = [looks[np.repeat([0, 1], 10)] + rng.normal(size=(20, 4)) for _ in range(3)]
    >>> len(StepCut(steps=2).fit(videos).labels_)
    3
    """

    chooses_steps: ClassVar[bool] = True
    learns_from: ClassVar[frozenset[str]] = frozenset({"labels", "clicks", "transcript"})

    steps: StepCount = setting("auto", 'How many, "auto", or the fewest and the most: (8, 14).')
    seconds: float | None = setting(
        None,
        "Width of the Gaussian that smooths features while steps are discovered; None derives it.",
        0,
        86_400,
        above=True,
    )
    prior: float = setting(
        1.0, "Weight of when steps usually come; 0 for tasks whose steps come in any order.", 0, 100
    )
    background: float | None = setting(
        None, "Expected share of time that belongs to no step; None learns it.", 0, 0.95
    )
    restarts: int = setting(24, "From how many starts steps are discovered.", 1, 10_000)

    # of the Gaussian with which steps were discovered, in rows
    width_: float = field(default=0.0, init=False)
    _start: "StepCut | None" = field(default=None, init=False)
    _shown: Sequence[Labels] | None = field(default=None, init=False)
    _left_out: LeftOut | Callable[[], LeftOut] | None = field(default=None, init=False)

    def start_from(self, other: "StepCut", shown: Sequence[Labels] | None = None) -> None:
        """Start from what another method has discovered in the same videos.

        `shown` are the steps (T,) that a person sees now, in the numbers of the annotations: a
        step without annotations stays where it is.
        """
        self._start, self._shown = other, shown

    # ---------- learning

    def fit(
        self,
        features: Sequence[Array],
        constraints: Constraints | None = None,
        progress: Hook = silent,
        checkpoint: Path | None = None,
    ) -> Self:
        """See `Method.fit`. Annotated steps keep their numbers."""
        del checkpoint  # this takes seconds, not hours
        self.check_settings(constraints)
        rows = [as_vectors(video) for video in check_videos(features)]
        lengths = [len(video) for video in rows]
        annotations = check_constraints(constraints or [None] * len(rows), lengths)
        # Sorted by content, so that the order of the input does not matter.
        self._order = sorted(range(len(rows)), key=lambda place: fingerprint(rows[place]))
        centred = Computed(centre, [rows[place] for place in self._order])
        ordered = [annotations[place] for place in self._order]
        light = partial(smooth, sigma=float(np.median(lengths)) / LIGHT)
        directions, _ = strongest_directions(Computed(light, centred), DIRECTIONS)
        kind = precision(centred)
        videos = [(rows @ directions).astype(kind, copy=False) for rows in centred]
        self.steps_ = self._count(lengths, ordered)
        discovered = self._discover(videos, progress)
        start, numbered = discovered, False
        if self._shown is not None and any(ordered):
            start, numbered = [self._shown[place] for place in self._order], True
        with Stage(progress, "model", unit="models") as stage:
            learned = self._learn(videos, start, ordered, numbered)
            stage.advance()
            self._keep(learned, directions, videos, centred, ordered)
            self._calibrate(learned, videos, ordered)
            stage.advance()
        back = np.argsort(self._order)
        self.labels_ = [self.labels_[place] for place in back]
        self.discovered_ = [discovered[place] for place in back]
        self.mean_ = np.mean(
            [np.asarray(video, dtype=np.float64).mean(axis=0) for video in rows], axis=0
        )
        self.length_ = float(np.median(lengths))
        return self

    def _count(self, lengths: Sequence[int], constraints: Constraints) -> int:
        """The setting, that of the annotations if a whole video has them, or the usual one."""
        self.why_steps_ = ""
        annotated = 1 + max((max(named_steps(one), default=-1) for one in constraints), default=-1)
        wanted = as_step_count(self.steps)
        if isinstance(wanted, int):
            if max(wanted, annotated) > sum(lengths):
                why = f"is more than the {sum(lengths)} rows of all videos; ask for fewer steps."
                raise wrong("steps", wanted, why, sum(lengths))
            return max(wanted, annotated)
        if annotated > 0 and any(one is not None and one.is_whole for one in constraints):
            return annotated
        limits = None if wanted == "auto" else wanted
        count, self.why_steps_ = choose_count(lengths, float(self.rate), limits)
        return max(count, annotated)

    def _discover(self, videos: Sequence[Floats], progress: Hook) -> list[Labels]:
        """The steps (T,) of every video: those of `start_from` where they fit, or new ones."""
        before = self._start
        if before is not None and before.steps_ <= self.steps_:
            earlier = [before.discovered_[place] for place in self._order]
            if [len(labels) for labels in earlier] == [len(rows) for rows in videos]:
                self.width_ = before.width_
                return earlier
        places = spread(videos)
        some = [videos[place][:, :FEWER] for place in places]
        if self.seconds is None:
            self.width_ = choose_width(some, self.steps_)
        else:
            self.width_ = self.seconds * float(self.rate)
            longest = max(map(len, videos))
            if self.width_ > longest:
                most = f"{longest / float(self.rate):g} s; give less, or leave it out."
                why = f"smooths over more than the longest video, which has {most}"
                raise wrong("seconds", self.seconds, why)
        given = (self.width_, self.seed, self.restarts, self.prior)
        with Stage(progress, "steps", total=self.restarts, unit="restarts") as stage:
            found, self.agreement_ = discover(some, self.steps_, *given, stage.advance)
        if len(some) == len(videos):
            return found
        # The others join, by a model of those that took part.
        learned = self._learn([videos[place] for place in places], found, [None] * len(places))
        model = learned.model(np.eye(videos[0].shape[1]))
        discovered = dict(zip(places, found, strict=True))
        return [
            discovered[place] if place in discovered else most_likely(model.posterior(rows))
            for place, rows in enumerate(videos)
        ]

    def _learn(
        self,
        videos: Sequence[Floats],
        start: Sequence[Labels],
        constraints: Constraints,
        numbered: bool = False,
    ) -> Learned:
        lasts = max(1.0, PER_STEP * self.width_)
        given = (self.steps_, constraints, lasts, self.background, self.prior, numbered)
        return learn_model(videos, float(self.rate), start, *given)

    def _keep(
        self,
        learned: Learned,
        directions: Floats,
        videos: Sequence[Floats],
        centred: Sequence[Floats],
        constraints: Constraints,
    ) -> None:
        """The model, the labels that it gives, and what the steps look like."""
        self.model_ = learned.model(directions)
        self.labels_ = []
        for rows, one in zip(centred, constraints, strict=True):
            chain = build_chain(one, len(rows), self.steps_ + 1)
            self.labels_.append(most_likely(self.model_.posterior(rows, chain)))
        plane, sigma, kind = directions[:, :FEWER], float(learned.sigmas[1]), precision(centred)
        slow = [smooth(rows[:, :FEWER], sigma).astype(kind, copy=False) for rows in videos]
        self.appearance_ = learn_appearance(slow, self.labels_, self.steps_, plane, sigma)
        look = replace(self.appearance_, axes=plane.T @ self.appearance_.axes)
        nearest = [look.distance(look.on_axes(rows @ look.axes)) for rows in slow]
        self.scale_ = float(np.median(np.concatenate(nearest))) or 1.0
        self.dimension_ = len(directions)

    def _calibrate(
        self, learned: Learned, videos: Sequence[Floats], constraints: Constraints
    ) -> None:
        """Measure the temperature on annotated videos, each held out."""
        known = [(place, one) for place, one in enumerate(constraints) if one is not None]
        see = cache(partial(_see_as_new, learned, videos, bool(known)))
        if len(known) > 1:
            posteriors, _ = see()
            pairs = [(one.as_labels(len(videos[p])), posteriors[p]) for p, one in known]
            fixed = [(a[a != OPEN], seen[a != OPEN]) for a, seen in pairs if a is not None]
            if any(len(labels) for labels, _ in fixed):
                true, seen = (np.concatenate(side) for side in zip(*fixed, strict=True))
                at = np.arange(len(true))
                losses = [
                    -float(np.log(soften(seen, heat)[at, true] + 1e-12).sum())
                    for heat in TEMPERATURES
                ]
                self.model_ = replace(self.model_, temperature=TEMPERATURES[int(np.argmin(losses))])
        self._left_out = partial(self._leave_out, see, learned, videos)

    def _leave_out(
        self,
        see: Callable[[], tuple[list[Floats], list[int]]],
        learned: Learned,
        videos: Sequence[Floats],
    ) -> LeftOut:
        """Every video learned from, seen as if it were new; in the order of `fit`."""
        posteriors, groups = see()
        flat, sigma = [rows[:, :FEWER] for rows in videos], float(learned.sigmas[1])
        plane = np.eye(flat[0].shape[1])
        some = spread(videos)
        slow = {p: smooth(flat[p], sigma) for p in some}
        looks = []
        for group in range(max(groups) + 1):
            others = [p for p in some if groups[p] != group] or some[:1]
            labels = [self.labels_[self._order[p]] for p in others]
            looks.append(
                learn_appearance([slow[p] for p in others], labels, self.steps_, plane, sigma)
            )
        turn = np.argsort(self._order).tolist()

        def view(look: Appearance, p: int) -> Floats:
            # Smoothing is linear, so it may come before the axes.
            known = slow.get(p)
            return look.view(flat[p]) if known is None else look.on_axes(known @ look.axes)

        def embed(without: int, place: int, kept: Labels | None) -> Floats:
            look, p = looks[without], turn[place]
            return view(look, p) if kept is None else look.view(centre(flat[p][kept]))

        def novelty(p: int) -> Floats:
            look = looks[groups[p]]
            return look.distance(view(look, p)) / self.scale_

        return LeftOut(
            [most_likely(posteriors[p]) for p in turn],
            [self.model_.probabilities(posteriors[p]) for p in turn],
            [novelty(p) for p in turn],
            Computed(lambda p: (view(looks[groups[p]], p), looks[groups[p]].shown), turn),
            embed,
            [groups[p] for p in turn],
        )

    # ---------- reading

    def read(self, features: Array) -> Reading:
        """Read its steps, the softened posterior, and the distance to the nearest step."""
        check_fitted(self, "model_")
        [video] = check_videos([features], len(self.mean_))
        rows = centre(as_vectors(video))
        posterior, view = self.model_.posterior(rows), self.appearance_.view(rows)
        return Reading(
            most_likely(posterior),
            self.model_.probabilities(posterior),
            self.appearance_.distance(view) / self.scale_,
            view.astype(np.float32),
        )

    def online(self) -> Online:
        check_fitted(self, "model_")
        return Causal(self.model_, self.mean_, self.length_)

    @property
    def left_out_(self) -> LeftOut | None:
        # Made when first asked for, not kept on disk
        if callable(self._left_out):
            self._left_out = self._left_out()
        return self._left_out

    # ---------- keeping

    def state(self) -> dict[str, Array]:
        check_fitted(self, "model_")
        numbers = ("mean_", "length_", "scale_", "width_")
        return {
            **self.model_.state(),
            **self.appearance_.state(),
            **{name: np.asarray(getattr(self, name)) for name in numbers},
            "why_steps": np.frombuffer(self.why_steps_.encode(), dtype=np.uint8),
            **named_labels("labels.", self.labels_),
            **named_labels("discovered.", self.discovered_),
        }

    @classmethod
    def restore(cls, settings: Mapping[str, Any], state: Mapping[str, Array]) -> Self:
        method = cls(**settings)
        method.steps = as_step_count(method.steps)
        method.labels_ = saved_labels(state, "labels.")
        method.discovered_ = saved_labels(state, "discovered.")
        method.model_, method.appearance_ = Model.restore(state), Appearance.restore(state)
        method.mean_ = np.asarray(state["mean_"], dtype=np.float64)
        for name in ("length_", "scale_", "width_"):
            setattr(method, name, float(state[name]))
        method.steps_, method.dimension_ = len(method.model_), len(method.mean_)
        why = state.get("why_steps", state.get("choice.reason"))  # the second of version 0.3.0
        method.why_steps_ = "" if why is None else np.asarray(why).tobytes().decode()
        return method


def _see_as_new(
    learned: Learned, videos: Sequence[Floats], annotated: bool
) -> tuple[list[Floats], list[int]]:
    """The posterior (T, S) of every held-out video, and the group it was held out with."""
    groups = [place % min(FOLDS, len(videos)) for place in range(len(videos))]
    seen: list[Floats] = [np.empty(0)] * len(videos)
    for group in sorted(set(groups)):
        places = [place for place in range(len(videos)) if groups[place] == group]
        # A single video cannot be held out.
        emission = learned.without(places, int(annotated)) if len(videos) > 1 else None
        model = learned.model(np.eye(videos[0].shape[1]), emission)
        for place in places:
            seen[place] = model.posterior(videos[place])
    return seen, groups
