"""Whether features can be learned from: sentences for those that cannot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import FeatureError, OptionError


def check_videos(features: Sequence[NDArray[Any]]) -> None:
    """Two videos or more, of the same kind, with nothing but numbers in them."""
    if len(features) < 2:
        raise OptionError(
            f"{len(features)} {'video was' if len(features) == 1 else 'videos were'} given; at least 2 are needed, "
            f"since steps are found by what videos have in common. Add another video of the same task."
        )
    first = features[0]
    for number, video in enumerate(features):
        check_video(video, number, first.ndim, first.shape[1] if first.ndim > 1 else 0)


def check_video(video: NDArray[Any], number: int, dims: int, row: int) -> None:
    """One video with `dims` array dimensions and rows of `row` numbers or channels."""
    if video.ndim not in (2, 4) or video.ndim != dims or 0 in video.shape:
        kinds = {2: "(rows, dimensions)", 4: "(rows, channels, height, width)"}
        expected = kinds.get(dims, f"{kinds[2]} or {kinds[4]}")
        raise FeatureError(
            f"features[{number}] has shape {video.shape}; expected {expected}, none of them 0. "
            f"Give one array per video, all of one kind."
        )
    if video.shape[1] != row:
        raise FeatureError(
            f"features[{number}] has {video.shape[1]} dimensions, others have {row}. "
            f"Extract all videos with the same backbone and layer."
        )
    if not np.isfinite(video).all():
        raise FeatureError(f"features[{number}] holds NaN or infinity. Extract this video again, or leave it out.")
