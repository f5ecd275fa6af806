"""Training end to end from frames: a backbone whose weights learn, under the paper's embedder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from stepcut.errors import OptionError
from stepcut.features.backbones.program import Add, Conv, MaxPool, Mean, Node, Program
from stepcut.methods.cnc.network import MapEncoder

NODES: dict[str, Callable[..., Node]] = {kind.__name__: kind for kind in (Conv, Add, MaxPool, Mean)}


class TunableBackbone(nn.Module):
    """A backbone's program with its weights as parameters; batch norm stays folded into the convolutions.

    Frames `(n, H, W, 3)`, RGB of 0 to 255, become maps `(n, C, h, w)`.
    """

    mean: Tensor
    scale: Tensor

    def __init__(self, program: Program) -> None:
        super().__init__()
        self.nodes = program.nodes
        self.register_buffer("mean", torch.tensor(program.mean).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("scale", torch.tensor(program.scale).view(1, 3, 1, 1), persistent=False)
        self.weights = nn.ParameterDict()
        self.biases = nn.ParameterDict()
        for number, node in enumerate(self.nodes, start=1):
            if isinstance(node, Conv):
                weight = torch.from_numpy(node.weight.copy()).to(memory_format=torch.channels_last)
                self.weights[str(number)] = nn.Parameter(weight)
                self.biases[str(number)] = nn.Parameter(torch.from_numpy(node.bias.copy()))

    def forward(self, frames: Tensor) -> Tensor:
        """Frames `(n, H, W, 3)` -> maps `(n, C, h, w)`."""
        values = {0: (frames.permute(0, 3, 1, 2).float() - self.mean) * self.scale}
        for number, node in enumerate(self.nodes, start=1):
            values[number] = self._node(str(number), node, values)
        return values[len(self.nodes)]

    def _node(self, number: str, node: Conv | Add | MaxPool | Mean, values: dict[int, Tensor]) -> Tensor:
        if isinstance(node, Conv):
            x = F.pad(values[node.source], node.padding * 2)
            x = F.conv2d(x, self.weights[number], self.biases[number], node.stride, groups=node.groups)
            return _activate(x, node.activation)
        if isinstance(node, Add):
            return _activate(values[node.left] + values[node.right], node.activation)
        if isinstance(node, MaxPool):
            x = F.pad(values[node.source], node.padding * 2, value=-torch.inf)
            return F.max_pool2d(x, node.size, node.stride)
        return values[node.source].mean(dim=(2, 3))

    def settings(self) -> dict[str, Any]:
        """The program without its weights, ready for JSON; `restore` builds it again, to be filled from a state."""
        nodes = []
        for node in self.nodes:
            about = {
                each.name: getattr(node, each.name) for each in fields(node) if each.name not in ("weight", "bias")
            }
            shape = {"shape": list(node.weight.shape)} if isinstance(node, Conv) else {}
            nodes.append({"node": type(node).__name__, **about, **shape})
        return {"mean": self.mean.flatten().tolist(), "scale": self.scale.flatten().tolist(), "nodes": nodes}

    @classmethod
    def restore(cls, settings: Mapping[str, Any]) -> TunableBackbone:
        """The backbone that gave these `settings()`, with weights of 0."""
        program = Program(tuple(settings["mean"]), tuple(settings["scale"]))
        for about in settings["nodes"]:
            given: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in about.items()}
            kind, shape = NODES[given.pop("node")], given.pop("shape", None)
            if shape is not None:
                given |= {"weight": np.zeros(shape, np.float32), "bias": np.zeros(shape[0], np.float32)}
            program.add(kind(**given))
        return cls(program)


def _activate(x: Tensor, name: str) -> Tensor:
    if name == "relu6":
        return x.clamp(0, 6)
    return x.relu() if name == "relu" else x


def describe_backbone(backbone: nn.Module) -> dict[str, Any]:
    """What is written down of a backbone that was tuned: its class and its settings. Its weights are in the state."""
    if not isinstance(backbone, TunableBackbone):
        raise OptionError(
            f"backbone is a {type(backbone).__name__}, a module of your own, which cannot be written down. Tune "
            f"stepcut.methods.cnc.tune.TunableBackbone(program) to save the result."
        )
    return backbone.settings()


class FrameEncoder(nn.Module):
    """A backbone and the paper's embedder on its maps, as one network on frames with their context.

    The losses compare all frames of a step with one another, so they need all embeddings at once. The backbone does
    not: its frames go through it in parts of `chunk`, whose inner values are let go and computed again in the backward
    pass, where the gradients of the parts add up. The gradient is exact, and the memory that of one part.
    """

    def __init__(self, backbone: nn.Module, embedder: MapEncoder, chunk: int) -> None:
        super().__init__()
        self.backbone, self.embedder, self.chunk = backbone, embedder, chunk

    def forward(self, frames: Tensor) -> Tensor:
        """Frames `(N, c, H, W, 3)` -> `(N, dim)`."""
        count, context = frames.shape[:2]
        parts = torch.split(frames.flatten(0, 1), self.chunk)
        again = self.training and torch.is_grad_enabled()
        maps = torch.cat(
            [checkpoint(self.backbone, part, use_reentrant=False) if again else self.backbone(part) for part in parts]
        )
        stacked = maps.view(count, context, *maps.shape[1:]).transpose(1, 2)  # (N, C, c, h, w)
        embedded: Tensor = self.embedder(stacked)
        return embedded
