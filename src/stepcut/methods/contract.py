"""The contract of a method, and the online form that every method has for free."""

import inspect
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import OptionError, unknown
from stepcut.features.contract import check_rows
from stepcut.files.addresses import AnyPath
from stepcut.files.atomic import write_text
from stepcut.progress import Hook, silent

Array = NDArray[Any]
Labels = NDArray[np.int64]
StepCount = int | Literal["auto"] | tuple[int, int]
"""How many steps: a number, "auto", or the fewest and the most."""
T = TypeVar("T")

OPEN = -2
"""In labels: nobody said anything about this frame."""


def as_step_count(steps: Any) -> StepCount:
    """How many steps, as plain numbers: what makes no sense is refused in one sentence."""
    if isinstance(steps, str) and steps == "auto":
        return "auto"
    pair = isinstance(steps, tuple | list) and len(steps) == 2
    counts = list(steps) if pair else [steps]
    whole = all(isinstance(one, int | np.integer) and not isinstance(one, bool) for one in counts)
    if not whole or counts[0] < 1 or counts[-1] < counts[0]:
        raise OptionError(
            f"steps={steps!r}; give a whole number from 1 up, a range such as (8, 14), or 'auto'."
        )
    return (int(counts[0]), int(counts[1])) if pair else int(counts[0])


def as_whole_count(steps: Any, method: str) -> int:
    """How many steps, for a `method` that cannot choose the number itself."""
    if not isinstance(count := as_step_count(steps), int):
        raise OptionError(
            f"steps={steps!r}: method {method!r} needs a number, for example steps=7 (-k 7)."
        )
    return count


VERBS = (
    "fit",
    "embed",
    "probabilities",
    "predict",
    "novelty",
    "online",
    "settings",
    "state",
    "restore",
)
"""What a method can do; see `stepcut.methods`."""


class Online(Protocol):
    """Memberships from the past alone: what guidance listens to."""

    def push(self, row: Array) -> NDArray[np.float64]:
        """Take the next feature row; give its probabilities (K,)."""


@dataclass
class Curve:
    """The loss after every iteration of training, for methods that train."""

    names: tuple[str, ...] = ()
    """The loss and its parts."""
    values: list[list[float]] = field(default_factory=list)
    """A row per iteration, a column per name."""

    def csv(self) -> str:
        """A row per iteration: its number, then the loss and its parts."""
        head, rows = ["iteration", *self.names], enumerate(self.values, start=1)
        return "".join(
            ",".join(line) + "\n" for line in [head, *([str(n), *map(str, row)] for n, row in rows)]
        )

    def save(self, path: AnyPath) -> None:
        """Write it as CSV to `path`, whole or not at all."""
        write_text(path, self.csv())


@dataclass(frozen=True)
class Choice:
    """How a number of steps was chosen."""

    count: int
    """The number chosen."""
    candidates: NDArray[np.float64]
    """(n, 2): every number tried and its score; the highest was chosen."""
    reason: str
    """The choice in words."""

    def state(self) -> dict[str, Array]:
        """As arrays, for a method's `state`."""
        return {
            "choice": self.candidates,
            "choice.reason": np.frombuffer(self.reason.encode(), dtype=np.uint8),
        }

    @classmethod
    def restore(cls, count: int, state: Mapping[str, Array]) -> Self | None:
        """The choice of `count` steps that a method's `state` holds; version 0.1.0 kept other scores and no reason."""
        candidates = state.get("choice", np.zeros((0, 2)))
        if not len(candidates):
            return None
        reason = (
            state["choice.reason"].tobytes().decode()
            if "choice.reason" in state
            else f"{count} steps"
        )
        return cls(count, np.asarray(candidates[:, :2], dtype=np.float64), reason)


class LeftOut(NamedTuple):
    """What is seen in the videos learned from, in each as if it were new."""

    labels: list[Labels]
    """The step of each row, (T,) per video."""
    probabilities: list[NDArray[np.float64]]
    """(T, K) per video."""
    novelty: list[NDArray[np.float64]]
    """(T,) per video."""
    looks: list[tuple[NDArray[np.float64], NDArray[np.float64]]] | None = None
    """Its embedding (T, p) and the centres of the steps (K, p), per video, where the method knows them."""
    embed: Callable[[int, int, NDArray[np.int64] | None], NDArray[np.float64]] | None = None
    """embed(without, place, kept): the embedding (T, p) of all rows, or those kept, of the video at a place, by what
    was learned without the videos of a group, where the method knows it."""
    groups: list[int] | None = None
    """The group that each video was left out with, where the method knows it."""

    def of(self, places: Sequence[int]) -> "LeftOut":
        """The same for the videos at some places, which are counted from 0 then."""
        embed = self.embed
        return LeftOut(
            [self.labels[place] for place in places],
            [self.probabilities[place] for place in places],
            [self.novelty[place] for place in places],
            self.looks and [self.looks[place] for place in places],
            embed and (lambda without, place, kept: embed(without, places[place], kept)),
            self.groups and [self.groups[place] for place in places],
        )


class Method(Protocol):
    """From features to steps; see `stepcut.methods` for the verbs in words. Inherit from it, or have the same names."""

    rate: float
    labels_: list[Labels]
    steps_: int
    right_: float | None = None
    """The share of labelled rows that are found right where their video is left out, where the method knows it."""

    @property
    def left_out_(self) -> LeftOut | None:
        """What the method sees in each video learned from as if it were new, where it knows that."""
        return None

    @property
    def choice_(self) -> Choice | None:
        """How the number of steps was chosen, where it was not given."""
        return None

    @property
    def chosen_(self) -> dict[str, Any] | None:
        """Settings that were left open and chosen while learning, but for the number of steps, where there are any."""
        return None

    @property
    def curve_(self) -> Curve | None:
        """The loss of training, where there is training."""
        return None

    def fit(
        self,
        features: Sequence[Array],
        progress: Hook = silent,
        checkpoint: Path | None = None,
        labels: Sequence[Labels | None] | None = None,
    ) -> Self: ...
    def embed(self, features: Sequence[Array]) -> list[NDArray[np.float32]]: ...
    def probabilities(self, features: Sequence[Array]) -> list[NDArray[np.float64]]: ...
    def predict(self, features: Sequence[Array]) -> list[Labels]: ...
    def novelty(self, features: Sequence[Array]) -> list[NDArray[np.float64]]: ...
    def online(self) -> Online:
        """Memberships frame by frame, from the past alone: the last two minutes taken as a video of their own."""
        return Window(self)

    def settings(self) -> dict[str, Any]: ...
    def state(self) -> dict[str, Array]: ...
    @classmethod
    def restore(cls, settings: Mapping[str, Any], state: Mapping[str, Array]) -> Self: ...

    @classmethod
    def arrange(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Settings as the command line has them, `{"group.name": value}` among them, as `__init__` takes them."""
        return dict(settings)


def complete(method: Method) -> Method:
    """The same method; what only some methods learn (`left_out_`, `choice_` ...) is None where it is absent."""
    for name in ("left_out_", "right_", "choice_", "chosen_", "curve_"):
        if name not in dir(method):
            setattr(method, name, None)
    return method


def leave_out(method: Method, features: Sequence[Array]) -> LeftOut:
    """What a method sees in the videos that it was fitted to as if they were new, where it knows that: limits set by
    videos that it was fitted to would be too low for new ones."""
    if method.left_out_ is not None:
        return method.left_out_
    return LeftOut(method.labels_, method.probabilities(features), method.novelty(features))


def build(maker: Callable[..., T], settings: Mapping[str, Any]) -> T:
    """Call `maker` with settings; one that it does not know is answered with the nearest one and the list."""
    known = list(inspect.signature(maker).parameters)
    for name in settings:
        if name not in known:
            raise unknown("setting", name, known)
    return maker(**settings)


def plain_numbers(settings: Any) -> Any:
    """The same settings, in lists and dicts too, with plain numbers in place of numpy's, which JSON cannot hold."""
    if isinstance(settings, Mapping):
        return {name: plain_numbers(value) for name, value in settings.items()}
    if isinstance(settings, list | tuple):
        return type(settings)(map(plain_numbers, settings))
    return settings.item() if isinstance(settings, np.generic) else settings


def part(state: Mapping[str, T], prefix: str) -> dict[str, T]:
    """What of a `state` has a name that begins with `prefix`, by the rest of its name."""
    return {
        key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)
    }


def as_learned(kept: Array) -> Any:
    """An array that a `state` holds, as float64; a plain number where it has no dimensions."""
    wide = np.asarray(kept, dtype=np.float64)
    return wide if wide.ndim else wide.item()


def kept_settings(method: object) -> dict[str, Any]:
    """What the `__init__` of a part, perhaps of somebody's own, was given: its attributes of the same names."""
    names = list(inspect.signature(type(method)).parameters)
    for name in names:
        if not hasattr(method, name):
            raise OptionError(
                f"{type(method).__name__}: __init__ takes {name} and does not store it; write self.{name} = {name}."
            )
    return {name: getattr(method, name) for name in names}


class Window:
    """The online form of any method: the last rows are taken as a video of their own, and its last frame is the answer.

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
