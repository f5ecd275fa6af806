"""Stepcut's own networks: convolutions with batch norm folded in, and one function that says how they are joined.

The function is written once. With the layers of OpenVINO it builds a model, with those of torch it computes, and with
torch parameters in place of the arrays it learns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from stepcut.features.backbones import openvino_runtime as ov
from stepcut.features.backbones.contract import Frames, Place, Rows

Array = NDArray[np.float32]


class Layers(Protocol):
    """What a network is made of; `x` is whatever the runtime computes with, two of which can be added."""

    def conv(
        self, x: Any, weight: Any, bias: Any, stride: int, padding: tuple[int, int], groups: int, activation: str
    ) -> Any:
        """A convolution of `x` with its `bias` and its `activation`.

        weight   (out, in / groups, k, k)
        stride   every how many rows and columns
        padding  zeros before and after
        groups   into how many parts the channels are divided
        """

    def activate(self, x: Any, name: str) -> Any:
        """The activation `name` ("", "relu" or "relu6") of `x`."""

    def max_pool(self, x: Any) -> Any:
        """The largest value of `x` in windows of 3, every 2."""

    def mean(self, x: Any) -> Any:
        """The mean of `x` over rows and columns: maps (n, C, h, w) become vectors (n, C)."""

    def cells(self, x: Any, side: int) -> Any:
        """The mean of each of `side` x `side` cells, which may share a row: vectors (n, C side side)."""

    def join(self, parts: Sequence[tuple[Any, float]]) -> Any:
        """The vectors of `parts` one after the other, each multiplied by its number."""


@dataclass(frozen=True)
class Graph:
    """A network with its weights: `forward(layers, x, convs, **options)` for normalised frames `x` (n, 3, H, W)."""

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
    part = {name: np.asarray(weights[f"{norm}.{name}"], np.float64) for name in ("weight", "bias")}
    mu, var = (np.asarray(weights[f"{norm}.running_{name}"], np.float64) for name in ("mean", "var"))
    s = part["weight"] / np.sqrt(var + eps)
    bias = part["bias"] - mu * s
    if f"{conv}.bias" in weights:  # Keras and Caffe keep a bias before the batch norm
        bias = bias + np.asarray(weights[f"{conv}.bias"], np.float64) * s
    w = np.asarray(weights[f"{conv}.weight"], np.float64)
    return (w * s[:, None, None, None]).astype(np.float32), bias.astype(np.float32)


def run_graph(graph: Graph, size: int, place: Place) -> Callable[[Frames], Rows]:
    """What computes the rows of a `graph` from frames of `size` x `size` at a `place`."""
    device, runtime, threads = place
    if runtime == "openvino":
        openvino = ov.import_openvino()
        shape = (-1, size, size, 3)
        frames, x = ov.frames_to(shape, (0, 3, 1, 2), graph.mean, graph.scale, False, openvino.Type.f32)
        model = openvino.Model([graph.forward(ov.Layers(), x, graph.convs, **graph.options)], [frames], "stepcut")
        return ov.OpenVinoRuntime(model, threads)
    from stepcut.features.backbones import torch_runtime

    convs, layers = torch_runtime.as_tensors(graph.convs, device), torch_runtime.Layers()
    return torch_runtime.TorchRuntime(
        lambda x: graph.forward(layers, x, convs, **graph.options), graph.mean, graph.scale, device, threads
    )


def precision(place: Place) -> str:
    """The end of a fingerprint at a `place`: the precision follows the machine (OpenVINO) or the device (torch)."""
    device, runtime, _ = place
    return f"openvino-{ov.precision()}" if runtime == "openvino" else f"{runtime}-{device.split(':')[0]}"
