"""FeatureSpec: how features are computed. It travels with features and procedures."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Literal, Self

from stepcut.errors import OptionError, wrong
from stepcut.files import as_path, is_address, path_text
from stepcut.settings import as_rate, setting, settings_of

VECTORS = "vectors"  # stored instead of a backbone if a procedure was learned from feature files
SENSORS = "sensors"  # stored instead of a backbone in feature files of sensors
FETCH = "fetch"  # as `weights`, allows a download from a hub
LOOKED = "Put it at its old path, beside the folder of the procedure, or into the current folder."

Three = tuple[float, float, float]


@dataclass(frozen=True)
class FeatureSpec:
    """How features are computed: the network, the rate and the preprocessing, but not the device.

    A field that is None is read from the model file, or is the default of the network.

    Examples
    --------
    >>> FeatureSpec(fps=4).fps
    Fraction(4, 1)
    """

    backbone: str = setting(
        "efficientnet-lite0",
        "A name, a model file, `timm:`, `hf:` or `open_clip:` NAME, or `package.module:Class`.",
    )
    fps: Fraction = setting(Fraction(2), "Rows per second.", 0, 1000, above=True)
    weights: str | None = setting(
        None, 'A weights file; "fetch", or a name in `weights.FETCHABLE`, allows a download.'
    )
    layer: str | None = setting(None, "Block of resnet50 whose maps are used.")
    family: str | None = setting(None, 'Kind of ResNet-50 of the weights: "v1.5" or "v1".')
    size: int | None = setting(None, "Side of the square input frames in pixels.", 1, 4096)
    mean: Three | None = setting(
        None, "Subtracted from frames in 0..1, per channel in the order of `colour`."
    )
    scale: Three | None = setting(
        None, "Divisor after that; on most model cards, the standard deviation."
    )
    colour: Literal["rgb", "bgr"] | None = setting(
        None, 'Order of the colour channels: "rgb" or "bgr".'
    )
    output: str | None = setting(None, "Name of the output to use.")
    clip_frames: int | None = setting(
        None, "Frames per clip, for networks that compute a row from several frames.", 1, 1024
    )
    clip_fps: Fraction | None = setting(
        None,
        "Frames per second inside a clip, rounded to a multiple of `fps`.",
        0,
        1000,
        above=True,
    )
    columns: tuple[str, ...] | None = setting(
        None, "Names of the columns of sensor files, sorted; None if they have no header."
    )
    fast: bool = setting(
        False, "Decode less: a row may show a frame up to two rows older, in lower quality."
    )
    # start of the SHA-256 of the opened file
    digest: str | None = field(default=None, compare=False, repr=False)
    # whether custom code may be imported; not for a spec read from a file
    trusted: bool = field(default=True, compare=False, repr=False)

    def __post_init__(self) -> None:
        settings = settings_of(FeatureSpec)
        for each in fields(self):
            name, value = each.name, getattr(self, each.name)
            if name in _PARSERS and value is not None:
                object.__setattr__(self, name, _PARSERS[name](value, name))
            elif name in settings:
                settings[name].check(value)
        if self.scale is not None and 0 in self.scale:
            raise wrong("scale", self.scale, "contains 0, but is a divisor. Use 1 for 0..1.")
        if self.weights not in (None, FETCH) and not str(self.weights).startswith("torchvision:"):
            object.__setattr__(self, "weights", _file(str(self.weights), "weights"))
        if self.is_file:
            object.__setattr__(self, "backbone", _file(self.backbone, "backbone"))

    @property
    def is_file(self) -> bool:
        return PurePosixPath(self.backbone).suffix.lower() == ".onnx"

    @property
    def of_videos(self) -> bool:
        return self.backbone != SENSORS

    def unlike(self, other: Self) -> list[str]:
        """Return the fields in which `other` differs; files with equal digests may be anywhere."""
        names = ["digest"] if self.digest and other.digest else ["backbone", "weights"]
        names += [each.name for each in fields(self)[1:] if each.compare and each.name != "weights"]
        return [name for name in names if getattr(self, name) != getattr(other, name)]

    def opened(self, digest: str) -> Self:
        """Return the spec with the `digest` of the opened file; refuse that of another file."""
        if self.digest not in (None, digest):
            file = self.backbone if self.is_file else self.weights
            what = f"the file differs from the original (SHA-256 {digest}, not {self.digest})"
            raise OptionError(f"{file}: {what}. {LOOKED}", path=file)
        return replace(self, digest=digest)

    def to_json(self) -> dict[str, Any]:
        record: dict[str, Any] = {"name": self.backbone}
        for each in fields(self)[1:]:
            value = getattr(self, each.name)
            if each.name != "trusted" and value not in (None, False):
                value = str(value) if isinstance(value, Fraction) else value
                record[each.name] = list(value) if isinstance(value, tuple) else value
        return record

    @classmethod
    def from_json(cls, record: Mapping[str, Any], trust: bool = False) -> Self | None:
        """Read a `record` of any version, None for feature files; `trust` allows custom code."""
        if record["name"] == VECTORS:
            return None
        names = {each.name for each in fields(cls)[1:]} & record.keys() - {"trusted"}
        values = {name: record[name] for name in names}
        if record.get("times") == "fast":  # 0.2.0
            values["fast"] = True
        if record["name"] == SENSORS:  # of 0.3.0: the samples per second
            values.pop("clip_fps", None)
        return cls(record["name"], **values, trusted=trust)

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str]) -> Self | None:
        """Read the spec from the `metadata` of a feature file, if they have one."""
        return cls.from_json(json.loads(metadata["spec"])) if "spec" in metadata else None


def _whole(value: Any, name: str) -> int:
    with suppress(ValueError):
        value = int(value) if isinstance(value, str) else value
    settings_of(FeatureSpec)[name].check(value)
    return int(value)


def _three(value: Any, name: str) -> Three:
    parts = value.split(",") if isinstance(value, str) else value
    try:
        numbers = [float(part) for part in (parts if isinstance(parts, list | tuple) else [parts])]
    except (ValueError, TypeError, OverflowError):
        numbers = []
    numbers = numbers * 3 if len(numbers) == 1 else numbers
    if len(numbers) != 3 or not all(-16 <= number <= 16 for number in numbers):
        what = "is not three numbers for frames in 0..1 (divide those for 0..255 by 255). Example: "
        raise wrong(name, value, f"{what}0.485,0.456,0.406.")
    return numbers[0], numbers[1], numbers[2]


_PARSERS: dict[str, Callable[[Any, str], Any]] = {
    "fps": as_rate,
    "clip_fps": as_rate,
    "size": _whole,
    "clip_frames": _whole,
    "mean": _three,
    "scale": _three,
    "columns": lambda value, _: tuple(map(str, value)),
}
DEFAULT = FeatureSpec()


def as_spec(backbone: object, **settings: Any) -> FeatureSpec:
    """Return the spec of a `backbone`: a name, a spec, or an object, stored by its class."""
    chosen = {name: value for name, value in settings.items() if value is not None}
    if "weights" in chosen:
        chosen |= {"weights": path_text(chosen["weights"]), "digest": None}  # that of other weights
    if isinstance(backbone, str):
        return FeatureSpec(backbone, **chosen)
    spec = backbone if isinstance(backbone, FeatureSpec) else getattr(backbone, "spec", None)
    if not isinstance(spec, FeatureSpec):
        spec = FeatureSpec(f"{type(backbone).__module__}:{type(backbone).__qualname__}")
    return replace(spec, **chosen)


def find_files(record: Mapping[str, Any], folders: Sequence[Path]) -> dict[str, Any]:
    """Return the JSON form of a spec with moved model and weights files, found in `folders`."""
    found = dict(record)
    for key in ("name", "weights"):
        # The path may belong to another machine, and to Windows.
        name = PureWindowsPath(str(record.get(key))).name
        of_file = name.endswith((".onnx", ".safetensors", ".pth", ".pt"))
        if of_file and not Path(record[key]).exists():
            places = (str(folder / name) for folder in folders if (folder / name).is_file())
            found[key] = next(places, record[key])
    return found


def need_spec(spec: FeatureSpec | None) -> FeatureSpec:
    if spec is not None and spec.of_videos:
        return spec
    files = "a feature file (.npy, .npz, .safetensors)"
    of_sensors = "" if spec is None else " of sensors (stepcut features NEW.csv --rate 50 -o DIR)"
    what = "this procedure was learned from feature files, so it cannot compute features of videos."
    advice = f"Use {files}{of_sensors}, or learn it from videos."
    raise OptionError(f"{what} {advice}", setting="videos", allowed=files)


def _file(where: str, name: str) -> str:
    """Return the absolute path of a file, since a worker may have another working folder."""
    if is_address(where):
        raise wrong(name, where, "is an address, but must be a file. Copy it to this machine.")
    return str(as_path(where).absolute())
