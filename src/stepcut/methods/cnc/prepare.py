"""What is done to vectors before the encoder sees them, the same in training and in use."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

Vectors = NDArray[np.float32]


def centre_and_smooth(rows: Vectors, rate: float | Fraction, seconds: float) -> Tensor:
    """Move a video's mean to 0 and smooth it over time with a Gaussian of `seconds`: (T, d).

    The mean holds the kitchen and the camera, which differ between videos and say nothing of the step.
    """
    x = torch.from_numpy(np.array(rows, dtype=np.float32, order="C"))
    x = x - x.mean(0)
    sigma = seconds * float(rate)
    reach = min(int(4 * sigma + 0.5), len(x) - 1)
    if reach < 1:
        return x
    weights = torch.exp(-0.5 * (torch.arange(-reach, reach + 1) / sigma) ** 2)[None, None]
    smooth = F.conv1d(x.T[:, None], weights, padding=reach)[:, 0]
    inside = F.conv1d(torch.ones(1, 1, len(x)), weights, padding=reach)[0]  # at the ends less of the Gaussian is there
    return (smooth / inside).T


def principal_axes(videos: Sequence[Tensor], components: int) -> Tensor:
    """(d, p): the p strongest directions of all rows, scaled so that a projected row has mean square 1 a dimension."""
    dim = videos[0].shape[1]
    rows = sum(len(video) for video in videos)
    scatter = torch.zeros(dim, dim, dtype=torch.float64)
    for video in videos:
        scatter += video.double().T @ video.double()
    values, axes = torch.linalg.eigh(scatter / rows)
    count = min(components, dim)
    kept = axes[:, -count:].flip(1)
    # The largest entry of an axis is positive: the same on every machine.
    signs = kept.gather(0, kept.abs().argmax(0, keepdim=True)).sign()
    power = values[-count:].clamp_min(0).sum() / count
    scaled: Tensor = kept * signs / power.clamp_min(1e-12).sqrt()
    return scaled.float()
