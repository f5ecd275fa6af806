"""End-to-end training from frames: a trainable backbone under the paper's embedder."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from stepcut.errors import wrong
from stepcut.features.backbones.networks import SIZE, Graph, family_of, read_weights, resnet50_graph
from stepcut.features.backbones.runtime import torch_functions
from stepcut.features.spec import as_spec
from stepcut.paper.cnc.network import Encoder, MapEncoder

LAST = torch.channels_last


class TunableBackbone(nn.Module):
    """A trainable backbone: RGB frames `(n, H, W, 3)` become maps `(n, C, h, w)`."""

    mean: Tensor
    scale: Tensor

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = replace(graph, convs={})
        for name, three in (("mean", graph.mean), ("scale", graph.scale)):
            self.register_buffer(name, 255 * torch.tensor(three).view(1, 3, 1, 1), persistent=False)
        self.names = list(graph.convs)
        pairs = [graph.convs[name] for name in self.names]
        self.weights = nn.ParameterList(
            torch.from_numpy(w.copy()).contiguous(memory_format=LAST) for w, _ in pairs
        )
        self.biases = nn.ParameterList(torch.from_numpy(bias.copy()) for _, bias in pairs)

    def forward(self, frames: Tensor) -> Tensor:
        x = (frames.permute(0, 3, 1, 2).float() - self.mean) / self.scale
        convs = dict(zip(self.names, zip(self.weights, self.biases, strict=True), strict=True))
        maps: Tensor = self.graph.forward(torch_functions(), x, convs)
        return maps

    def settings(self) -> dict[str, Any]:
        """The network without its weights, ready for JSON."""
        named = zip(self.names, self.weights, strict=True)
        shapes = {name: list(weight.shape) for name, weight in named}
        about = {"name": self.graph.name, "options": self.graph.options, "shapes": shapes}
        return {**about, "mean": list(self.graph.mean), "scale": list(self.graph.scale)}

    @classmethod
    def restore(cls, settings: Mapping[str, Any]) -> Self:
        """Rebuild it from `settings()`, with weights of 0."""
        shapes = settings["shapes"].items()
        weights = {name: np.zeros(shape, np.float32) for name, shape in shapes}
        convs = {name: (w, np.zeros(len(w), np.float32)) for name, w in weights.items()}
        mean, scale = tuple(settings["mean"]), tuple(settings["scale"])
        return cls(Graph(settings["name"], convs, mean, scale, dict(settings["options"])))


class Frames:
    """Frames as features, `(n, 3, 224, 224)`: the input of a trainable backbone."""

    name, dim, size, fingerprint = "frames", 3, SIZE, "frames 1"

    def extract(self, frames: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Frames `(n, 224, 224, 3)`, colours first."""
        return frames.transpose(0, 3, 1, 2)


def as_pictures(rows: NDArray[Any]) -> NDArray[np.uint8]:
    """Frames `(n, H, W, 3)` or `(n, 3, H, W)` as `(n, H, W, 3)`."""
    last = rows if rows.shape[-1] == 3 else rows.transpose(0, 2, 3, 1)
    return np.ascontiguousarray(last, dtype=np.uint8)


def load_tunable(settings: Mapping[str, Any]) -> TunableBackbone:
    spec = as_spec(**settings)
    if spec.backbone != "resnet50" or spec.weights is None:
        why = (
            f", weights={spec.weights!r}: only resnet50 with a weights file can be trained. Use "
            "--backbone resnet50 --weights FILE."
        )
        raise wrong("backbone", spec.backbone, why, "resnet50")
    arrays, metadata = read_weights(spec.weights)
    family = spec.family or family_of(arrays, metadata)
    return TunableBackbone(resnet50_graph(arrays, spec.layer or "conv4c", family))


class FrameEncoder(Encoder):
    """A backbone and the paper's embedder on its maps, as one network on frames.

    Frames pass through the backbone in chunks, and again in the backward pass: memory is bounded
    by one chunk, and the gradient exact.
    """

    def __init__(self, backbone: nn.Module, embedder: MapEncoder, chunk: int) -> None:
        super().__init__()
        self.backbone, self.embedder, self.chunk = backbone, embedder, chunk
        self.offsets = embedder.offsets

    @property
    def trained_on(self) -> tuple[float, ...]:
        return self.embedder.trained_on

    def store(self, rows: NDArray[Any], _device: torch.device) -> Tensor:
        return torch.from_numpy(as_pictures(rows))

    def embed(self, rows: Tensor, places: Tensor, device: torch.device) -> Tensor:
        """`(N, dim)`; each frame passes through the backbone once."""
        once, where = torch.unique(places, return_inverse=True)
        parts = torch.split(once.to(rows.device), self.chunk)
        again = self.training and torch.is_grad_enabled() and len(parts) > 1
        look = partial(checkpoint, self.backbone, use_reentrant=False) if again else self.backbone
        maps = torch.cat([look(rows[part].to(device, non_blocking=True)) for part in parts])
        stacked = maps[where.to(device)].transpose(1, 2)  # (N, C, c, h, w)
        embedded: Tensor = self.embedder(stacked)
        return embedded
