"""The contract of backbones, which turn frames or clips into rows of features, and our own ones.

A built-in network is a function `forward` over folded convolutions, written with the names of
torch's functions. torch runs it, or it builds a model of OpenVINO.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import OptionError
from stepcut.features.backbones import openvino_runtime as ov
from stepcut.features.spec import FeatureSpec

Frames = NDArray[np.uint8]
Rows = NDArray[Any]
Array = NDArray[np.float32]
Convs = Mapping[str, tuple[Any, Any]]
"""Name -> weight and bias of each convolution, as arrays or tensors."""


class Place(NamedTuple):
    """Where a network runs."""

    device: str
    runtime: str
    """"openvino" or "torch"."""


@runtime_checkable
class Backbone(Protocol):
    """The contract of a backbone: four attributes and one method.

    Optional attributes: `batch` (frames per call, 32 by default), `clip_frames` and `clip_fps`.
    With these, it gets clips of `clip_frames` frames, 1 / `clip_fps` seconds apart and centred on
    the time of the row.
    """

    name: str
    size: int
    """Side of the square input frames in pixels."""
    fingerprint: str
    """Changes whenever the features change; part of the name of cached features."""

    @property
    def dim(self) -> int:
        """Length of a feature vector, or channels of a feature map."""

    def extract(self, frames: Frames) -> Rows:
        """Compute rows (n, dim) or (n, dim, h, w) from uint8 RGB frames.

        `frames` are (n, size, size, 3), or clips (n, clip_frames, size, size, 3).
        """


@dataclass(eq=False, repr=False)
class Network:
    """A backbone that stepcut runs. It is built at its first use, so cached features need none.

    `build` returns the function that computes rows at a `place`.
    """

    spec: FeatureSpec
    name: str
    stated_dim: int
    """0 if no file states it: then it is measured on a black frame."""
    size: int
    fingerprint: str
    build: Callable[[], Callable[[Frames], Rows]]
    place: Place

    def __post_init__(self) -> None:
        self.device = self.place.device
        self.clip_frames, self.clip_fps = self.spec.clip_frames or 1, self.spec.clip_fps
        self.batch = max(1, (128 if self.device.startswith("cuda") else 16) // self.clip_frames)
        clip = (self.clip_frames,) if self.clip_frames > 1 else ()
        self.shape = (*clip, self.size, self.size, 3)

    def __repr__(self) -> str:
        clips = f"clips of {self.clip_frames} " if self.clip_frames > 1 else ""
        where = f"{self.place.runtime} on {self.device}"
        frame = f"{clips}{self.size} x {self.size}"
        return f"<Backbone {self.name}, {self.dim} numbers from {frame}, {where}>"

    @cached_property
    def dim(self) -> int:
        measured = self.stated_dim or self.extract(np.zeros((1, *self.shape), np.uint8)).shape[1]
        return int(measured)

    @cached_property
    def _run(self) -> Callable[[Frames], Rows]:
        return self.build()

    def extract(self, frames: Frames) -> Rows:
        """Compute the features of RGB `frames` (n, size, size, 3), or clips, in half precision."""
        if frames.shape[1:] != self.shape or frames.dtype != np.uint8:
            seen = f"frames of shape {frames.shape} and type {frames.dtype}"
            wanted = ", ".join(map(str, self.shape))
            raise OptionError(
                f"{seen} do not fit {self.name}. Use uint8 (n, {wanted}).",
                setting="frames",
                value=frames.shape,
                allowed=self.shape,
            )
        return self._run(frames)


@dataclass(frozen=True)
class Graph:
    """A network: `forward(functions, x, convs, **options)` for normalised `x` (n, 3, H, W)."""

    name: str
    forward: Callable[..., Any]
    convs: dict[str, tuple[Array, Array]]
    mean: tuple[float, float, float]
    """The input is (frame / 255 - mean) / scale, RGB."""
    scale: tuple[float, float, float]
    options: dict[str, str] = field(default_factory=dict)
    """Variant of the network."""


def fold(weights: Mapping[str, Any], conv: str, norm: str, eps: float) -> tuple[Array, Array]:
    """Fold the batch norm `norm` into the convolution `conv`; return weight and bias.

    gamma (W x - mu) / sqrt(var + eps) + beta = (W s) x + (beta - mu s),
    s = gamma / sqrt(var + eps)
    """
    parts = (f"{norm}.{part}" for part in ("weight", "bias", "running_mean", "running_var"))
    gamma, beta, mu, var = (np.asarray(weights[part], np.float64) for part in parts)
    s = gamma / np.sqrt(var + eps)
    bias = beta - mu * s
    if f"{conv}.bias" in weights:  # Keras and Caffe have a bias before the batch norm
        bias = bias + np.asarray(weights[f"{conv}.bias"], np.float64) * s
    w = np.asarray(weights[f"{conv}.weight"], np.float64)
    return (w * s[:, None, None, None]).astype(np.float32), bias.astype(np.float32)


def run_graph(graph: Graph, size: int, place: Place) -> Callable[[Frames], Rows]:
    """Return the function that computes the rows of a `graph` from frames of `size` x `size`."""
    if place.runtime == "openvino":
        openvino = ov.import_openvino()
        shape, kind = (-1, size, size, 3), openvino.Type.f32
        frames, x = ov.frames_to(shape, (0, 3, 1, 2), graph.mean, graph.scale, False, kind)
        y = graph.forward(ov.functions(), x, graph.convs, **graph.options)
        return ov.OpenVinoRuntime(openvino.Model([y], [frames], "stepcut"))
    from stepcut.features.backbones import torch_runtime

    convs = torch_runtime.as_tensors(graph.convs, place.device)

    def forward(x: Any) -> Any:
        return graph.forward(torch_runtime.FUNCTIONS, x, convs, **graph.options)

    return torch_runtime.TorchRuntime(forward, graph.mean, graph.scale, place.device)


def precision(place: Place) -> str:
    """Return the part of a fingerprint that describes the numerical precision at a `place`."""
    if place.runtime == "openvino":
        return f"openvino-{ov.precision()}"
    return f"torch-{place.device.split(':')[0]}"
