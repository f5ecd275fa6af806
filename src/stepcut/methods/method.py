"""The contract of every method: features in, steps out. Ours and a user's own derive from `Method`."""

import warnings
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from types import MethodType
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from stepcut.checks import SEEDS, check_limits, limited
from stepcut.errors import OptionError
from stepcut.features.contract import check_rows
from stepcut.methods.arithmetic import as_vectors, one_hot
from stepcut.methods.constraints import Constraint, Constraints
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
from stepcut.methods.learned import Choice, Curve, LeftOut
from stepcut.progress import Hook, silent

NEEDED = ("fit", "predict", "settings", "state", "restore")
"""What no method can do without; everything else of `Method` has a default."""


class Online(Protocol):
    """Memberships from the past alone: what guidance listens to."""

    def push(self, row: Array) -> NDArray[np.float64]:
        """Take the next feature row; give its probabilities (K,)."""


@dataclass(eq=False, repr=False)
class Method:
    """From features to steps. Derive from it, and write `learn` and one of `shares` and `segment`.

    Everything else follows from these: a method with a better way (probabilities, novelty, an online form, an
    embedding) writes that verb itself. `__init__` only stores settings; what is learned has a name that ends in `_`.
    The arrays among it are saved.

    Parameters
    ----------
    steps
        How many steps; a method that sets `chooses_steps` also takes "auto" or (fewest, most).
    rate
        Rows of the features per second.
    seed
        Of random draws: same seed, same steps.

    Attributes
    ----------
    labels_
        The step of each row, (T,) per video that was learned from; -1 is background.
    steps_
        How many steps were learned.

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
    """What of a `Constraint` it learns from: labels, clicks, transcript."""
    orders_by_mean: ClassVar[bool] = False
    """Whether orders follow the mean time of each step, as in the paper, also where steps are repeated."""

    steps: StepCount = 7
    rate: float | Fraction = limited(1.0, 0, above=True)
    seed: int = limited(0, 0, SEEDS, whole=True)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "memberships" in vars(cls) and "probabilities" not in vars(cls):
            _warn_of_memberships(cls)
            cls.probabilities = vars(cls)["memberships"]  # type: ignore[method-assign]

    # ------------------------------------------------------------------ what a method of one's own writes

    def learn(self, videos: list[Array]) -> None:
        """Learn from `videos`, (T, d) each, checked and in an order that does not depend on how they were given."""

    def shares(self, rows: Array) -> Array:
        """How much each row (T, d) of one video belongs to each step: (T, K), rows sum to 1."""
        if type(self).segment is Method.segment:
            raise OptionError(f"{type(self).__name__} has neither shares nor segment; write one.")
        return one_hot(self.segment(rows), self.count)

    def segment(self, rows: Array) -> Labels:
        """The step of each row (T, d) of one video: (T,), -1 for background. The most likely, the lowest on a tie."""
        shares = check_shares(self.shares(rows), len(rows), self.count, self)
        return np.asarray(shares.argmax(axis=1))

    # ------------------------------------------------------------------ what everybody calls

    def fit(
        self,
        features: Videos,
        constraints: Constraints | None = None,
        progress: Hook = silent,
        checkpoint: Path | None = None,
    ) -> Self:
        """Learn the steps that the videos share.

        Parameters
        ----------
        features
            (T, d) or (T, C, h, w) per video.
        constraints
            What people said about each video; see `stepcut.methods.constraints`.
        progress
            Hears how far the work is.
        checkpoint
            A file where long training keeps its state, so that it resumes.

        Raises
        ------
        OptionError
            A setting is wrong, or the method does not learn from constraints.
        """
        del progress, checkpoint  # for methods that take long
        self.check_settings(constraints)
        videos = _vectors(check_videos(features, kinds=(2, 4)))
        frames = sum(len(rows) for rows in videos)
        if self.count > frames:
            raise OptionError(
                f"steps={self.count} is more than the {frames} frames given; allowed is 1 to {frames}. "
                "Ask for fewer steps or give more frames."
            )
        # In an order of their own, so that the order in which they come cannot matter.
        self.learn(sorted(videos, key=fingerprint))
        self.steps_, self.dimension_ = self.count, videos[0].shape[1]
        self.labels_ = self.predict(videos)
        return self

    def predict(self, features: Videos) -> list[Labels]:
        """The step of each frame, (T,) per video; -1 is background."""
        return [np.asarray(self.segment(rows)).astype(np.int64) for rows in self._known(features)]

    def probabilities(self, features: Videos) -> list[Array]:
        """How much each frame belongs to each step, (T, K) per video; rows sum to 1."""
        return [
            check_shares(self.shares(rows), len(rows), self.steps_, self)
            for rows in self._known(features)
        ]

    def novelty(self, features: Videos) -> list[NDArray[np.float64]]:
        """0 on a frame that surely belongs to a step, more where it resembles none, (T,) per video."""
        return [
            np.maximum(1.0 - np.asarray(shares, dtype=np.float64).max(axis=1), 0.0)
            for shares in self.probabilities(features)
        ]

    def embed(self, features: Videos) -> list[NDArray[np.float32]]:
        """Where the same step of different videos lies close, (T, D) per video: by default the features."""
        return [np.asarray(rows, dtype=np.float32) for rows in _vectors(features)]

    def online(self) -> Online:
        """Step probabilities frame by frame, from the past alone: the last two minutes taken as a video."""
        return Window(self)

    def start_from(self, other: Self, shown: Sequence[Labels] | None = None) -> None:
        """Begin from what another has learned from the same videos, with the steps (T,) as they are `shown` by now."""

    # ------------------------------------------------------------------ what only some learn

    @property
    def right_(self) -> float | None:
        """The share of labelled rows that are found right where their video is left out."""
        return None

    @property
    def left_out_(self) -> LeftOut | None:
        """What is seen in each video learned from as if it were new."""
        return None

    @property
    def choice_(self) -> Choice | None:
        """How the number of steps was chosen, where it was not given."""
        return None

    @property
    def chosen_(self) -> dict[str, Any] | None:
        """Settings that were left open and chosen while learning, but for the number of steps."""
        return None

    @property
    def curve_(self) -> Curve | None:
        """The loss of training, where there is training."""
        return None

    # ------------------------------------------------------------------ settings and state

    @property
    def count(self) -> int:
        """How many steps, for a method that is told the number."""
        return as_whole_count(self.steps, type(self).__name__)

    def check_settings(self, constraints: Constraints | None = None) -> None:
        """Refuse wrong settings, and `constraints` that the method does not learn from. `__init__` only stores."""
        check_limits(self)
        as_step_count(self.steps) if self.chooses_steps else self.count
        for one in constraints or ():
            if wrong := [name for name in parts(one) if name not in self.learns_from]:
                raise OptionError(
                    f"method {type(self).__name__} does not learn from {wrong[0]}; the default method does."
                )

    @classmethod
    def arrange(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Settings as the command line has them, `{"group.name": value}` among them, as `__init__` takes them."""
        return dict(settings)

    def settings(self) -> dict[str, Any]:
        """What `__init__` was given, ready for JSON."""
        kept = plain_numbers(kept_settings(self)).items()
        return {
            name: float(value) if isinstance(value, Fraction) else value for name, value in kept
        }

    def state(self) -> dict[str, Array]:
        """What was learned: the arrays whose names end in `_`, and the labels of the videos learned from."""
        check_fitted(self, "dimension_")
        arrays = {
            name: value
            for name, value in vars(self).items()
            if name.endswith("_") and isinstance(value, np.ndarray)
        }
        labels = {f"labels.{number:05d}": each for number, each in enumerate(self.labels_)}
        return {"dimension_": np.asarray(self.dimension_, dtype=np.int64), **arrays, **labels}

    @classmethod
    def restore(cls, settings: Mapping[str, Any], state: Mapping[str, Array]) -> Self:
        """The method as it was when `settings()` and `state()` were taken."""
        method = cls(**settings)
        labels = part(state, "labels.")
        vars(method).update(
            {name: array for name, array in state.items() if not name.startswith("labels.")}
        )
        method.labels_ = [each.astype(np.int64) for _, each in sorted(labels.items())]
        method.steps_, method.dimension_ = method.count, int(state["dimension_"])
        return method

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value!r}" for name, value in self.settings().items())
        return f"{type(self).__name__}({shown})"

    def _known(self, features: Videos) -> list[Array]:
        """Features of new videos, checked to be like those learned from."""
        check_fitted(self, "dimension_")
        if not len(features):
            return []
        return _vectors(check_videos(features, self.dimension_, kinds=(2, 4)))


def _vectors(videos: Videos) -> list[Array]:
    """Maps as vectors, vectors as they are."""
    return [as_vectors(rows) if rows.ndim == 4 else rows for rows in map(np.asarray, videos)]


def adapt(method: Any) -> Method:
    """The same `method`; one that does not derive from `Method` gets the defaults of what it lacks."""
    if not isinstance(method, Method):
        if not hasattr(method, "probabilities") and hasattr(method, "memberships"):
            _warn_of_memberships(type(method))
            method.probabilities = method.memberships
        for name in ("probabilities", "shares", "novelty", "embed", "online", "start_from"):
            if not hasattr(method, name):
                setattr(method, name, MethodType(getattr(Method, name), method))
        for name in ("left_out_", "right_", "choice_", "chosen_", "curve_"):
            if name not in dir(method):
                setattr(method, name, None)
        if not hasattr(method, "orders_by_mean"):
            method.orders_by_mean = False
    adapted: Method = method
    return adapted


def parts(constraint: Constraint | None) -> list[str]:
    """What a `constraint` says: labels, clicks, transcript."""
    if constraint is None:
        return []
    said = {
        "labels": constraint.labels is not None,
        "clicks": bool(constraint.clicks),
        "transcript": constraint.transcript is not None,
    }
    return [name for name, given in said.items() if given]


def _warn_of_memberships(kind: type) -> None:
    warnings.warn(
        f"{kind.__name__}.memberships is now called probabilities; rename it before stepcut 0.4.",
        DeprecationWarning,
        stacklevel=4,
    )


def leave_out(method: Method, features: Sequence[Array]) -> LeftOut:
    """What a method sees in the videos that it was fitted to as if they were new, where it knows that: limits set by
    videos that it was fitted to would be too low for new ones."""
    if method.left_out_ is not None:
        return method.left_out_
    return LeftOut(method.labels_, method.probabilities(features), method.novelty(features))


class Window:
    """The online form of any method: the last rows are taken as a video, and its last frame is the answer.

    Causal, because nothing later has been seen; constant in memory, because older rows are dropped.
    """

    def __init__(self, method: Method, seconds: float = 120.0) -> None:
        self.method = method
        self.rows: deque[Array] = deque(
            maxlen=max(1, round(Fraction(method.rate) * Fraction(seconds)))
        )

    def push(self, row: Array) -> NDArray[np.float64]:
        """Take the next feature row; give its probabilities (K,)."""
        rows = check_rows([*self.rows, row], "the rows so far")[-(self.rows.maxlen or 1) :]
        last: NDArray[np.float64] = self.method.probabilities([rows])[0][-1]
        self.rows.append(rows[-1].copy())  # only now: one that the method cannot take is forgotten
        return last
