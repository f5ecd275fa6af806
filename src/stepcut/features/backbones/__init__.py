"""Backbones: networks that turn frames into features. Choose one by name, or hand over your own object."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import ExtraNeeded, OptionError, choose, unknown
from stepcut.features.backbones.openvino_engine import precision
from stepcut.features.backbones.program import Program
from stepcut.features.spec import VECTORS, FeatureSpec


@runtime_checkable
class Backbone(Protocol):
    """What stepcut asks of a backbone; any object with these four names and one verb will do."""

    name: str
    dim: int
    """Length of a feature vector, or channels of a feature map."""
    size: int
    """Side of the square frames it takes."""
    fingerprint: str
    """Changes whenever its features would: stored features are found again by it."""

    def extract(self, frames: NDArray[np.uint8]) -> NDArray[Any]:
        """(n, size, size, 3) RGB to (n, dim) vectors or (n, dim, h, w) maps."""


@dataclass(frozen=True)
class Place:
    """Where and with what a network runs."""

    device: str
    engine: str
    threads: int | None = None


class Network:
    """A backbone of stepcut's own. The engine is built at the first use, so a run that finds all stored loads none."""

    def __init__(
        self, name: str, dim: int, size: int, weights_id: str, program: Callable[[], Program], place: Place
    ) -> None:
        self.name, self.dim, self.size = name, dim, size
        self.device, self.engine, self.threads = place.device, place.engine, place.threads
        # The precision follows the machine (OpenVINO) or the device (torch).
        kind = precision() if place.engine == "openvino" else place.device.split(":")[0]
        self.fingerprint = f"{name} {weights_id} {place.engine}-{kind}"
        self.batch = 128 if place.device.startswith("cuda") else 16
        self.spec = FeatureSpec(name)
        self._program = program
        self._run: Callable[[NDArray[np.uint8]], NDArray[np.float16]] | None = None

    def __repr__(self) -> str:
        return (
            f"<Backbone {self.name}, {self.dim} numbers from {self.size} x {self.size}, {self.engine} on {self.device}>"
        )

    def __reduce__(self) -> tuple[object, ...]:
        """To another process it travels as the call that made it."""
        return load_backbone, (self.spec, self.device, self.engine, self.threads)

    def extract(self, frames: NDArray[np.uint8]) -> NDArray[Any]:
        """(n, size, size, 3) RGB to features in half precision."""
        if frames.ndim != 4 or frames.shape[1:] != (self.size, self.size, 3) or frames.dtype != np.uint8:
            raise OptionError(
                f"frames of shape {frames.shape} and type {frames.dtype} do not fit {self.name}; "
                f"give uint8 (n, {self.size}, {self.size}, 3), for example from sample_frames(path, size={self.size})."
            )
        if self._run is None:
            self._run = self._build()
        return self._run(frames)

    def _build(self) -> Callable[[NDArray[np.uint8]], NDArray[np.float16]]:
        if self.engine == "openvino":
            from stepcut.features.backbones.openvino_engine import OpenVinoEngine

            return OpenVinoEngine(self._program(), self.size, self.threads)
        from stepcut.features.backbones.torch_engine import TorchEngine

        return TorchEngine(self._program(), self.device, self.threads)


def _lite0(place: Place, spec: FeatureSpec) -> Network:
    from stepcut.features.backbones.lite0 import DIM, SIZE, lite0, weights_file
    from stepcut.features.backbones.weights import hash_file, read_weights

    if spec.layer is not None or spec.family is not None:
        raise OptionError(
            f"layer={spec.layer!r}, family={spec.family!r}: efficientnet-lite0 has no such choice; it is for "
            "backbone='resnet50'."
        )
    file = weights_file() if spec.weights is None else spec.weights
    return Network("efficientnet-lite0", DIM, SIZE, hash_file(file)[:16], lambda: lite0(read_weights(file)[0]), place)


def _resnet50(place: Place, spec: FeatureSpec) -> Network:
    from stepcut.features.backbones.resnet50 import FAMILIES, SIZE, family_of, map_shape, resnet50
    from stepcut.features.backbones.weights import FETCHABLE, fetch_weights, hash_file, read_weights

    weights = spec.weights
    if weights is None:
        raise OptionError(
            "backbone='resnet50' comes without weights (weights=None). Give a .safetensors or .pth file of a ResNet-50 "
            f"or one of these words to fetch 100 MB once: {', '.join(FETCHABLE)}."
        )
    layer = spec.layer or "conv4c"
    channels, _, _ = map_shape(layer)
    if spec.family is not None:
        choose("family", spec.family, FAMILIES)
    file = fetch_weights(weights) if weights.startswith("torchvision:") else weights
    arrays, metadata = read_weights(file)
    kind = spec.family or family_of(arrays, metadata)
    program = resnet50(arrays, layer, kind)  # now, so that a file that does not fit is told of before any decoding
    return Network("resnet50", channels, SIZE, f"{layer} {kind} {hash_file(file)[:16]}", lambda: program, place)


BACKBONES: dict[str, Callable[..., Network]] = {"efficientnet-lite0": _lite0, "resnet50": _resnet50}
"""The networks by name. `vectors`, the third word that `extract` knows, reads given features and needs no network."""


def load_backbone(
    backbone: object = "efficientnet-lite0",
    device: str = "auto",
    engine: str = "auto",
    threads: int | None = None,
    **settings: Any,
) -> Backbone:
    """The backbone of that name or spec, or the object itself if it is one already.

    backbone  a name, a `FeatureSpec`, or a backbone of your own
    device    auto, cpu or cuda
    engine    auto (the fastest installed), openvino or torch
    threads   CPU threads of the engine, all cores unless given
    settings  of the spec, where a name is given: weights, layer, family
    """
    if isinstance(backbone, str):
        weights = settings.get("weights")
        backbone = FeatureSpec(backbone, **{**settings, "weights": None if weights is None else os.fspath(weights)})
    if not isinstance(backbone, FeatureSpec):
        if isinstance(backbone, Backbone):
            return backbone
        missing = [n for n in ("name", "dim", "size", "fingerprint", "extract") if not hasattr(backbone, n)]
        raise OptionError(
            f"backbone={backbone!r} has no {', '.join(missing)}. Give a name ({', '.join(BACKBONES)}) or an object "
            "with name, dim, size, fingerprint and extract(frames)."
        )
    if backbone.backbone not in BACKBONES:
        raise OptionError(unknown("backbone", backbone.backbone, [*BACKBONES, VECTORS]))
    where = choose_device(device)
    network = BACKBONES[backbone.backbone](Place(where, choose_engine(engine, where), threads), backbone)
    network.spec = backbone
    return network


def choose_device(device: str = "auto") -> str:
    """`auto`: CUDA when there is one, else the CPU."""
    if device == "cpu":
        return "cpu"
    import torch

    cuda = torch.cuda.is_available()
    if device == "auto":
        return "cuda" if cuda else "cpu"
    if device.split(":")[0] != "cuda":
        raise OptionError(unknown("device", device, ["auto", "cpu", "cuda"]))
    if not cuda:
        raise OptionError(f"device={device!r}: torch {torch.__version__} sees no CUDA GPU here. Use device='cpu'.")
    return device


def choose_engine(engine: str, device: str) -> str:
    """`auto`: OpenVINO for a CPU when it is installed, else torch."""
    present = importlib.util.find_spec("openvino") is not None
    if engine == "auto":
        return "openvino" if device == "cpu" and present else "torch"
    if engine not in ("openvino", "torch"):
        raise OptionError(unknown("engine", engine, ["auto", "openvino", "torch"]))
    if engine == "openvino" and device != "cpu":
        raise OptionError(f"engine='openvino' runs on a CPU, not on device={device!r}. Use engine='torch'.")
    if engine == "openvino" and not present:
        raise ExtraNeeded("engine='openvino' is not installed. Run: pip install openvino")
    return engine
