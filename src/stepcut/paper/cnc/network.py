"""The networks that embed frames: the paper's on feature maps, a small temporal one on vectors.

Both take frames with context, `(N, C, c, h, w)` or `(N, c, d)`, and return `(N, dim)` embeddings.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from stepcut.errors import FeatureError
from stepcut.features.backbones.runtime import choose_device
from stepcut.methods.arithmetic import strongest_directions


class Encoder(nn.Module):
    """Embeds frames with their context."""

    offsets: tuple[float, ...]  # Context rows, in seconds relative to the frame, earliest first

    @property
    def trained_on(self) -> tuple[float, ...]:
        """The context rows in training."""
        return self.offsets

    def store(self, rows: NDArray[Any], _device: torch.device) -> Tensor:
        """One video as it is stored during training: (T, ...)."""
        return torch.from_numpy(np.array(rows))

    def gather(self, rows: Tensor, places: Tensor) -> Tensor:
        """Network input of the frames with context `places (N, c)` in stored `rows`."""
        return rows[places]

    def embed(self, rows: Tensor, places: Tensor, device: torch.device) -> Tensor:
        """The frames with context `places (N, c)` in stored `rows`: `(N, dim)`."""
        seen = self.gather(rows, places.to(rows.device, non_blocking=True))
        return cast(Tensor, self(seen.to(device, non_blocking=True)))


class MapEncoder(Encoder):
    """The paper's embedder: two 3-D convolutions, global max pooling, three linear layers.

    `forward` uses 2-D convolutions over channels stacked in time: with c context frames and kernel
    3, output time t depends on input times t-1, t, t+1 and not on padding. The context looks back:
    `context` frames, `stride` seconds apart, the last one the frame itself.
    """

    def __init__(
        self,
        channels: int = 1024,
        dim: int = 128,
        hidden: int = 256,
        dropout: float = 0.1,
        context: int = 2,
        stride: float = 0.5,
        trained_stride: float | None = None,
        mixed: bool = False,
    ) -> None:
        super().__init__()
        self.offsets = _look_back(context, stride)
        self.trained = _look_back(context, stride if trained_stride is None else trained_stride)
        self.mixed = mixed
        self.conv1 = nn.Conv3d(channels, hidden, 3, padding=1)
        self.norm1 = nn.BatchNorm3d(hidden)
        self.conv2 = nn.Conv3d(hidden, hidden, 3, padding=1)
        self.norm2 = nn.BatchNorm3d(hidden)
        self.full1 = nn.Linear(hidden, hidden)
        self.full2 = nn.Linear(hidden, hidden)
        self.project = nn.Linear(hidden, dim)
        self.dropout = dropout

    @property
    def trained_on(self) -> tuple[float, ...]:
        return self.trained

    def forward(self, maps: Tensor) -> Tensor:
        """Maps `(N, C, c, h, w)`, earliest frame first -> `(N, dim)`."""
        if self.mixed:  # frame by frame, (N, c, C, h, w), read as (N, C, c, h, w)
            maps = maps.transpose(1, 2).reshape(maps.shape)
        count, channels, context, height, width = maps.shape
        if channels != self.conv1.in_channels:
            wanted, fix = self.conv1.in_channels, "Use features of the same backbone and layer."
            what = f"maps have {channels} channels, the network expects {wanted}. {fix}"
            raise FeatureError(what, setting="maps", value=channels, allowed=wanted)
        # In memory (N, h, w, c, C): the layout in which 2-D convolutions are fastest.
        x = maps.permute(0, 3, 4, 2, 1).reshape(count, height, width, context * channels)
        for conv, norm in ((self.conv1, self.norm1), (self.conv2, self.norm2)):
            x = _conv(x, conv, context)
            rows = x.reshape(-1, conv.out_channels)  # (N h w c, C), as in BatchNorm3d
            x = F.relu(_batch_norm(rows, norm)).view(x.shape)
        x = x.view(count, height * width * context, -1).amax(1)
        for full in (self.full1, self.full2):
            x = F.dropout(F.relu(full(x)), self.dropout, self.training)
        return cast(Tensor, self.project(x))

    def store(self, rows: NDArray[Any], device: torch.device) -> Tensor:
        """The maps as (T, h, w, C), in half precision for a GPU."""
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        maps = torch.from_numpy(np.array(rows)).to(device)
        return maps.permute(0, 2, 3, 1).to(dtype).contiguous().cpu()

    def gather(self, rows: Tensor, places: Tensor) -> Tensor:
        """(N, C, c, h, w), in memory (N, h, w, c, C): one copy, cell by cell."""
        count, context = places.shape
        _, height, width, channels = rows.shape
        area = height * width
        inside = torch.arange(area, device=places.device)[None, :, None]
        cells = places[:, None, :] * area + inside  # (N, h w, c)
        flat = rows.view(-1, channels).index_select(0, cells.reshape(-1))
        return flat.view(count, height, width, context, channels).permute(0, 4, 3, 1, 2)


def _look_back(context: int, stride: float) -> tuple[float, ...]:
    """Context in seconds, earliest first; a negative stride looks ahead."""
    return tuple(sorted(-back * stride if back else 0.0 for back in range(context)))


def _batch_norm(rows: Tensor, norm: nn.BatchNorm3d) -> Tensor:
    if norm.training and norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
    running, share = (norm.running_mean, norm.running_var), norm.momentum or 0.1
    return F.batch_norm(rows, *running, norm.weight, norm.bias, norm.training, share, norm.eps)


def _conv(x: Tensor, conv: nn.Conv3d, context: int) -> Tensor:
    """`conv` on `(N, h, w, c C)` as one 2-D convolution with block kernel: `(N, h, w, c O)`."""
    zero, every = torch.zeros_like(conv.weight[:, :, 0]), range(context)

    def tap(by: int) -> Tensor:
        return conv.weight[:, :, by + 1] if abs(by) <= 1 else zero

    blocks = [torch.cat([tap(s - t) for s in every], dim=1) for t in every]
    weight = torch.cat(blocks)  # (c O, c C, 3, 3)
    bias = None if conv.bias is None else conv.bias.repeat(context)
    return F.conv2d(x.permute(0, 3, 1, 2), weight, bias, padding=1).permute(0, 2, 3, 1)


class VectorEncoder(Encoder):
    """Two temporal convolutions over the context of a frame, plus a linear path.

    Vectors (T, d) are centred per video, smoothed over `smooth` seconds and projected onto
    `components` principal axes. Only `TAPS` rows of context, `stride` seconds apart: a network
    that sees minutes learns the time instead of the step.
    """

    TAPS = 5  # Two convolutions of kernel 3 see five rows

    axes: Tensor  # (features, components): principal axes; rows are projected before `forward`

    def __init__(
        self,
        features: int,
        components: int,
        dim: int = 128,
        hidden: int = 128,
        rate: float | Fraction = 1.0,
        stride: float = 2.0,
        smooth: float = 2.0,
    ) -> None:
        super().__init__()
        self.offsets = tuple((tap - self.TAPS // 2) * stride for tap in range(self.TAPS))
        self.rate, self.smooth = rate, smooth
        self.register_buffer("axes", torch.zeros(features, components))
        self.conv1 = nn.Linear(3 * components, hidden)
        self.conv2 = nn.Linear(3 * hidden, dim)
        self.straight = nn.Linear(components, dim, bias=False)

    def forward(self, rows: Tensor) -> Tensor:
        """Prepared rows `(N, TAPS, d)`, earliest first -> `(N, dim)`."""
        # Stacking three rows makes the convolution one matrix product: on a CPU, the backward pass
        # of `nn.Conv1d` takes ten times as long at these sizes.
        beside = torch.cat([rows[:, :-2], rows[:, 1:-1], rows[:, 2:]], dim=2)
        x = F.relu(self.conv1(beside.flatten(0, 1)))
        # With the frame appended, one product computes the second convolution and the linear path.
        hidden = x.view(len(rows), self.conv2.in_features)
        seen = torch.cat([hidden, rows[:, self.TAPS // 2]], dim=1)
        weight = torch.cat([self.conv2.weight, self.straight.weight], dim=1)
        return F.linear(seen, weight, self.conv2.bias)

    def learn_axes(self, features: Sequence[NDArray[Any]]) -> None:
        """Principal axes of all videos; projected rows have mean square 1."""
        smooth = (centre_and_smooth(rows, self.rate, self.smooth) for rows in features)
        wide = [rows.astype(np.float64) for rows in smooth]
        axes, power = strongest_directions(wide, self.axes.shape[1])
        # Differences below single precision are noise.
        least = 1e-12 * np.mean([np.square(rows, dtype=np.float64).mean() for rows in features])
        self.axes.copy_(torch.from_numpy(axes / np.sqrt(max(power.clip(0).mean(), least) or 1.0)))

    def store(self, rows: NDArray[Any], device: torch.device) -> Tensor:
        """The rows of a video on the principal axes: (T, components)."""
        smooth = centre_and_smooth(rows, self.rate, self.smooth)
        return torch.from_numpy(smooth).to(device) @ self.axes


def find_device(device: str | None) -> torch.device:
    """None uses a GPU if torch sees one."""
    return torch.device(choose_device(device or "auto"))


def half_precision(device: torch.device, kind: str) -> torch.autocast:
    """Use mixed precision for maps and frames on a GPU; vectors gain nothing."""
    return torch.autocast(
        device.type, dtype=torch.bfloat16, enabled=device.type == "cuda" and kind != "vectors"
    )


def put_together(videos: list[Tensor], device: torch.device) -> Tensor:
    """All videos, on the GPU if they fit in 60 % of its free memory."""
    size = sum(video.nbytes for video in videos)
    if device.type == "cuda" and size < 0.6 * torch.cuda.mem_get_info(device)[0]:
        return torch.cat([video.to(device) for video in videos])
    return torch.cat([video.cpu() for video in videos])


def centre_and_smooth(
    rows: NDArray[Any], rate: float | Fraction, seconds: float
) -> NDArray[np.float32]:
    """A video (T, d), as kitchens and cameras differ, with a Gaussian."""
    from scipy.ndimage import gaussian_filter1d

    wide = np.asarray(rows, dtype=np.float32)
    centred: NDArray[np.float32] = wide - wide.mean(axis=0)
    sigma = seconds * float(rate)
    if int(4 * sigma + 0.5) < 1:
        return centred
    inside = gaussian_filter1d(np.ones(len(centred), np.float32), sigma, mode="constant")
    smooth = gaussian_filter1d(centred, sigma, axis=0, mode="constant")
    return np.asarray(smooth / inside[:, None])  # normalized at the ends
