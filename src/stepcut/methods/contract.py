"""The contract of a method, and the online form that every method has for free."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import OptionError, unknown
from stepcut.progress import Hook, silent

Array = NDArray[Any]
Labels = NDArray[np.int64]
T = TypeVar("T")

BACKGROUND = -1
"""In labels: a person says that no step is going on."""
OPEN = -2
"""In labels: nobody has said anything about this frame."""


class Online(Protocol):
    """Memberships from the past alone: what guidance listens to."""

    def push(self, row: Array) -> NDArray[np.float64]:
        """Take the next feature row; give its memberships (K,)."""


class Method(Protocol):
    """From features to steps; see `stepcut.methods` for the verbs in words."""

    rate: float
    labels_: list[Labels]
    steps_: int

    def fit(
        self,
        features: Sequence[Array],
        progress: Hook = silent,
        checkpoint: Path | None = None,
        labels: Sequence[Labels | None] | None = None,
    ) -> Self: ...
    def embed(self, features: Sequence[Array]) -> list[NDArray[np.float32]]: ...
    def memberships(self, features: Sequence[Array]) -> list[NDArray[np.float64]]: ...
    def predict(self, features: Sequence[Array]) -> list[Labels]: ...
    def novelty(self, features: Sequence[Array]) -> list[NDArray[np.float64]]: ...
    def online(self) -> Online: ...
    def settings(self) -> dict[str, Any]: ...
    def state(self) -> dict[str, Array]: ...
    @classmethod
    def restore(cls, settings: Mapping[str, Any], state: Mapping[str, Array]) -> Self: ...


def leave_one_out_novelty(method: Method, features: Sequence[Array]) -> list[NDArray[np.float64]]:
    """Strangeness of the videos that a method was fitted to as if they were new, where it knows that: limits that are
    set by what it has seen too often would call new videos strange."""
    kept: list[NDArray[np.float64]] | None = getattr(method, "novelty_", None)
    return method.novelty(features) if kept is None else kept


def build(maker: Callable[..., T], settings: Mapping[str, Any]) -> T:
    """Call `maker` with settings; one that it does not know is answered with the nearest one and the list."""
    known = list(inspect.signature(maker).parameters)
    for name in settings:
        if name not in known:
            raise OptionError(unknown("setting", name, known))
    return maker(**settings)


class Window:
    """The online form of any method: the last rows are taken as a video of their own, and its last frame is the answer.

    Causal, because nothing later has been seen; constant in memory, because older rows are dropped.
    """

    def __init__(self, method: Method, seconds: float = 120.0) -> None:
        self.method = method
        self.rows: deque[Array] = deque(maxlen=max(1, round(Fraction(method.rate) * Fraction(seconds))))

    def push(self, row: Array) -> NDArray[np.float64]:
        """Take the next feature row; give its memberships (K,)."""
        self.rows.append(np.asarray(row))
        last: NDArray[np.float64] = self.method.memberships([np.stack(self.rows)])[0][-1]
        return last
