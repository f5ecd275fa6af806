"""Draw the things of the toy kitchen from `things.json`.

A thing is a list of shapes: box (left, top, right, bottom, then rounding and rim), disc (x, y, half
width, half height, then rim), shape (a polygon) and line (its points, then its width). A colour is
[r, g, b] or a name that each household defines; "wood 0.88" is a darker wood.
"""

import json
import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from stepcut.jit import compiled_later

Pixels = NDArray[np.uint8]
Packed = NDArray[np.uint32]
Colour = tuple[int, ...]
"""Red, green and blue, 0 to 255."""
Point = tuple[float, float]
Sprite = tuple[Packed, Point]
"""A packed picture (h, w), and its grip point."""


def shade(colour: Colour, by: float) -> Colour:
    """Darken (`by` < 1) or lighten (`by` > 1) a colour."""
    return tuple(
        max(0, min(255, round(c * by if by <= 1 else c + (255 - c) * (by - 1)))) for c in colour
    )


class Canvas:
    """A drawing of `width` x `height` units at `fine` pixels per unit."""

    def __init__(self, width: int, height: int, paint: Colour | None = None, fine: int = 3) -> None:
        self.size, self.fine = (width, height), fine
        mode, fill = ("RGBA", (0, 0, 0, 0)) if paint is None else ("RGB", paint)
        self.image = Image.new(mode, (width * fine, height * fine), fill)
        self.pen = ImageDraw.Draw(self.image)

    def _at(self, points: Sequence[Point]) -> list[Point]:
        return [(x * self.fine, y * self.fine) for x, y in points]

    def box(
        self,
        x0: float,
        y0: float,
        x1: float,
        y1: float,
        fill: Colour,
        round_: float = 0,
        edge: float = 0,
    ) -> None:
        """Draw a rectangle with rounded corners; `edge` is the width of a darker rim."""
        rim = shade(fill, 0.65) if edge else None
        at = self._at([(x0, y0), (x1, y1)])
        self.pen.rounded_rectangle(at, round_ * self.fine, fill, rim, round(edge * self.fine))

    def disc(self, x: float, y: float, rx: float, ry: float, fill: Colour, edge: float = 0) -> None:
        """Draw an ellipse around its centre."""
        rim = shade(fill, 0.65) if edge else None
        at = self._at([(x - rx, y - ry), (x + rx, y + ry)])
        self.pen.ellipse(at, fill, rim, round(edge * self.fine))

    def shape(self, points: Sequence[Point], fill: Colour) -> None:
        self.pen.polygon(self._at(points), fill)

    def line(self, points: Sequence[Point], fill: Colour, width: float) -> None:
        at = self._at(points)
        self.pen.line(at, fill, round(width * self.fine), "curve")
        r = width * self.fine / 2
        for x, y in (at[0], at[-1]):
            self.pen.ellipse([x - r, y - r, x + r, y + r], fill)

    def texture(self, noise: np.ndarray, y0: int, y1: int) -> None:
        """Multiply the rows from `y0` to `y1` by `noise` (rows, width)."""
        area = (0, y0 * self.fine, self.image.width, y1 * self.fine)
        grain = Image.fromarray(np.uint8(np.clip(noise, 0, 1.99) * 128)).resize(
            (area[2], area[3] - area[1])
        )
        pixels = np.asarray(self.image.crop(area).convert("RGB"))
        grains = np.asarray(Image.merge("RGB", [grain] * 3))
        product = np.multiply(pixels, grains, dtype=np.uint16)
        product >>= 7  # 128 leaves a pixel unchanged
        np.minimum(product, 255, out=product)
        self.image.paste(Image.fromarray(product.astype(np.uint8)), area)

    def done(self) -> Image.Image:
        """Return the drawing at one pixel per unit."""
        return self.image.reduce(self.fine)


WHITE, STEEL, DARK = (240, 238, 232), (188, 194, 200), (52, 50, 54)
BUTTER, TEA = (250, 220, 90), (150, 82, 30)
COLOURS: dict[str, Colour] = {
    "white": WHITE,
    "steel": STEEL,
    "dark": DARK,
    "butter": BUTTER,
    "water": (170, 215, 245),
    "leaf": (70, 140, 60),
    "liquid": (225, 222, 214),
}
"""Colours of all kitchens; an empty cup shows its glaze."""


def draw(
    canvas: Canvas, thing: str, colours: Mapping[str, Colour], x: float = 0, y: float = 0
) -> None:
    """Draw a thing at (x, y) in the colours of the household."""
    palette = {**COLOURS, **colours}
    for kind, paint, at, *more in read_things()[thing]["shapes"]:
        name, _, light = paint.partition(" ") if isinstance(paint, str) else ("", "", "")
        fill = palette[name] if name else tuple(paint)
        fill = shade(fill, float(light)) if light else fill
        if kind == "disc":
            canvas.disc(x + at[0], y + at[1], at[2], at[3], fill, *more)
            continue
        points = [(x + across, y + down) for across, down in zip(at[::2], at[1::2], strict=True)]
        if kind == "box":
            canvas.box(*points[0], *points[1], fill, *more)
        elif kind == "shape":
            canvas.shape(points, fill)
        else:
            canvas.line(points, fill, *more)


def make_sprite(thing: str, colours: Mapping[str, Colour]) -> Sprite:
    """Draw a thing that can be held."""
    about = read_things()[thing]
    width, height = about["size"]
    canvas = Canvas(width, height, fine=about.get("fine", 3))
    draw(canvas, thing, colours)
    return pack(canvas.done()), (about["grip"][0], about["grip"][1])


@cache
def read_things() -> dict[str, Any]:
    things: dict[str, Any] = json.loads(
        (Path(__file__).parent / "things.json").read_text(encoding="utf-8")
    )
    return things


def pastime_thing(act: str, rng: np.random.Generator) -> Sprite:
    """What the cook holds between steps: a phone, or a random gadget."""

    def any_colour() -> Colour:
        return tuple(rng.integers(20, 250, 3).tolist())

    c = Canvas(260, 300)
    if act == "phone":
        c.box(60, 20, 200, 270, DARK, 18, 2)
        c.box(70, 34, 190, 256, any_colour(), 4)
        for k in range(int(rng.integers(2, 8))):
            width = rng.uniform(30, 105)
            c.box(78, 42 + 26 * k, 78 + width, 42 + 26 * k + rng.uniform(8, 20), any_colour(), 4)
        return pack(c.done()), (126, 250)
    for _ in range(int(rng.integers(3, 8))):  # a gadget of random shapes and colours
        x, y, r = rng.uniform(70, 190), rng.uniform(60, 220), rng.uniform(18, 70)
        corners = int(rng.integers(2, 8))
        if corners == 2:
            c.disc(x, y, r, r * rng.uniform(0.4, 1), any_colour(), 3)
        else:
            turn = rng.uniform(0, 6)
            angles = [turn + 2 * math.pi * k / corners for k in range(corners)]
            c.shape([(x + r * math.cos(a), y + r * math.sin(a)) for a in angles], any_colour())
    return pack(c.done()), (126, 210)


def pack(picture: Image.Image) -> Packed:
    """Pack a picture into one number per pixel, (h, w): RGBA with premultiplied alpha."""
    opaque = picture.mode == "RGB"
    pixels = np.asarray(picture.convert("RGBA") if opaque else picture.convert("RGBa"))
    return np.ascontiguousarray(pixels).view("<u4")[..., 0]


@compiled_later
def overlay(frame: Packed, picture: Packed, m: NDArray[np.float64]) -> None:
    """Draw a packed `picture` (h, w) over a packed `frame` (H, W) with bilinear interpolation.

    Pixel (x, y) of the frame shows the picture at (m0 x + m1 y + m2, m3 x + m4 y + m5), if that is
    inside it. Coordinates are 16.16 fixed-point numbers. Two of the four channels are computed at
    once, in the even and odd bytes of one number.
    """
    height, width = picture.shape
    lanes, byte, one = np.uint32(0x00FF00FF), np.uint32(8), np.uint64(1)
    right, bottom = np.int64(width - 1) << 16, np.int64(height - 1) << 16
    across, down = np.int64(m[0] * 65536), np.int64(m[3] * 65536)
    for y in range(frame.shape[0]):
        u, v = np.int64((m[1] * y + m[2]) * 65536), np.int64((m[4] * y + m[5]) * 65536)
        for x in range(frame.shape[1]):
            if 0 <= u < right and 0 <= v < bottom:
                i, j = np.uint64(v >> 16), np.uint64(u >> 16)
                a, b = picture[i, j], picture[i, j + one]
                c, d = picture[i + one, j], picture[i + one, j + one]
                if a | b | c | d:
                    fu, fv = np.uint32((u >> 8) & 255), np.uint32((v >> 8) & 255)
                    gu, gv = np.uint32(256) - fu, np.uint32(256) - fv
                    upper = ((a & lanes) * gu + (b & lanes) * fu) >> byte & lanes
                    lower = ((c & lanes) * gu + (d & lanes) * fu) >> byte & lanes
                    even = (upper * gv + lower * fv) >> byte & lanes
                    upper = ((a >> byte & lanes) * gu + (b >> byte & lanes) * fu) >> byte & lanes
                    lower = ((c >> byte & lanes) * gu + (d >> byte & lanes) * fu) >> byte & lanes
                    odd = (upper * gv + lower * fv) >> byte & lanes
                    rest = np.uint32(255) - (odd >> np.uint32(16))
                    if rest:
                        even += (frame[y, x] & lanes) * rest >> byte & lanes
                        odd += (frame[y, x] >> byte & lanes) * rest >> byte & lanes
                    frame[y, x] = even | odd << byte
            u += across
            v += down


@compiled_later
def cover(frame: Packed, picture: Packed, m: NDArray[np.float64]) -> None:
    """Fill a packed `frame` (H, W) with an opaque `picture` (h, w), mapped as in `overlay`.

    Outside the picture, its edge continues. Without the branches of `overlay`, the loop compiles to
    vector instructions, which renders a video a fifth faster.
    """
    height, width = picture.shape
    lanes, byte, zero = np.uint32(0x00FF00FF), np.uint32(8), np.int64(0)
    right, bottom = (np.int64(width - 1) << 16) - 1, (np.int64(height - 1) << 16) - 1
    across, down = np.int64(m[0] * 65536), np.int64(m[3] * 65536)
    flat = picture.reshape(-1)
    for y in range(frame.shape[0]):
        row = frame[y]
        left, top = np.int64((m[1] * y + m[2]) * 65536), np.int64((m[4] * y + m[5]) * 65536)
        for x in range(row.size):
            u, v = min(max(left + across * x, zero), right), min(max(top + down * x, zero), bottom)
            at = np.uint64((v >> 16) * width + (u >> 16))
            under = at + np.uint64(width)
            a, b = flat[at], flat[at + np.uint64(1)]
            c, d = flat[under], flat[under + np.uint64(1)]
            fu, fv = np.uint32((u >> 8) & 255), np.uint32((v >> 8) & 255)
            gu, gv = np.uint32(256) - fu, np.uint32(256) - fv
            upper = ((a & lanes) * gu + (b & lanes) * fu) >> byte & lanes
            lower = ((c & lanes) * gu + (d & lanes) * fu) >> byte & lanes
            even = (upper * gv + lower * fv) >> byte & lanes
            upper = ((a >> byte & lanes) * gu + (b >> byte & lanes) * fu) >> byte & lanes
            lower = ((c >> byte & lanes) * gu + (d >> byte & lanes) * fu) >> byte & lanes
            odd = (upper * gv + lower * fv) >> byte & lanes
            row[x] = even | odd << byte


@compiled_later
def expose(
    frame: Packed,
    levels: NDArray[np.float32],
    rim: NDArray[np.float32],
    grain: NDArray[np.float32],
) -> Pixels:
    """Convert a packed frame (H, W) to the sensor's picture in YUV 4:2:0, (H * 3/2, W).

    `levels` (3, 3, 256) maps red, green and blue to their parts of Y, U and V. `rim` (H, W) darkens
    the picture, and `grain` (H, W) is added to Y. U and V of 2 x 2 pixels follow in rows of W / 2.
    """
    height, width = frame.shape
    low, high, none = np.float32(0), np.float32(255), np.float32(128)
    byte, two, lanes = np.uint32(255), np.uint32(2), np.uint32(0x00FF00FF)
    out = np.empty((height * 3 // 2, width), np.uint8)
    for y in range(height):
        for x in range(width):
            p = frame[y, x]
            light = levels[0, 0, p & byte] + levels[0, 1, p >> 8 & byte]
            light += levels[0, 2, p >> 16 & byte]
            out[y, x] = np.uint8(min(max(light * rim[y, x] + grain[y, x], low), high))
    chroma = out[height:].reshape(2, height // 2, width // 2)
    for y in range(height // 2):
        for x in range(width // 2):
            p, q = frame[2 * y, 2 * x], frame[2 * y, 2 * x + 1]
            r, s = frame[2 * y + 1, 2 * x], frame[2 * y + 1, 2 * x + 1]
            even = ((p & lanes) + (q & lanes) + (r & lanes) + (s & lanes)) >> two
            odd = (p >> 8 & byte) + (q >> 8 & byte) + (r >> 8 & byte) + (s >> 8 & byte)
            for k in range(2):
                hue = levels[k + 1, 0, even & byte] + levels[k + 1, 1, odd >> two]
                hue += levels[k + 1, 2, even >> 16 & byte]
                value = hue * rim[2 * y, 2 * x] + none
                chroma[k, y, x] = np.uint8(min(max(value, low), high))
    return out
