"""Which frames a training step sees, and the context that goes with a frame: the same in training and in use."""

from __future__ import annotations

import functools
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


def context_rows(rows: Rows, lengths: int | Rows, offsets: Sequence[float], rate: float | Fraction) -> Rows:
    """The rows at `offsets` seconds from each of `rows`, held at the first and last row of the video: (..., c).

    >>> context_rows(np.array([0, 3]), 4, offsets=(-0.5, 0.0), rate=2)
    array([[0, 0],
           [2, 3]])
    """
    moved = rows[..., None] + _shifts(tuple(offsets), rate)
    held: Rows = np.minimum(np.maximum(moved, 0), lengths - 1)
    return held


@functools.lru_cache
def _shifts(offsets: tuple[float, ...], rate: float | Fraction) -> Rows:
    """(c,): the rows by which a frame and its context lie apart."""
    return np.array([round(offset * rate) for offset in offsets], dtype=np.int64)


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
    starts = np.cumsum([0, *lengths])[chosen]
    lasting = np.array(lengths)[chosen]
    most = min(frames, int(lasting.max()))
    rows = np.zeros((len(chosen), most), np.int64)
    mask = np.zeros(rows.shape, np.bool_)
    for place, length in enumerate(lasting.tolist()):
        taken = random.choice(length, size=min(most, length), replace=False)
        taken.sort()
        rows[place, : len(taken)] = taken
        mask[place, : len(taken)] = True
    context = context_rows(rows, lasting[:, None, None], offsets, rate) + starts[:, None, None]
    parts = context, (rows / lasting[:, None]).astype(np.float32), (lasting / float(rate)).astype(np.float32), mask
    whole, when, seconds, real = (torch.from_numpy(part) for part in parts)
    return Batch(whole, when, seconds, real, padded=not mask.all())
