"""The contract of every method: features in, steps out."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import OptionError, wrong
from stepcut.features.features import check_rows
from stepcut.files import AnyPath, write_text
from stepcut.methods.arithmetic import Computed, as_vectors, one_hot
from stepcut.methods.constraints import Constraints
from stepcut.methods.inputs import (
    Array,
    Labels,
    StepCount,
    Videos,
    as_step_count,
    as_whole_count,
    check_fitted,
    check_shares,
    check_videos,
    fingerprint,
    kept_settings,
    part,
    plain_numbers,
)
from stepcut.progress import Hook, silent
from stepcut.settings import SEEDS, Setting, check_fields, setting, settings_of


class Reading(NamedTuple):
    """What a method reads in one video of T rows.

    Examples
    --------
    >>> proc.method.read(new).labels.shape
    (40,)
    """

    labels: Labels
    """(T,): the step of each row, -1 for background."""
    probabilities: Array
    """(T, K): how likely each row shows each step; rows sum to 1."""
    novelty: Array
    """(T,): 0 for a familiar row, higher if unusual."""
    embedding: Array
    """(T, p): equal steps of different videos are close."""


@dataclass
class Curve:
    names: tuple[str, ...] = ()  # the loss and its terms
    # a row per iteration, a column per name
    values: list[list[float]] = field(default_factory=list)

    def csv(self) -> str:
        """The number of the iteration, then the loss and its terms."""
        rows = [[str(number), *map(str, row)] for number, row in enumerate(self.values, start=1)]
        return "".join(",".join(line) + "\n" for line in [["iteration", *self.names], *rows])

    def save(self, path: AnyPath) -> None:
        write_text(path, self.csv())


class LeftOut(NamedTuple):
    """Each training video as if new; the last three are None without embedding or groups."""

    labels: list[Labels]  # (T,) per video
    probabilities: list[NDArray[np.float64]]  # (T, K)
    novelty: list[NDArray[np.float64]]  # (T,)
    # embedding (T, p) and step centres (K, p) of each
    looks: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]] | None = None
    # embed(without, place, kept): (T, p) of the `kept` rows, or all, of the video at `place`,
    # learned without the videos of group `without`
    embed: Callable[[int, int, NDArray[np.int64] | None], NDArray[np.float64]] | None = None
    groups: list[int] | None = None  # the group that each video was held out with

    def of(self, places: Sequence[int]) -> "LeftOut":
        """The videos at `places`, which are renumbered from 0."""
        embed = self.embed
        return LeftOut(
            [self.labels[place] for place in places],
            [self.probabilities[place] for place in places],
            [self.novelty[place] for place in places],
            self.looks and Computed(self.looks.__getitem__, places),
            embed and (lambda without, place, kept: embed(without, places[place], kept)),
            self.groups and [self.groups[place] for place in places],
        )


class Online(Protocol):
    """Step probabilities from the past only, for guidance.

    An attribute `label`, the step after the last row or -1, says what is background where several
    steps share its probability.
    """

    def push(self, row: Array) -> NDArray[np.float64]:
        """Take the next feature row; return its probabilities (K,)."""


@dataclass(eq=False, repr=False)
class Method:
    """From features to steps. Derive from it, and write `learn` and one of `shares` and `segment`.

    `fit` and `read` follow from these; override `read` if a better novelty or embedding exists.
    `__init__` only stores settings; learned attributes end in `_`, and their arrays are saved.

    Attributes
    ----------
    labels_
        Step of each row, (T,) per training video; -1 is background.
    steps_
        Number of learned steps.

    Examples
    --------
    >>> class Halves(Method):
    ...     def segment(self, rows):
    ...         return np.arange(len(rows)) * self.steps // len(rows)
    >>> Halves(steps=2).fit([np.zeros((4, 3))]).labels_[0].tolist()
    [0, 0, 1, 1]
    """

    chooses_steps: ClassVar[bool] = False
    """Whether `steps` may be "auto" or a range."""
    learns_from: ClassVar[frozenset[str]] = frozenset()
    """The parts of a `Constraint` that it learns from: labels, clicks, transcript."""
    orders_by_mean: ClassVar[bool] = False
    """Whether orders follow the mean time of each step, as in the paper, also for repeated steps.
    """

    steps: StepCount = setting(
        7, 'Number of steps; with `chooses_steps`, also "auto" or (fewest, most).'
    )
    rate: float | Fraction = setting(1.0, "Feature rows per second.", 0, above=True)
    seed: int = setting(0, "Seed of random draws: the same seed gives the same steps.", 0, SEEDS)

    why_steps_: str = field(default="", init=False)
    """Why it has this number of steps, in a sentence, if the number was not set."""
    agreement_: float | None = field(default=None, init=False)
    """Agreement of the steps from different starts, 0 to 1, if there are several."""
    curve_: Curve | None = field(default=None, init=False)
    """The training loss, if there is training."""

    # ---------- for custom methods

    def learn(self, videos: list[Array]) -> None:
        """Learn from videos (T, d), validated and in canonical order."""

    def shares(self, rows: Array) -> Array:
        """Return the step probabilities (T, K) of one video (T, d); rows sum to 1."""
        del rows
        raise OptionError(f"{type(self).__name__} has neither shares nor segment; implement one.")

    def segment(self, rows: Array) -> Labels:
        """Return the steps (T,) of one video (T, d), -1 for background."""
        shares = check_shares(self.shares(rows), len(rows), self.count, self)
        return np.asarray(shares.argmax(axis=1))

    # ---------- the contract

    def fit(
        self,
        features: Videos,
        constraints: Constraints | None = None,
        progress: Hook = silent,
        checkpoint: Path | None = None,
    ) -> Self:
        """Learn the steps that the videos, (T, d) or (T, C, h, w), share.
        `constraints` are the annotations of each video, see `stepcut.methods.constraints`;
        `checkpoint` is a file for the state of long training, so that it resumes.
        """
        del progress, checkpoint  # for slow methods
        self.check_settings(constraints)
        videos = [_vectors(video) for video in check_videos(features)]
        frames = sum(len(rows) for rows in videos)
        if self.count > frames:
            why = f"is more than the {frames} frames. Use fewer steps or more frames."
            raise wrong("steps", self.count, why)
        # Sorted, so that the order of the input does not matter.
        self.learn(sorted(videos, key=fingerprint))
        self.steps_, self.dimension_ = self.count, videos[0].shape[1]
        self.labels_ = self.label(videos)
        return self

    def label(self, videos: list[Array]) -> list[Labels]:
        """Return the steps (T,) of the training videos (T, d)."""
        return [np.asarray(self.segment(rows)).astype(np.int64) for rows in videos]

    def read(self, features: Array) -> Reading:
        """Read one video, (T, d) or (T, C, h, w): its steps, and how certain and familiar they are."""
        check_fitted(self, "dimension_")
        rows = _vectors(check_videos([features], self.dimension_)[0])
        own, labels = type(self), None
        if own.segment is not Method.segment:
            labels = np.asarray(self.segment(rows)).astype(np.int64)
        if labels is not None and own.shares is Method.shares:
            shares = one_hot(labels, self.count)
        else:
            shares = check_shares(self.shares(rows), len(rows), self.count, self)
            labels = shares.argmax(axis=1) if labels is None else labels
        novelty = np.maximum(1.0 - shares.max(axis=1).astype(np.float64), 0.0)
        return Reading(labels, shares, novelty, np.asarray(rows, dtype=np.float32))

    def online(self) -> Online:
        """Return an object whose `push(row)` gives probabilities (K,) from the past alone."""
        return Window(self)

    def start_from(self, other: Self, shown: Sequence[Labels] | None = None) -> None:
        """Start from a method fitted to the same videos; `shown` are their current steps (T,).
        By default this does nothing.
        """

    @property
    def left_out_(self) -> LeftOut | None:
        """Predictions of each training video as if it were new, if the method has them."""
        return None

    # ---------- settings and state

    @property
    def count(self) -> int:
        """Number of steps, for a method that does not choose it."""
        return as_whole_count(self.steps, type(self).__name__)

    def check_settings(self, constraints: Constraints | None = None) -> None:
        """Refuse wrong settings, and constraints that the method does not learn from."""
        check_fields(self)
        as_step_count(self.steps) if self.chooses_steps else self.count
        for one in constraints or ():
            for name in () if one is None else one.parts:
                if name not in self.learns_from:
                    what = f"method {type(self).__name__} does not learn from {name}"
                    raise OptionError(f"{what}; the default method does.", setting=name)

    @classmethod
    def described(cls) -> dict[str, Setting]:
        """All settings by name, as on the command line."""
        return dict(settings_of(cls))

    @classmethod
    def arrange(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Convert settings of the command line, such as `{"group.name": 1}`, to constructor arguments."""
        return dict(settings)

    def settings(self) -> dict[str, Any]:
        """Return the constructor arguments as JSON values, for `restore`."""
        kept = plain_numbers(kept_settings(self)).items()
        return {name: float(x) if isinstance(x, Fraction) else x for name, x in kept}

    def state(self) -> dict[str, Array]:
        """Return arrays whose names end in `_` and the training labels, for `restore`."""
        check_fitted(self, "dimension_")
        learned = {name: value for name, value in vars(self).items() if name.endswith("_")}
        return {
            "dimension_": np.asarray(self.dimension_, dtype=np.int64),
            **{name: value for name, value in learned.items() if isinstance(value, np.ndarray)},
            **named_labels("labels.", self.labels_),
        }

    @classmethod
    def restore(cls, settings: Mapping[str, Any], state: Mapping[str, Array]) -> Self:
        """Rebuild a method from its `settings()` and `state()`."""
        method = cls(**settings)
        for name, array in state.items():
            if not name.startswith("labels."):
                setattr(method, name, array)
        method.labels_ = saved_labels(state, "labels.")
        method.steps_, method.dimension_ = method.count, int(state["dimension_"])
        return method

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"{type(self).__name__}({shown})"


def _vectors(rows: Array) -> Array:
    """Maps (T, C, h, w) as vectors; vectors stay."""
    return as_vectors(rows) if rows.ndim == 4 else rows


def named_labels(prefix: str, labels: Sequence[Labels]) -> dict[str, Labels]:
    """Labels of each video as part of a `state`, for `saved_labels`."""
    return {f"{prefix}{number:05d}": each for number, each in enumerate(labels)}


def saved_labels(state: Mapping[str, Array], prefix: str) -> list[Labels]:
    return [labels.astype(np.int64) for _, labels in sorted(part(state, prefix).items())]


class Window:
    """The online form of any method: segment the last rows, and return the last frame."""

    def __init__(self, method: Method, seconds: int = 120) -> None:
        self.method = method
        self.rows: deque[Array] = deque(maxlen=max(1, round(Fraction(method.rate) * seconds)))

    def push(self, row: Array) -> NDArray[np.float64]:
        rows = check_rows([*self.rows, row], "the rows so far")[-(self.rows.maxlen or 1) :]
        last: NDArray[np.float64] = self.method.read(rows).probabilities[-1]
        self.rows.append(rows[-1].copy())  # only if the method accepts it
        return last
