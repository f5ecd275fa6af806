"""Which frames a training step sees, and the context that goes with a frame: the same in training and in use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Frames of B videos, T each; where a video has fewer, the rest is padding (`mask` false)."""

    context: Tensor
    """(B, T, c): rows, counted over all videos put end to end; the last of the c is the frame itself or the latest."""
    times: Tensor
    """(B, T): time of the frame divided by the length of its video."""
    durations: Tensor
    """(B,): seconds."""
    mask: Tensor
    """(B, T): true on real frames."""
    padded: bool = True
    """Whether there may be padding; known beforehand, a loss need not look at the mask."""

    def parts(self) -> tuple[Tensor, ...]:
        """All four tensors."""
        return self.context, self.times, self.durations, self.mask

    def shapes(self) -> tuple[bool, list[torch.Size]]:
        """What must be the same for one recording to serve two batches."""
        return self.padded, [part.shape for part in self.parts()]

    def to(self, device: torch.device) -> Batch:
        """The same batch on a device."""
        context, times, durations, mask = (part.to(device) for part in self.parts())
        return Batch(context, times, durations, mask, self.padded)


def context_rows(rows: Rows, length: int, offsets: Sequence[float], rate: float | Fraction) -> Rows:
    """The rows at `offsets` seconds from each of `rows`, held at the first and last row of the video: (..., c).

    >>> context_rows(np.array([0, 3]), length=4, offsets=(-0.5, 0.0), rate=2)
    array([[0, 0],
           [2, 3]])
    """
    shifts = np.array([round(offset * rate) for offset in offsets], dtype=np.int64)
    held: Rows = np.clip(rows[..., None] + shifts, 0, length - 1)
    return held


def draw(
    random: np.random.Generator,
    lengths: Sequence[int],
    videos: int,
    frames: int,
    offsets: Sequence[float],
    rate: float | Fraction,
) -> Batch:
    """Choose `videos` different videos and in each `frames` different frames at random, in the order of time."""
    chosen = random.choice(len(lengths), size=min(videos, len(lengths)), replace=False)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    most = min(frames, max(lengths[video] for video in chosen))
    context = np.zeros((len(chosen), most, len(offsets)), np.int64)
    times = np.zeros((len(chosen), most), np.float32)
    mask = np.zeros((len(chosen), most), bool)
    for place, video in enumerate(chosen):
        length = lengths[video]
        rows = np.sort(random.choice(length, size=min(most, length), replace=False))
        context[place, : len(rows)] = starts[video] + context_rows(rows, length, offsets, rate)
        context[place, len(rows) :] = starts[video]
        times[place, : len(rows)] = rows / length
        mask[place, : len(rows)] = True
    durations = np.array([lengths[video] / float(rate) for video in chosen], np.float32)
    whole, when, lasting, real = (torch.from_numpy(part) for part in (context, times, durations, mask))
    return Batch(whole, when, lasting, real, padded=not mask.all())
