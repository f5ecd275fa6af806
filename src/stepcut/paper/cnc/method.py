"""Correspond and Cut as the paper describes it: an embedder trained with TC3I, then ProCut."""

from __future__ import annotations

import copy
import inspect
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import unknown, wrong
from stepcut.features.spec import FeatureSpec
from stepcut.methods import METHODS, find_method
from stepcut.methods.arithmetic import squared_distances
from stepcut.methods.constraints import Constraints
from stepcut.methods.inputs import Array, Labels, check_fitted, kept_settings, part, plain_numbers
from stepcut.methods.method import Curve, Method, Reading, named_labels, saved_labels
from stepcut.paper.cnc.settings import (
    GROUPS,
    HOME,
    PRESETS,
    choose_preset,
    find_loss,
    group_settings,
    preset_settings,
    spelled,
)
from stepcut.plugins import Lazy, find, find_saved, name_of
from stepcut.progress import Hook, silent
from stepcut.settings import Setting, build, setting, settings_of

if TYPE_CHECKING:
    from stepcut.paper.cnc.embedder import Embedder

log = logging.getLogger("stepcut")

# Imported on first use, because it loads torch
EMBEDDERS: Mapping[str, type[Embedder]] = Lazy({"cnc": "stepcut.paper.cnc.embedder:Embedder"})
SEGMENTERS = ("procut", "kmeans", "subset", "asot")  # The segmenters of the paper's tables


@dataclass(eq=False, repr=False)
class CnC(Method):
    """The method of the paper; every part can be replaced by name.

    Examples
    --------
    >>> trained = sc.learn(videos, steps=3, method="cnc", dim=4, train={"iterations": 3})
    >>> trained.method.read(new).embedding.shape
    (40, 4)
    """

    orders_by_mean: ClassVar[bool] = True
    device = "auto"  # where `learn` trains; a part of the machine, not a setting

    loss: Any = setting(
        "tc3i",
        "`tc3i`, `tcc`, `lav`, `lav+tcc`, `opel`, `rgwot`, a function, or `package.module:function`.",
    )
    dim: int = setting(128, "Size of an embedding.", 1, 65_536)
    segmenter: Any = setting(
        "procut", "A name from `METHODS`, `package.module:Class`, or a custom object."
    )
    train: Mapping[str, Any] | None = setting(None, "Further settings of the embedder.")
    cut: Mapping[str, Any] | None = setting(None, "Further settings of the segmenter.")
    as_published: bool = setting(False, "Use the settings of the published text where they differ.")
    as_released: bool = setting(False, "Use the settings of the authors' code where they differ.")

    def fit(
        self,
        features: Sequence[Array],
        constraints: Constraints | None = None,
        progress: Hook = silent,
        checkpoint: Path | None = None,
    ) -> Self:
        """Train the embedder, then segment all videos together; `constraints` are not supported."""
        self.check_settings(constraints)
        self.segmenter_ = self._make_segmenter()
        self.segmenter_.check_settings()  # fail before training
        self.embedder_ = self._make_embedder()
        if self.preset:
            log.warning("As %s, except for: %s.", self.preset, "; ".join(PRESETS[self.preset]))
        trained = self.embedder_.fit(features, progress=progress, checkpoint=checkpoint)
        embeddings = trained.transform(features)
        self.curve_ = self.embedder_.curve_
        self.labels_ = self.segmenter_.fit(embeddings).labels_
        self.steps_ = self.segmenter_.steps_
        self.centres_, self.scale_ = _measure(embeddings, self.labels_, self.steps_)
        return self

    def _make_embedder(self) -> Embedder:
        chosen = self._group("train")
        find_loss(self.loss)
        for name in chosen:
            if name not in HOME and name not in ("backbone", "device", "loss", "rate", "seed"):
                raise unknown("setting", name, HOME)
        chosen = {"dim": self.dim, **chosen}
        named = {"loss": self.loss, "rate": self.rate, "seed": self.seed, "device": self.device}
        return EMBEDDERS["cnc"].of(**{**named, **self._preset(chosen)[0], **chosen})

    @property
    def preset(self) -> str:
        return choose_preset(self.as_published, self.as_released)

    def _preset(self, train: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        if not self.preset:
            return {}, {}
        loss = train.get("loss", self.loss)
        return preset_settings(self.preset, loss, train, float(self.rate), self.count)

    def _make_segmenter(self) -> Method:
        if not isinstance(self.segmenter, str):
            custom: Method = copy.copy(find_method(self.segmenter, "segmenter"))
            custom.steps, custom.rate = self.count, self.rate
            return custom
        maker: type[Method] = find_method(self.segmenter, "segmenter")
        named = {"steps": self.count, "rate": self.rate, "seed": self.seed}
        takes = inspect.signature(maker).parameters
        chosen = self._preset(self._group("train"))[1].items()
        kept = {name: value for name, value in chosen if name in takes}
        return build(maker, {**named, **kept, **self._group("cut")})

    def _group(self, name: str) -> dict[str, Any]:
        """Settings of the embedder (`train`) or of the segmenter (`cut`)."""
        group = getattr(self, name) or {}
        if not isinstance(group, Mapping):
            raise wrong(name, group, "is not a dict of settings, {name: value}.")
        return dict(plain_numbers(group))

    def read(self, features: Array) -> Reading:
        """Embed and segment one video; novelty is the distance to a step centre."""
        check_fitted(self, "embedder_")
        [embedding] = self.embedder_.transform([features])
        read = self.segmenter_.read(embedding)
        return Reading(
            read.labels,
            read.probabilities.astype(np.float64),
            _nearest(embedding, self.centres_) / self.scale_,
            embedding,
        )

    def settings(self) -> dict[str, Any]:
        """A segmenter object becomes its class and its settings."""
        custom = not isinstance(self.segmenter, str)
        return {
            **kept_settings(self),
            "segmenter": name_of("method", self.segmenter, METHODS) if custom else self.segmenter,
            # A backbone object is saved with the embedder; a device belongs to the machine.
            "train": {
                key: value
                for key, value in self._group("train").items()
                if key != "device" and not (key == "backbone" and not isinstance(value, Mapping))
            },
            "cut": self._make_segmenter().settings() if custom else self._group("cut"),
        }

    def state(self) -> dict[str, Array]:
        check_fitted(self, "embedder_")
        curve, cut = self.embedder_.curve_, self.segmenter_.state().items()
        return {
            "embedder": _json_array({"settings": self.embedder_.settings(), "curve": curve.names}),
            "curve": np.array(curve.values, dtype=np.float64),
            "segmenter": _json_array(self.segmenter_.settings()),
            **{f"embedder.{key}": array for key, array in self.embedder_.state().items()},
            # The method stores the labels.
            **{f"segmenter.{key}": x for key, x in cut if not key.startswith("labels.")},
            **named_labels("labels.", self.labels_),
            "centres": self.centres_,
            "scale": np.array(self.scale_),
        }

    @classmethod
    def described(cls) -> dict[str, Setting]:
        """Settings of its own, `train.` and `loss.` of the embedder, `cut.` of the segmenters."""
        own = {name: x for name, x in settings_of(cls).items() if name not in ("train", "cut")}
        groups = [settings_of(kind) for kind in GROUPS.values()]
        grouped = {spelled(name): x for group in groups for name, x in group.items()}
        cuts = METHODS["procut"].described()
        return own | grouped | {f"cut.{name}": cuts[name] for name in cut_settings(["procut"])}

    @classmethod
    def arrange(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Sort `train.`, `loss.` and `cut.` settings into their groups."""
        plain = {name: value for name, value in settings.items() if "." not in name}
        segmenter = plain.get("segmenter", cls.segmenter)
        grouped = {name: value for name, value in settings.items() if "." in name}
        split = group_settings(grouped, cut_settings([segmenter]))
        for group, chosen in zip(("train", "cut"), split, strict=True):
            if chosen:
                plain[group] = {**(plain.get(group) or {}), **chosen}
        spec = plain.get("backbone")
        if (plain.get("train") or {}).get("tune_backbone") and isinstance(spec, FeatureSpec):
            plain["backbone"], plain["train"]["backbone"] = tune_backbone(spec)
        return plain

    @classmethod
    def restore(cls, settings: Mapping[str, Any], state: Mapping[str, Array]) -> Self:
        method = cls(**settings)
        about = json.loads(state["embedder"].tobytes())
        method.embedder_ = EMBEDDERS["cnc"].restore(about["settings"], part(state, "embedder."))
        curve = Curve(tuple(about["curve"]), state["curve"].tolist())
        method.curve_ = method.embedder_.curve_ = curve
        kind = find_saved("method", settings["segmenter"], METHODS, "segmenter")
        cut = json.loads(state["segmenter"].tobytes())
        method.segmenter_ = kind.restore(cut, part(state, "segmenter."))
        method.labels_ = saved_labels(state, "labels.")
        method.centres_, method.scale_ = state["centres"], float(state["scale"])
        method.steps_ = len(method.centres_)
        return method


def tune_backbone(spec: FeatureSpec) -> tuple[FeatureSpec, dict[str, str]]:
    """Frames as features, for end-to-end training, and the settings of the backbone of `spec`."""
    tuned = {name: getattr(spec, name) for name in ("backbone", "weights", "layer", "family")}
    if tuned["weights"] is not None:
        tuned["weights"] = str(Path(tuned["weights"]).absolute())
    return FeatureSpec("frames", fps=spec.fps), {key: x for key, x in tuned.items() if x}


def cut_settings(segmenters: Iterable[str] = SEGMENTERS) -> set[str]:
    """Settings of `segmenters`, without those that all methods share."""
    kinds: list[Any] = [find("method", name, METHODS, "segmenter") for name in segmenters]
    names = {name for kind in kinds for name in inspect.signature(kind).parameters}
    return names - {"steps", "rate", "seed"}


def _json_array(value: Any) -> NDArray[np.uint8]:
    """JSON as bytes, to store it beside arrays."""
    return np.frombuffer(json.dumps(plain_numbers(value)).encode(), dtype=np.uint8)


def _measure(
    embeddings: Sequence[Array], labels: Sequence[Labels], steps: int
) -> tuple[NDArray[np.float64], float]:
    """Mean embedding of each step, and the median distance of a frame to the nearest mean."""
    frames, numbers = np.concatenate(embeddings).astype(np.float64), np.concatenate(labels)
    each = [frames[numbers == k] for k in range(steps)]
    overall = frames.mean(axis=0)
    centres = np.stack([rows.mean(axis=0) if len(rows) else overall for rows in each])
    return centres, float(np.median(_nearest(frames, centres))) or 1.0


def _nearest(frames: Array, centres: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.sqrt(squared_distances(frames, centres).min(axis=1)))
