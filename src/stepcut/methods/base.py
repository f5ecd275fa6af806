"""BaseMethod: a method of one's own needs `learn` and `shares`; everything else of the contract is here."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import OptionError
from stepcut.methods.contract import Array, Labels, Method, as_whole_count, kept_settings, part
from stepcut.methods.segmenter import check_fitted, check_shares
from stepcut.progress import Hook, silent


class BaseMethod(Method):
    """Derive from it, store settings in `__init__`, and keep what is learned as arrays whose names end in `_`.

    `steps` is the number of steps, `rate` rows of features per second, `seed` what random draws follow.
    """

    def __init__(self, steps: int = 7, rate: float = 1.0, seed: int = 0) -> None:
        self.steps, self.rate, self.seed = steps, rate, seed

    @abstractmethod
    def learn(self, videos: Sequence[Array]) -> None:
        """Learn from all `videos`, a list of (T, d) arrays; keep what is learned in attributes that end in `_`."""

    @abstractmethod
    def shares(self, rows: Array) -> NDArray[np.float64]:
        """How much each row (T, d) of one video belongs to each step: (T, K), rows sum to 1."""

    def fit(
        self,
        features: Sequence[Array],
        progress: Hook = silent,
        checkpoint: Path | None = None,
        labels: Sequence[Labels | None] | None = None,
    ) -> Self:
        """See `stepcut.methods`; a method that learns from labels writes its own `fit`."""
        del progress, checkpoint  # for methods that take long
        if labels is not None and any(one is not None for one in labels):
            raise OptionError(
                f"method {type(self).__name__} does not learn from labels; the default method does."
            )
        self.steps_ = as_whole_count(self.steps, type(self).__name__)
        self.learn(features)
        self.labels_ = self.predict(features)
        return self

    def embed(self, features: Sequence[Array]) -> list[NDArray[np.float32]]:
        """The features themselves."""
        return [np.asarray(rows, dtype=np.float32) for rows in features]

    def probabilities(self, features: Sequence[Array]) -> list[NDArray[np.float64]]:
        """`shares` of every video."""
        check_fitted(self, "steps_")
        return [check_shares(self.shares(rows), len(rows), self.steps, self) for rows in features]

    def predict(self, features: Sequence[Array]) -> list[Labels]:
        """The step with the largest share of each row."""
        return [shares.argmax(axis=1).astype(np.int64) for shares in self.probabilities(features)]

    def novelty(self, features: Sequence[Array]) -> list[NDArray[np.float64]]:
        """How far the largest share is from all of it: 0 where a row surely belongs to a step."""
        return [1 - shares.max(axis=1) for shares in self.probabilities(features)]

    def settings(self) -> dict[str, Any]:
        """What `__init__` was given."""
        return kept_settings(self)

    def state(self) -> dict[str, Array]:
        """Everything learned: the arrays whose names end in `_`, and the labels of the videos learned from."""
        arrays = {
            name: value for name, value in vars(self).items() if isinstance(value, np.ndarray)
        }
        labels = {f"labels.{number:05d}": each for number, each in enumerate(self.labels_)}
        return {**{name: array for name, array in arrays.items() if name.endswith("_")}, **labels}

    @classmethod
    def restore(cls, settings: Mapping[str, Any], state: Mapping[str, Array]) -> Self:
        """The method as it was when `settings` and `state` were taken."""
        method = cls(**settings)
        vars(method).update(
            {name: array for name, array in state.items() if not name.startswith("labels.")}
        )
        method.labels_ = [
            labels.astype(np.int64) for _, labels in sorted(part(state, "labels.").items())
        ]
        method.steps_ = method.steps
        return method
