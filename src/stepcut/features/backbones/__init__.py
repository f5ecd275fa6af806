"""Backbones: networks that turn frames into features, chosen by name, by file, or custom."""

import copyreg
import pickle
import sys
from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from stepcut.errors import FeatureError, OptionError, placed, wrong
from stepcut.features.backbones.foreign import HUBS, SETTINGS, load_file, load_hub
from stepcut.features.backbones.networks import load_lite0, load_resnet50
from stepcut.features.backbones.runtime import Backbone, Network, Place, choose_place
from stepcut.features.spec import FeatureSpec, as_spec
from stepcut.parallel.engine import Engine, import_folders
from stepcut.plugins import check_part, find, is_own
from stepcut.rate import Rate

BACKBONES: dict[str, Callable[[FeatureSpec, Place], Network]] = {
    "efficientnet-lite0": load_lite0,
    "resnet50": load_resnet50,
}
"""Built-in networks by name. `extract` also accepts "vectors", which reads feature files."""


def load_backbone(
    backbone: object = "efficientnet-lite0",
    device: str = "auto",
    gpus_elsewhere: bool = False,
    **settings: Any,
) -> Backbone:
    """Load a `backbone`: a name, a `FeatureSpec` or a custom object; `settings` are fields of a spec.

    With `gpus_elsewhere`, workers of a cluster will run it on their GPUs.
    """
    if not isinstance(backbone, str | FeatureSpec):
        return _checked(backbone)
    spec = as_spec(backbone, **settings)
    name = spec.backbone
    if name.endswith((".xml", ".tflite")):
        what = ": OpenVINO and TensorFlow Lite files are no longer read. Export the network as "
        what += ".onnx (for .tflite: python -m tf2onnx.convert --tflite)."
        raise wrong("backbone", name, what, ".onnx")
    load: Callable[[FeatureSpec, Place], Network]
    refused: tuple[str, ...]
    if spec.is_file:
        kind, load, refused = "file", load_file, ("weights", "layer", "family")
    elif name.partition(":")[0] in HUBS:
        kind, load, refused = "hub", load_hub, ("layer", "family", "output")
    elif name in BACKBONES:
        kind, load, refused = "own", BACKBONES[name], SETTINGS
    else:
        return _custom(spec)
    place = choose_place(kind, device, gpus_elsewhere)
    for setting in refused:
        if (value := getattr(spec, setting)) is not None:
            raise wrong(setting, value, f": {name} does not support it. Remove the setting.")
    with placed(setting="backbone", path=name if spec.is_file else None):
        return load(spec, place)


# In another process, a network is loaded again.
copyreg.pickle(Network, lambda network: (load_backbone, (network.spec, network.place.device)))  # type: ignore


def open_backbone(
    backbone: str | FeatureSpec | Backbone,
    fps: Rate | None = None,
    device: str = "auto",
    engine: Engine | None = None,
) -> tuple[Backbone, FeatureSpec]:
    """Open a `backbone` (a name, a spec or an object); return it with the spec of its features."""
    spec = as_spec(backbone, fps=fps)
    if not isinstance(backbone, str | FeatureSpec):
        return load_backbone(backbone), spec
    there = engine is not None and engine.gpu_share(device) > 0
    network = load_backbone(spec, device, gpus_elsewhere=there)
    return network, network.spec if isinstance(network, Network) else spec  # files complete it


def can_travel(backbone: Backbone) -> bool:
    """Return whether a worker can import a backbone: no class of a notebook or the current folder."""
    module = sys.modules.get(type(backbone).__module__.partition(".")[0])
    places = [*getattr(module, "__path__", []), getattr(module, "__file__", None) or ""]
    if not any(str(Path(place).parent) in import_folders() for place in places):
        return False
    try:
        return bool(pickle.dumps(backbone))
    except Exception:  # a custom backbone may contain anything
        return False


def pack(backbone: Backbone) -> partial[Backbone]:
    """Return a function that opens `backbone` in a worker, once per worker."""
    try:
        return partial(unpack, backbone.fingerprint, pickle.dumps(backbone))
    except Exception as error:  # a custom backbone may contain anything
        what = f"backbone {backbone.name} cannot be sent to workers ({error}). Add a __reduce__ to "
        advice = "its class, or run without engine and workers."
        raise OptionError(what + advice, setting="backbone") from error


@lru_cache(maxsize=1)
def unpack(fingerprint: str, packed: bytes) -> Backbone:
    """Open a packed backbone; refuse one with another `fingerprint`, thus other features."""
    try:
        backbone: Backbone = pickle.loads(packed)  # from our own driver, never from a file
    except (AttributeError, ImportError) as error:  # defined in a notebook, or not installed here
        what = f"a worker cannot import the class of the backbone ({error})"
        raise FeatureError(f"{what}. Move it to a module that all workers can import.") from error
    if backbone.fingerprint != fingerprint:
        what = f"this worker's backbone is {backbone.fingerprint!r}, the driver's {fingerprint!r}"
        advice = "Install the same packages on all machines, or set the device: --device cpu."
        raise FeatureError(f"{what}. {advice}")
    return backbone


def _custom(spec: FeatureSpec) -> Backbone:
    name = spec.backbone
    if is_own(name) and not spec.trusted:
        what = "is custom code named by a file. If you trust it, use trust=True (--trust)."
        raise wrong("backbone", name, what)
    make: Callable[..., Any] = find("backbone", name, BACKBONES)
    try:
        return _checked(make())
    except TypeError as error:
        what = f"cannot be created without arguments ({error}). Pass the object instead."
        raise wrong("backbone", name, what) from error


def _checked(backbone: object) -> Backbone:
    needed = ("name", "dim", "size", "fingerprint", "extract")
    check_part("backbone", backbone, backbone, needed, BACKBONES)
    own = cast(Backbone, backbone)
    counts = all(isinstance(n, int | np.integer) and n > 0 for n in (own.dim, own.size))
    if not (counts and isinstance(own.name, str) and isinstance(own.fingerprint, str)):
        seen = ", ".join(f"{name}={getattr(own, name)!r}" for name in needed[:4])
        what = f": {seen}; dim and size must be integers above 0, name and fingerprint strings."
        raise wrong("backbone", own, what)
    return own
