"""What a backbone is: a network that turns frames, or clips of frames, into rows of features; what ours are made of.

Stepcut's own networks are convolutions with batch norm folded in, and one function that says how they are joined, by
the names of torch's functions. With torch's own it computes, and learns where the weights are parameters; with those
that stand for operations of OpenVINO it builds a model.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import OptionError
from stepcut.features.backbones import openvino_runtime as ov
from stepcut.features.spec import FeatureSpec

Frames = NDArray[np.uint8]
Rows = NDArray[Any]
Array = NDArray[np.float32]
Convs = Mapping[str, tuple[Any, Any]]
"""Weight and bias of every convolution of a network, by name: arrays, or tensors."""
Place = tuple[str, str]
"""Where a network runs: device and runtime."""


@runtime_checkable
class Backbone(Protocol):
    """What stepcut asks of a backbone; any object with these four names and one verb will do.

    It may also say `batch` (frames that it takes at a time, 32 where it does not say), `clip_frames` and `clip_fps`:
    then it is given clips, `clip_frames` frames that lie 1 / `clip_fps` seconds apart, centred on the time of the row.
    """

    name: str
    dim: int
    """Length of a feature vector, or channels of a feature map."""
    size: int
    """Side of the square frames it takes."""
    fingerprint: str
    """Changes whenever its features would: stored features are found again by it."""

    def extract(self, frames: Frames) -> Rows:
        """RGB `frames` (n, size, size, 3), or clips (n, clip_frames, size, size, 3), to (n, dim) or (n, dim, h, w)."""


@dataclass(eq=False, repr=False)
class Network:
    """A backbone that stepcut runs, built at its first use: a run that finds all features stored builds none.

    `spec` says how its features are made, `build` makes what computes them at a `place`; `name`, `dim`, `size` and
    `fingerprint` are those of `Backbone`.
    """

    spec: FeatureSpec
    name: str
    dim: int
    """0 where no file says it: then it is that of a black frame."""
    size: int
    fingerprint: str
    build: Callable[[], Callable[[Frames], Rows]]
    place: Place
    load: Callable[..., Backbone] | None = None
    """What made it: in another process it is made again by the same call."""

    def __post_init__(self) -> None:
        self.device, self.runtime = self.place
        self.clip_frames, self.clip_fps = self.spec.clip_frames or 1, self.spec.clip_fps
        self.batch = max(1, (128 if self.device.startswith("cuda") else 16) // self.clip_frames)
        self._run: Callable[[Frames], Rows] | None = None
        self.shape = (
            *((self.clip_frames,) if self.clip_frames > 1 else ()),
            self.size,
            self.size,
            3,
        )
        self.dim = self.dim or self.extract(np.zeros((1, *self.shape), np.uint8)).shape[1]

    def __repr__(self) -> str:
        clips = f"clips of {self.clip_frames} " if self.clip_frames > 1 else ""
        where = f"{self.runtime} on {self.device}"
        return f"<Backbone {self.name}, {self.dim} numbers from {clips}{self.size} x {self.size}, {where}>"

    def __reduce__(self) -> tuple[object, ...]:
        return self.load, (self.spec, self.device, self.runtime)

    def extract(self, frames: Frames) -> Rows:
        """The features in half precision of `frames`, (n, size, size, 3) RGB, or clips of them."""
        if frames.shape[1:] != self.shape or frames.dtype != np.uint8:
            given, wanted = (
                f"frames of shape {frames.shape} and type {frames.dtype}",
                ", ".join(map(str, self.shape)),
            )
            raise OptionError(f"{given} do not fit {self.name}; give uint8 (n, {wanted}).")
        self._run = self._run or self.build()
        return self._run(frames)


@dataclass(frozen=True)
class Graph:
    """A network with its weights: `forward(functions, x, convs, **options)` for normalised frames `x` (n, 3, H, W)."""

    name: str
    forward: Callable[..., Any]
    convs: dict[str, tuple[Array, Array]]
    mean: tuple[float, float, float]
    """Frames go in as (frame / 255 - mean) / scale, RGB."""
    scale: tuple[float, float, float]
    options: dict[str, str] = field(default_factory=dict)
    """Which kind of this network it is."""


def fold(weights: Mapping[str, Any], conv: str, norm: str, eps: float) -> tuple[Array, Array]:
    """Weight and bias of the convolution `conv` of `weights` with the batch norm `norm` after it folded in.

    gamma (W x - mu) / sqrt(var + eps) + beta  =  (W s) x + (beta - mu s),  s = gamma / sqrt(var + eps)
    """
    parts = (f"{norm}.{part}" for part in ("weight", "bias", "running_mean", "running_var"))
    gamma, beta, mu, var = (np.asarray(weights[part], np.float64) for part in parts)
    s = gamma / np.sqrt(var + eps)
    bias = beta - mu * s
    if f"{conv}.bias" in weights:  # Keras and Caffe keep a bias before the batch norm
        bias = bias + np.asarray(weights[f"{conv}.bias"], np.float64) * s
    w = np.asarray(weights[f"{conv}.weight"], np.float64)
    return (w * s[:, None, None, None]).astype(np.float32), bias.astype(np.float32)


def run_graph(graph: Graph, size: int, place: Place) -> Callable[[Frames], Rows]:
    """What computes the rows of a `graph` from frames of `size` x `size` at a `place`."""
    device, runtime = place
    if runtime == "openvino":
        openvino = ov.import_openvino()
        shape = (-1, size, size, 3)
        frames, x = ov.frames_to(
            shape, (0, 3, 1, 2), graph.mean, graph.scale, False, openvino.Type.f32
        )
        model = openvino.Model(
            [graph.forward(ov.functions(), x, graph.convs, **graph.options)], [frames], "stepcut"
        )
        return ov.OpenVinoRuntime(model)
    from stepcut.features.backbones import torch_runtime

    convs = torch_runtime.as_tensors(graph.convs, device)

    def forward(x: Any) -> Any:
        return graph.forward(torch_runtime.FUNCTIONS, x, convs, **graph.options)

    return torch_runtime.TorchRuntime(forward, graph.mean, graph.scale, device)


def precision(place: Place) -> str:
    """The end of a fingerprint at a `place`: the precision follows the machine (OpenVINO) or the device (torch)."""
    device, runtime = place
    return (
        f"openvino-{ov.precision()}"
        if runtime == "openvino"
        else f"{runtime}-{device.split(':')[0]}"
    )
