"""Which frames an iteration sees, and their context."""

from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Rows = NDArray[np.int64]


class Batch(NamedTuple):
    """Frames of B videos, T each; shorter videos are padded (`mask` false)."""

    context: Tensor
    """(B, T, c): row numbers over all videos concatenated."""
    times: Tensor
    """(B, T): time of the frame divided by the length of its video."""
    durations: Tensor
    """(B,): seconds."""
    mask: Tensor
    """(B, T): true on real frames."""
    padded: bool
    """Whether there is padding; if not, a loss can skip the mask."""

    def parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self[:4]

    def shapes(self) -> tuple[bool, list[torch.Size]]:
        """What must be equal for two batches to share one CUDA graph."""
        return self.padded, [part.shape for part in self.parts()]


def context_rows(
    rows: Rows, lengths: int | Rows, offsets: Sequence[float], rate: float | Fraction
) -> Rows:
    """Rows at `offsets` seconds from each of `rows`, clipped to the video: (..., c).

    >>> context_rows(np.array([0, 3]), 4, offsets=(-0.5, 0.0), rate=2)
    array([[0, 0],
           [2, 3]])
    """
    moved = rows[..., None] + np.array([round(offset * rate) for offset in offsets], dtype=np.int64)
    return np.asarray(np.minimum(np.maximum(moved, 0), lengths - 1))


def draw(
    random: np.random.Generator,
    lengths: Sequence[int],
    videos: int,
    frames: int,
    offsets: Sequence[float],
    rate: float | Fraction,
    count: int = 1,
) -> list[Batch]:
    """Draw `count` batches of `videos` random videos with `frames` random frames in time order.

    `lengths` are the rows of every video at `rate` per second; `offsets` are the seconds from a
    frame to its context.
    """
    together = min(videos, len(lengths))
    chosen = np.empty((count, together), np.int64)
    rows = np.zeros((count, together, frames), np.int64)
    for batch in range(count):
        chosen[batch] = random.choice(len(lengths), size=together, replace=False)
        for place, video in enumerate(chosen[batch].tolist()):
            taken = random.choice(lengths[video], size=min(frames, lengths[video]), replace=False)
            taken.sort()
            rows[batch, place, : len(taken)] = taken
    starts = np.cumsum([0, *lengths])[chosen][..., None]
    lasting = np.array(lengths)[chosen][..., None]
    parts = (
        context_rows(rows, lasting[..., None], offsets, rate) + starts[..., None],
        (rows / lasting).astype(np.float32),
        (lasting[..., 0] / float(rate)).astype(np.float32),
        np.arange(frames) < lasting,
    )
    # Drop positions that no video of a batch fills.
    most, least = np.minimum(lasting.max((1, 2)), frames), lasting.min((1, 2))
    tensors = (torch.from_numpy(part).unbind() for part in parts)
    return [
        Batch(context[:, :end], times[:, :end], durations, mask[:, :end], padded)
        for context, times, durations, mask, end, padded in zip(
            *tensors, most, (least < most).tolist(), strict=True
        )
    ]
