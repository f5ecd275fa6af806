"""Correspond and Cut as the paper describes it: an embedder trained with TC3I, then the ProCut Module."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import NotLearned, OptionError, choose
from stepcut.methods.contract import Array, Choice, Labels, Online, Window, build
from stepcut.progress import Hook, silent

if TYPE_CHECKING:
    from stepcut.methods.cnc.embedder import Embedder
    from stepcut.methods.cnc.training import Curve


AS_PUBLISHED: dict[str, dict[str, Any]] = {
    # C-IDM as a sum over pairs beside TCC as a sum over frames (32 sampled), times in frames, a window of 300 of them.
    "train": {"weight": 32.0, "gamma_time": "frames", "window": 10.0},
    # Fuzzy c-means as it is usually run, on embeddings as they are, and alpha-expansion in place of the exact cut.
    "cut": {"m": 2.0, "normalise": False, "solver": "expansion"},
}
"""The paper's own text where ours departs from it; docs/cnc.md has the table. The temperature is 1 / dim besides, so
that distances in TCC are neither divided by the dimension nor by a temperature."""


class CnC:
    """The paper's method; every part of it can be changed by name.

    `loss` is one of tc3i, tcc, lav, lav+tcc; `segmenter` a name from `stepcut.methods.segmenters`
    or an object of your own.
    `train` and `cut` hold further settings of the embedder and of the segmenter.
    """

    labels_: list[Labels]
    steps_: int
    novelty_: list[NDArray[np.float64]] | None = None
    choice_: Choice | None = None

    def __init__(
        self,
        steps: int | str = 7,
        rate: float = 1.0,
        seed: int = 0,
        loss: str = "tc3i",
        dim: int = 128,
        segmenter: Any = "procut",
        train: Mapping[str, Any] | None = None,
        cut: Mapping[str, Any] | None = None,
    ) -> None:
        self.steps, self.rate, self.seed = steps, rate, seed
        self.loss, self.dim, self.segmenter = loss, dim, segmenter
        self.train, self.cut = train, cut

    def fit(
        self,
        features: Sequence[Array],
        progress: Hook = silent,
        checkpoint: Path | None = None,
        labels: Sequence[Labels | None] | None = None,
    ) -> Self:
        """Train the embedder, then cluster and cut all videos together. It takes no `labels`."""
        if labels is not None:
            raise OptionError("method='cnc' does not learn from labels; leave them out, or use method='stepcut'.")
        if not isinstance(self.steps, int):
            raise OptionError(f"steps={self.steps!r}: method 'cnc' needs a number, for example steps=7 (-k 7).")
        self.embedder_ = self._make_embedder()
        embeddings = self.embedder_.fit(features, progress=progress, checkpoint=checkpoint).transform(features)
        self.segmenter_ = self._make_segmenter()
        self.labels_ = self.segmenter_.fit_predict(embeddings)
        self.steps_ = self.steps
        self.centres_, self.scale_ = _measure(embeddings, self.labels_, self.steps_)
        return self

    def _make_embedder(self) -> Embedder:
        from stepcut.methods.cnc.embedder import Embedder

        named = {"loss": self.loss, "dim": self.dim, "rate": self.rate, "seed": self.seed}
        return build(Embedder, {**named, **(self.train or {})})

    def _make_segmenter(self) -> Any:
        from stepcut.methods.segmenters import SEGMENTERS

        if not isinstance(self.segmenter, str):
            return self.segmenter
        maker = choose("segmenter", self.segmenter, SEGMENTERS)
        named = {"steps": self.steps, "rate": self.rate, "seed": self.seed}
        return build(maker, {**named, **(self.cut or {})})

    def embed(self, features: Sequence[Array]) -> list[NDArray[np.float32]]:
        """Where each frame lies, (T, dim) per video."""
        self._check_learned()
        embeddings: list[NDArray[np.float32]] = self.embedder_.transform(features)
        return embeddings

    def memberships(self, features: Sequence[Array]) -> list[NDArray[np.float64]]:
        """How much each frame belongs to each step, (T, K) per video."""
        shares = self.segmenter_.memberships(self.embed(features))
        return [np.asarray(share, dtype=np.float64) for share in shares]

    def predict(self, features: Sequence[Array]) -> list[Labels]:
        """Cut new videos with the learned embedder and centres."""
        labels: list[Labels] = self.segmenter_.predict(self.embed(features))
        return labels

    def novelty(self, features: Sequence[Array]) -> list[NDArray[np.float64]]:
        """Distance to the nearest step's centre, in units of what is usual in the videos learned from."""
        return [_nearest(embedding, self.centres_) / self.scale_ for embedding in self.embed(features)]

    def online(self) -> Online:
        """Memberships frame by frame, from the past alone."""
        return Window(self)

    @property
    def curve_(self) -> Curve:
        """The loss and its parts after every training step."""
        self._check_learned()
        return self.embedder_.curve_

    def settings(self) -> dict[str, Any]:
        """What `__init__` was given; a segmenter object is named by its class."""
        named = self.segmenter if isinstance(self.segmenter, str) else type(self.segmenter).__name__
        return {
            "steps": self.steps,
            "rate": self.rate,
            "seed": self.seed,
            "loss": self.loss,
            "dim": self.dim,
            "segmenter": named,
            "train": dict(self.train or {}),
            "cut": dict(self.cut or {}),
        }

    def state(self) -> dict[str, Array]:
        """Everything learned, as arrays."""
        self._check_learned()
        curve = self.embedder_.curve_
        return {
            "embedder": _json_array({"settings": self.embedder_.settings(), "curve": curve.names}),
            "curve": np.array(curve.values, dtype=np.float64),
            **{f"embedder.{key}": array for key, array in self.embedder_.state().items()},
            **{f"segmenter.{key}": array for key, array in self.segmenter_.state().items()},
            **{f"labels.{number:05d}": labels for number, labels in enumerate(self.labels_)},
            "centres": self.centres_,
            "scale": np.array(self.scale_),
        }

    @classmethod
    def restore(cls, settings: Mapping[str, Any], state: Mapping[str, Array]) -> Self:
        """The method as it was when `settings` and `state` were taken."""
        from stepcut.methods.cnc.embedder import Embedder
        from stepcut.methods.cnc.training import Curve

        method = cls(**settings)
        about = json.loads(state["embedder"].tobytes())
        method.embedder_ = Embedder.restore(about["settings"], part(state, "embedder."))
        method.embedder_.curve_ = Curve(tuple(about["curve"]), state["curve"].tolist())
        segmenter = method._make_segmenter()
        method.segmenter_ = type(segmenter).restore(segmenter.settings(), part(state, "segmenter."))
        method.labels_ = [labels.astype(np.int64) for _, labels in sorted(part(state, "labels.").items())]
        method.centres_, method.scale_ = state["centres"], float(state["scale"])
        method.steps_ = len(method.centres_)
        return method

    def _check_learned(self) -> None:
        if not hasattr(self, "embedder_"):
            raise NotLearned("this method has not been fitted; call fit(features) first.")


def part(state: Mapping[str, Array], prefix: str) -> dict[str, Array]:
    """The arrays whose name begins with `prefix`, without it."""
    return {key.removeprefix(prefix): array for key, array in state.items() if key.startswith(prefix)}


def _json_array(value: Any) -> NDArray[np.uint8]:
    """JSON as bytes, so that it lies beside the arrays it belongs to."""
    return np.frombuffer(json.dumps(value).encode(), dtype=np.uint8)


def _measure(embeddings: Sequence[Array], labels: Sequence[Labels], steps: int) -> tuple[NDArray[np.float64], float]:
    """The mean embedding of each step, and how far a frame usually lies from the nearest of them."""
    frames, numbers = np.concatenate(embeddings).astype(np.float64), np.concatenate(labels)
    overall = frames.mean(axis=0)
    centres = np.stack([frames[numbers == k].mean(axis=0) if (numbers == k).any() else overall for k in range(steps)])
    return centres, float(np.median(_nearest(frames, centres))) or 1.0


def _nearest(frames: Array, centres: NDArray[np.float64]) -> NDArray[np.float64]:
    """|frame - nearest centre| for every frame."""
    squared = (frames**2).sum(1)[:, None] - 2 * frames @ centres.T + (centres**2).sum(1)[None]
    nearest: NDArray[np.float64] = np.sqrt(np.maximum(squared, 0).min(axis=1))
    return nearest
