"""Clips: the frames around the time of a row, for backbones that look at several frames at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from fractions import Fraction

import numpy as np

from stepcut.features.backbones.contract import Backbone, Frames


def clip_length(backbone: Backbone) -> int:
    """Frames of a clip; 1 where the backbone takes single frames."""
    return int(getattr(backbone, "clip_frames", None) or 1)


def frames_per_row(backbone: Backbone, fps: Fraction) -> int:
    """How many frames are sampled for each row: `clip_fps` of the backbone as a multiple of `fps`, the nearest one."""
    rate = getattr(backbone, "clip_fps", None)
    return 1 if clip_length(backbone) == 1 or rate is None else max(1, round(Fraction(rate) / fps))


def make_clips(pictures: Iterable[Frames], length: int, per_row: int) -> Iterator[Frames]:
    """A clip (length, H, W, 3) for every `per_row`-th picture, centred on it; at the ends the outermost is repeated.

    >>> pictures = (np.full((1, 1, 3), number, np.uint8) for number in range(5))
    >>> [clip[:, 0, 0, 0].tolist() for clip in make_clips(pictures, 3, 2)]
    [[0, 0, 1], [1, 2, 3], [3, 4, 4]]
    """
    after = length - length // 2 - 1
    window: deque[Frames] = deque(maxlen=length)
    number = 0

    def push(picture: Frames) -> Iterator[Frames]:
        nonlocal number
        window.append(picture)
        if number >= after and (number - after) % per_row == 0:
            yield np.stack(window)
        number += 1

    for picture in pictures:
        if not window:
            window.extend([picture] * (length // 2))
        yield from push(picture)
    for _ in range(after if window else 0):
        yield from push(window[-1])
