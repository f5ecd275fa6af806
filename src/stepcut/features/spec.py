"""FeatureSpec: how features were made. It travels with features and procedures, and nothing else carries this."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any

from stepcut.errors import OptionError
from stepcut.files.addresses import as_path
from stepcut.rate import as_rate

VECTORS = "vectors"
"""What a procedure says in place of a backbone when it was learned from given features."""


@dataclass(frozen=True)
class FeatureSpec:
    """Which network makes how many rows per second, and how frames are handed to it. Never the device.

    What is None is read from the network's file, or is the network's own default.
    """

    backbone: str = "efficientnet-lite0"
    """A name, a model file (.onnx, .xml, .tflite), or `package.module:Class`."""
    fps: Fraction = Fraction(2)
    """Rows per second."""
    weights: str | None = None
    """A file of weights, from the root, or a word that fetches one."""
    layer: str | None = None
    """The block of resnet50 whose maps are kept."""
    family: str | None = None
    """Which kind of ResNet-50 the weights are for: "v1.5" or "v1"."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "fps", as_rate(self.fps))
        if self.weights is not None and not self.weights.startswith("torchvision:"):
            # Whoever opens it may have another working folder.
            object.__setattr__(self, "weights", str(as_path(self.weights).absolute()))

    def to_json(self) -> dict[str, Any]:
        """What config.json holds under `backbone`; settings that are None are left out."""
        said = {each.name: getattr(self, each.name) for each in fields(self) if getattr(self, each.name) is not None}
        return {"name": said.pop("backbone"), **said, "fps": str(self.fps)}

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> FeatureSpec | None:
        """The spec that `to_json` or stepcut 0.1.0 (which also kept the device) wrote; None for given features."""
        if said["name"] == VECTORS:
            return None
        names = [each.name for each in fields(cls)]
        given = {key: value for key, value in said.items() if key in names and value is not None}
        for key, value in given.items():
            if key != "fps" and not isinstance(value, str):
                raise OptionError(f"backbone: {key}={value!r} is not a word.")
        return cls(str(said["name"]), **given)

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str]) -> FeatureSpec | None:
        """The spec that a feature file carries; None where it says nothing of its backbone."""
        if "spec" in metadata:
            return cls.from_json(json.loads(metadata["spec"]))
        # stepcut 0.1.0 wrote the fingerprint of the backbone, which begins with its name.
        if metadata.get("backbone", "").startswith("efficientnet-lite0 ") and "rate" in metadata:
            return cls("efficientnet-lite0", as_rate(metadata["rate"]))
        return None


DEFAULT = FeatureSpec()


def as_spec(backbone: object, **settings: Any) -> FeatureSpec:
    """The spec of the features that a backbone makes.

    backbone  a name, a spec, or an object, which is remembered by the place of its class
    settings  of the spec (fps, weights, ...); what is None is left as it is
    """
    given = {name: value for name, value in settings.items() if value is not None}
    if isinstance(backbone, str):
        return FeatureSpec(backbone, **given)
    spec = backbone if isinstance(backbone, FeatureSpec) else getattr(backbone, "spec", None)
    if not isinstance(spec, FeatureSpec):
        spec = FeatureSpec(f"{type(backbone).__module__}:{type(backbone).__qualname__}")
    return replace(spec, **given)


def need_spec(spec: FeatureSpec | None) -> FeatureSpec:
    """The spec; an error where there is none and a video was given."""
    if spec is None:
        raise OptionError(
            "this procedure was learned from given features, and no network is known that makes them of pictures. "
            "Give a feature file (.npy, .npz, .safetensors), or learn it from videos."
        )
    return spec
