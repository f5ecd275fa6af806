"""The two inner loops of the camera, compiled: see a picture through an affine map, and expose the frame."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stepcut.jit import compiled_later

Pixels = NDArray[np.uint8]
ONE, HALF, FULL = np.float32(1), np.float32(0.5), np.float32(1 / 255)


@compiled_later
def overlay(frame: Pixels, picture: Pixels, m: NDArray[np.float64]) -> None:
    """Draw `picture` (h, w, 4) over `frame` (H, W, 3), between pixels bilinear.

    The frame's pixel (x, y) shows the picture at (m0 x + m1 y + m2, m3 x + m4 y + m5); outside it nothing is drawn.
    """
    height, width = picture.shape[:2]
    for y in range(frame.shape[0]):
        for x in range(frame.shape[1]):
            u = m[0] * x + m[1] * y + m[2]
            v = m[3] * x + m[4] * y + m[5]
            if not (0 <= u < width - 1 and 0 <= v < height - 1):
                continue
            i, j = np.uint64(v), np.uint64(u)
            i1, j1 = i + np.uint64(1), j + np.uint64(1)
            a00, a01, a10, a11 = picture[i, j, 3], picture[i, j1, 3], picture[i1, j, 3], picture[i1, j1, 3]
            if a00 | a01 | a10 | a11 == 0:
                continue
            fv, fu = np.float32(v - i), np.float32(u - j)
            w00, w01 = (ONE - fv) * (ONE - fu), (ONE - fv) * fu
            w10, w11 = fv * (ONE - fu), fv * fu
            rest = np.float32(0)
            if a00 & a01 & a10 & a11 != 255:
                # Weight colours by their opacity, or transparent neighbours would darken the edges.
                w00, w01, w10, w11 = w00 * a00 * FULL, w01 * a01 * FULL, w10 * a10 * FULL, w11 * a11 * FULL
                rest = ONE - (w00 + w01 + w10 + w11)
            for k in range(3):
                colour = w00 * picture[i, j, k] + w01 * picture[i, j1, k]
                colour += w10 * picture[i1, j, k] + w11 * picture[i1, j1, k]
                frame[y, x, k] = np.uint8(colour + rest * frame[y, x, k] + HALF)


@compiled_later
def expose(
    frame: Pixels,
    levels: NDArray[np.float32],
    vivid: float,
    rim: NDArray[np.float32],
    grain: NDArray[np.float32],
    mirrored: bool,
) -> Pixels:
    """The frame as the sensor gives it: `levels` (3, 256) of light, darker at the `rim` (H, W), with `grain` (H, W).

    `vivid` is how strong colours are: 0 for grey, 1 for as they are.
    """
    height, width = frame.shape[:2]
    out = np.empty_like(frame)
    for y in range(height):
        for x in range(width):
            to = width - 1 - x if mirrored else x
            r, g, b = levels[0, frame[y, x, 0]], levels[1, frame[y, x, 1]], levels[2, frame[y, x, 2]]
            grey = (r + g + b) * np.float32((1 - vivid) / 3)
            for k, value in enumerate((r, g, b)):
                seen = (grey + np.float32(vivid) * value) * rim[y, x] + grain[y, x]
                out[y, to, k] = np.uint8(min(max(seen, np.float32(0)), np.float32(255)))
    return out
