"""The inputs an embedder takes, vectors, maps or frames: how each is kept, gathered with its context, and encoded."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from stepcut.methods.arithmetic import strongest_directions
from stepcut.methods.cnc.network import MapEncoder, VectorEncoder
from stepcut.methods.cnc.tune import FrameEncoder


class Input(ABC):
    """One kind of input."""

    @property
    @abstractmethod
    def offsets(self) -> tuple[float, ...]:
        """The rows of context, in seconds from the frame."""

    def shape(self, features: Sequence[NDArray[Any]]) -> dict[str, int]:
        """The sizes of the network for these features; with them `build` makes it again."""
        return {"row": features[0].shape[1]}

    @abstractmethod
    def build(self, shape: dict[str, int], dim: int) -> nn.Module:
        """A network that is not trained."""

    def begin(self, _network: nn.Module, _features: Sequence[NDArray[Any]]) -> None:
        """What the network takes from the features before training begins; nothing unless said."""
        return

    def store(self, _network: nn.Module, rows: NDArray[Any], _device: torch.device) -> Tensor:
        """One video as it is kept while training: (T, ...)."""
        return torch.from_numpy(np.array(rows))

    def gather(self, rows: Tensor, places: Tensor) -> Tensor:
        """What the network sees of frames with their context at `places (N, c)` of stored `rows`."""
        return rows[places]


@dataclass(frozen=True)
class VectorInput(Input):
    """Vectors (T, d): centred and smoothed per video, on their principal axes, with rows before and after the frame."""

    rate: float | Fraction
    stride: float
    smooth: float
    components: int
    hidden: int

    @property
    def offsets(self) -> tuple[float, ...]:
        middle = VectorEncoder.TAPS // 2
        return tuple((tap - middle) * self.stride for tap in range(VectorEncoder.TAPS))

    def build(self, shape: dict[str, int], dim: int) -> VectorEncoder:
        return VectorEncoder(shape["row"], min(self.components, shape["row"]), dim, self.hidden)

    def begin(self, network: nn.Module, features: Sequence[NDArray[Any]]) -> None:
        assert isinstance(network, VectorEncoder)
        smooth = [centre_and_smooth(rows, self.rate, self.smooth).astype(np.float64) for rows in features]
        axes, power = strongest_directions(smooth, network.axes.shape[1])
        # Scaled so that a projected row has mean square 1 a dimension.
        network.axes.copy_(torch.from_numpy(axes / np.sqrt(max(power.clip(0).mean(), 1e-12))))

    def store(self, network: nn.Module, rows: NDArray[Any], device: torch.device) -> Tensor:
        assert isinstance(network, VectorEncoder)
        return torch.from_numpy(centre_and_smooth(rows, self.rate, self.smooth)).to(device) @ network.axes


@dataclass(frozen=True)
class PictureInput(Input):
    """Maps or frames, with `context` frames that look back, `stride` seconds apart: the earliest first, itself last."""

    context: int
    stride: float
    hidden: int

    @property
    def offsets(self) -> tuple[float, ...]:
        return tuple(-back * self.stride if back else 0.0 for back in reversed(range(self.context)))


@dataclass(frozen=True)
class MapInput(PictureInput):
    """Maps (T, C, h, w), as they are."""

    def build(self, shape: dict[str, int], dim: int) -> nn.Module:
        return MapEncoder(shape["row"], dim, self.hidden)

    def store(self, _network: nn.Module, rows: NDArray[Any], device: torch.device) -> Tensor:
        """(T, h, w, C): channels last; in half precision for a GPU, which multiplies them so as well.

        The GPU turns them round, video by video, and gives them back: whether all have room there is seen later.
        """
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        turned = torch.from_numpy(np.array(rows)).to(device).permute(0, 2, 3, 1).to(dtype).contiguous()
        return turned.cpu()

    def gather(self, rows: Tensor, places: Tensor) -> Tensor:
        """(N, C, c, h, w), in memory (N, h, w, c, C): one copy, cell by cell of the map."""
        count, context = places.shape
        _, height, width, channels = rows.shape
        area = height * width
        cells = places[:, None, :] * area + torch.arange(area, device=places.device)[None, :, None]  # (N, h w, c)
        flat = rows.view(-1, channels).index_select(0, cells.reshape(-1))
        return flat.view(count, height, width, context, channels).permute(0, 4, 3, 1, 2)


@dataclass(frozen=True)
class FrameInput(PictureInput):
    """Frames (T, H, W, 3) of 0 to 255, RGB, for training end to end: the backbone is part of the network."""

    backbone: nn.Module
    chunk: int

    def shape(self, features: Sequence[NDArray[Any]]) -> dict[str, int]:
        with torch.inference_mode():
            maps = self.backbone(torch.from_numpy(np.array(features[0][:1])))
        return {"row": features[0].shape[1], "channels": maps.shape[1]}

    def build(self, shape: dict[str, int], dim: int) -> nn.Module:
        embedder = MapEncoder(shape["channels"], dim, self.hidden)
        return FrameEncoder(copy.deepcopy(self.backbone), embedder, self.chunk)


def put_together(videos: list[Tensor], device: torch.device) -> Tensor:
    """All videos end to end, on the device when they take less than 60 % of its free memory, else beside the CPU."""
    size = sum(video.nbytes for video in videos)
    if device.type == "cuda" and size < 0.6 * torch.cuda.mem_get_info(device)[0]:
        return torch.cat([video.to(device) for video in videos])
    return torch.cat([video.cpu() for video in videos])


def centre_and_smooth(rows: NDArray[Any], rate: float | Fraction, seconds: float) -> NDArray[np.float32]:
    """Move a video's mean to 0 and smooth it over time with a Gaussian of `seconds`: (T, d), `rate` rows a second.

    The mean holds the kitchen and the camera, which differ between videos and say nothing of the step.
    """
    from scipy.ndimage import gaussian_filter1d

    wide = np.asarray(rows, dtype=np.float32)
    centred: NDArray[np.float32] = wide - wide.mean(axis=0)
    sigma = seconds * float(rate)
    if int(4 * sigma + 0.5) < 1:
        return centred
    inside = gaussian_filter1d(np.ones(len(centred), np.float32), sigma, mode="constant")
    smooth: NDArray[np.float32] = gaussian_filter1d(centred, sigma, axis=0, mode="constant") / inside[:, None]
    return smooth  # at the ends less of the Gaussian is there
