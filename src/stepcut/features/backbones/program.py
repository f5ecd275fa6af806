"""A network as a short list of operations with batch norm folded in; an engine (torch, OpenVINO) runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]
Padding = tuple[int, int]
"""Zeros before and after, the same for rows and columns."""


@dataclass(frozen=True)
class Conv:
    """A convolution of node `source`, with its bias and activation ("", "relu" or "relu6")."""

    source: int
    weight: Array  # (out, in / groups, k, k)
    bias: Array  # (out,)
    stride: int = 1
    padding: Padding = (0, 0)
    groups: int = 1
    activation: str = ""


@dataclass(frozen=True)
class Add:
    """The sum of two nodes, with its activation."""

    left: int
    right: int
    activation: str = ""


@dataclass(frozen=True)
class MaxPool:
    """The largest value in windows of `size`."""

    source: int
    size: int
    stride: int
    padding: Padding


@dataclass(frozen=True)
class Mean:
    """The mean over rows and columns: maps (n, C, h, w) become vectors (n, C)."""

    source: int


Node = Conv | Add | MaxPool | Mean


@dataclass
class Program:
    """Nodes in the order of computing. Node 0 is the input (n, 3, H, W): `(RGB 0..255 - mean) * scale`.

    The last node is the result.
    """

    mean: tuple[float, float, float]
    scale: tuple[float, float, float]
    nodes: list[Node] = field(default_factory=list)

    def add(self, node: Node) -> int:
        """Append a node; gives its number, for later nodes to refer to."""
        self.nodes.append(node)
        return len(self.nodes)


def fold(weights: Mapping[str, Any], conv: str, norm: str, eps: float) -> tuple[Array, Array]:
    """Weight and bias of a convolution with the batch norm after it folded in.

    gamma (W x - mu) / sqrt(var + eps) + beta  =  (W s) x + (beta - mu s),  s = gamma / sqrt(var + eps)
    """
    w = np.asarray(weights[f"{conv}.weight"], np.float64)
    s = np.asarray(weights[f"{norm}.weight"], np.float64) / np.sqrt(
        np.asarray(weights[f"{norm}.running_var"], np.float64) + eps
    )
    bias = np.asarray(weights[f"{norm}.bias"], np.float64) - np.asarray(weights[f"{norm}.running_mean"], np.float64) * s
    if f"{conv}.bias" in weights:  # Keras and Caffe keep a bias before the batch norm
        bias = bias + np.asarray(weights[f"{conv}.bias"], np.float64) * s
    return (w * s[:, None, None, None]).astype(np.float32), bias.astype(np.float32)
