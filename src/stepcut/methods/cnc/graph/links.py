"""The links of one video: pairs of frames close in time, with a weight that falls with the distance."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def window_links(frames: int, window: float, rate: float, cost: float) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Links (E, 2) between frames up to `window` seconds apart, at least neighbours, and their weights (E,).

    The weight falls linearly to 0 just past the window. All weights together are such that one change that lasts
    costs `cost` whatever the window and the rate: D frames apart lie D links across every cut, so
    sum_D D * w(D) = cost. A window of one frame is the chain with weights `cost`.
    """
    reach = max(1, int(window * rate + 1e-9))  # in frames; the small number forgives 0.1 * 30 = 2.9999...
    apart = np.arange(1, reach + 1)
    fall = 1 - apart / (reach + 1)
    fall *= cost / (fall @ apart)
    near = [d for d in apart if d < frames]
    links = np.concatenate(
        [np.stack([np.arange(frames - d), np.arange(d, frames)], axis=1) for d in near]
        or [np.empty((0, 2), dtype=np.int64)]
    )
    return links.astype(np.int64), np.repeat(fall[: len(near)], [frames - d for d in near])
