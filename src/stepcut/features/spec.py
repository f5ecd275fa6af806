"""FeatureSpec: how features were made. It travels with features and procedures, and nothing else carries this."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Self

from stepcut.errors import OptionError, choose
from stepcut.files.addresses import as_path, is_address, path_text
from stepcut.rate import as_rate

VECTORS = "vectors"
"""What a procedure says in place of a backbone when it was learned from given features."""
SENSORS = "sensors"
"""What stands in place of a backbone where rows were made of sensor files; `clip_fps` are then samples per second."""
MODEL_FILES = (".onnx", ".xml", ".tflite")
"""Suffixes of networks in files: ONNX, OpenVINO, TensorFlow Lite."""
FETCH = "fetch"
"""The word for `weights` that allows a download, for backbones that come from a hub."""

LOOKED = "A procedure finds it where it was, else beside its own folder, else in the folder you are in: put it there."

Three = tuple[float, float, float]


@dataclass(frozen=True)
class FeatureSpec:
    """Which network makes how many rows per second, and how frames are handed to it. Never the device.

    What is None is read from the network's file, or is the network's own default.
    """

    backbone: str = "efficientnet-lite0"
    """A name, a model file (.onnx, .xml, .tflite), `timm:`, `hf:` or `open_clip:` NAME, or `package.module:Class`."""
    fps: Fraction = Fraction(2)
    """Rows per second."""
    weights: str | None = None
    """A file of weights; "fetch", or a word of `weights.FETCHABLE`, allows a download."""
    layer: str | None = None
    """The block of resnet50 whose maps are kept."""
    family: str | None = None
    """Which kind of ResNet-50 the weights are for: "v1.5" or "v1"."""
    size: int | None = None
    """Side of the square frames that the network takes."""
    mean: Three | None = None
    """Subtracted from frames of 0 to 1, red, green and blue in the order that the network wants."""
    scale: Three | None = None
    """What they are then divided by; the standard deviations, on most model cards."""
    colour: str | None = None
    """The order of the colours that the network wants: "rgb" or "bgr"."""
    output: str | None = None
    """The name of the output that is kept."""
    clip_frames: int | None = None
    """Frames of a clip, for networks that make a row of several frames."""
    clip_fps: Fraction | None = None
    """Frames per second inside a clip, a multiple of `fps` (the nearest one is taken)."""
    fast: bool = False
    """Decode less: a row may show a frame up to two rows older, and pictures are rougher."""
    digest: str | None = field(default=None, compare=False, repr=False)
    """How the SHA-256 of the model file, or of the weights, begins: known once the file was opened."""
    trusted: bool = field(default=True, compare=False, repr=False)
    """Whether code that `backbone` names may be imported: not where the spec comes from a file of somebody else."""

    def __post_init__(self) -> None:
        checks: dict[str, Callable[[Any], object]] = {
            "fps": as_rate,
            "clip_fps": lambda value: as_rate(value, "clip_fps"),
            "size": lambda value: _whole(value, "size", 4096),
            "clip_frames": lambda value: _whole(value, "clip_frames", 1024),
            "mean": lambda value: _three(value, "mean"),
            "scale": lambda value: _three(value, "scale"),
        }
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name in checks and value is not None:
                object.__setattr__(self, each.name, checks[each.name](value))
            elif (
                each.name not in ("trusted", "fast")
                and value is not None
                and not isinstance(value, str)
            ):
                raise OptionError(f"{each.name}={value!r} is not a word.")
        if self.scale is not None and 0 in self.scale:
            raise OptionError(
                f"scale={self.scale} holds 0, and frames are divided by it. For frames of 0 to 1 give 1."
            )
        if self.colour is not None:
            choose("colour", self.colour, {"rgb": 1, "bgr": 2})
        if (
            self.weights is not None
            and self.weights != FETCH
            and not self.weights.startswith("torchvision:")
        ):
            object.__setattr__(self, "weights", _file(self.weights, "weights"))
        if self.is_file:
            object.__setattr__(self, "backbone", _file(self.backbone, "backbone"))

    @property
    def is_file(self) -> bool:
        """Whether the backbone is a model file."""
        return PurePosixPath(self.backbone).suffix.lower() in MODEL_FILES

    def unlike(self, other: Self) -> list[str]:
        """The settings in which `other` differs; files whose digests are known may lie anywhere."""
        files = ["digest"] if self.digest and other.digest else ["backbone", "weights"]
        rest = [
            each.name
            for each in fields(self)
            if each.compare and each.name not in ("backbone", "weights")
        ]
        return [name for name in files + rest if getattr(self, name) != getattr(other, name)]

    def opened(self, digest: str) -> Self:
        """The spec with the `digest` of the file that was opened; one that it knew must be the same."""
        if self.digest not in (None, digest):
            what = f"it is another file than the one learned with (SHA-256 {digest}, not {self.digest})"
            raise OptionError(
                f"{self.backbone if self.is_file else self.weights}: {what}. {LOOKED}"
            )
        return replace(self, digest=digest)

    def to_json(self) -> dict[str, Any]:
        """What config.json holds under `backbone`; settings that are None are left out."""
        said = {
            each.name: getattr(self, each.name) for each in fields(self) if each.name != "trusted"
        }
        said = {
            name: str(value)
            if isinstance(value, Fraction)
            else list(value)
            if isinstance(value, tuple)
            else value
            for name, value in said.items()
            if value not in (None, False)
        }
        return {"name": said.pop("backbone"), **said}

    @classmethod
    def from_json(cls, said: Mapping[str, Any], trust: bool = False) -> Self | None:
        """The spec that `to_json` `said`, or that of an earlier version; None for given features.
        `trust`: whether code that it names may be imported."""
        if said["name"] == VECTORS:
            return None
        names = [each.name for each in fields(cls) if each.name not in ("backbone", "trusted")]
        given = {name: said[name] for name in names if name in said}
        if said.get("times") == "fast":  # 0.2.0
            given["fast"] = True
        return cls(said["name"], **given, trusted=trust)

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str]) -> Self | None:
        """The spec that a feature file carries; None where it says nothing of its backbone."""
        if "spec" in metadata:
            return cls.from_json(json.loads(metadata["spec"]))
        # stepcut 0.1.0 wrote the fingerprint of the backbone, which begins with its name.
        if metadata.get("backbone", "").startswith("efficientnet-lite0 ") and "rate" in metadata:
            return cls("efficientnet-lite0", as_rate(metadata["rate"]))
        return None


DEFAULT = FeatureSpec()


def as_spec(backbone: object, **settings: Any) -> FeatureSpec:
    """The spec of the features that a `backbone` makes: a name, a spec, or an object, which is remembered by the place
    of its class. Of `settings` (fps, weights, ...) what is None is left as it is."""
    given = {name: value for name, value in settings.items() if value is not None}
    if "weights" in given:
        given |= {"weights": path_text(given["weights"]), "digest": None}  # that of other weights
    if isinstance(backbone, str):
        return FeatureSpec(backbone, **given)
    spec = backbone if isinstance(backbone, FeatureSpec) else getattr(backbone, "spec", None)
    if not isinstance(spec, FeatureSpec):
        spec = FeatureSpec(f"{type(backbone).__module__}:{type(backbone).__qualname__}")
    return replace(spec, **given)


def find_files(said: Mapping[str, Any], folders: Sequence[Path]) -> dict[str, Any]:
    """What is `said` for `FeatureSpec.from_json`, with the model file and the weights where they lie now: one that is
    not where it was is looked for by its name in `folders`."""
    found = dict(said)
    for key in ("name", "weights"):
        # The path may be one of another machine, and of Windows.
        name = PureWindowsPath(str(said.get(key))).name
        if (
            name.endswith((*MODEL_FILES, ".safetensors", ".pth", ".pt"))
            and not Path(said[key]).exists()
        ):
            found[key] = next(
                (str(folder / name) for folder in folders if (folder / name).is_file()), said[key]
            )
    return found


def need_spec(spec: FeatureSpec | None) -> FeatureSpec:
    """The spec of what makes features of videos; an error where nothing does."""
    if spec is not None and spec.backbone != SENSORS:
        return spec
    what, give = (
        ("given features", "a feature file (.npy, .npz, .safetensors)")
        if spec is None
        else ("sensor files", "a sensor file (.csv)")
    )
    raise OptionError(
        f"this procedure was learned from {what}; no network is known that makes its features of pictures. "
        f"Give {give}, or learn it from videos."
    )


def _file(where: str, name: str) -> str:
    """The whole path of a file, since whoever opens it may have another working folder."""
    if is_address(where):
        raise OptionError(
            f"{name}={where!r} is an address, and a file is wanted. Copy it to this machine."
        )
    return str(as_path(where).absolute())


def _whole(value: Any, name: str, most: int) -> int:
    try:
        number = int(value)
    except (ValueError, TypeError, OverflowError):
        number = 0
    if (
        isinstance(value, bool)
        or not 0 < number <= most
        or (not isinstance(value, str) and number != value)
    ):
        raise OptionError(f"{name}={value!r}; give a whole number from 1 to {most}.")
    return number


def _three(value: Any, name: str) -> Three:
    """Three numbers, from "0.5,0.5,0.5", a list, or one number for all."""
    parts = (
        value.split(",")
        if isinstance(value, str)
        else value
        if isinstance(value, list | tuple)
        else [value]
    )
    try:
        numbers = [float(part) for part in parts]
    except (ValueError, TypeError, OverflowError):
        numbers = []
    numbers = numbers * 3 if len(numbers) == 1 else numbers
    if len(numbers) != 3 or not all(-16 <= number <= 16 for number in numbers):
        what = "three numbers for frames of 0 to 1 (for those of 0 to 255, divided by 255)"
        raise OptionError(f"{name}={value!r}; give {what}, such as 0.485,0.456,0.406.")
    return numbers[0], numbers[1], numbers[2]
