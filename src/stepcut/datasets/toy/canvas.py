"""A drawing surface without jagged edges: shapes in plain units, drawn large and shrunk."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

Colour = tuple[int, int, int]
Point = tuple[float, float]


def shade(colour: Colour, by: float) -> Colour:
    """Darker (`by` < 1) or lighter (`by` > 1)."""
    r, g, b = (max(0, min(255, round(c * by if by <= 1 else c + (255 - c) * (by - 1)))) for c in colour)
    return (r, g, b)


class Canvas:
    """`width` x `height` units, drawn at `fine` pixels a unit; `done()` gives one pixel a unit."""

    def __init__(self, width: int, height: int, paint: Colour | None = None, fine: int = 3) -> None:
        self.size, self.fine = (width, height), fine
        fill = (0, 0, 0, 0) if paint is None else (*paint, 255)
        self.image = Image.new("RGBA", (width * fine, height * fine), fill)
        self.pen = ImageDraw.Draw(self.image)

    def _at(self, points: Sequence[Point]) -> list[Point]:
        return [(x * self.fine, y * self.fine) for x, y in points]

    def box(self, x0: float, y0: float, x1: float, y1: float, fill: Colour, round_: float = 0, edge: float = 0) -> None:
        """A rectangle with corners rounded by `round_`; `edge` draws a darker rim of that width."""
        self.pen.rounded_rectangle(
            [v for p in self._at([(x0, y0), (x1, y1)]) for v in p],
            round_ * self.fine,
            fill,
            shade(fill, 0.65) if edge else None,
            round(edge * self.fine),
        )

    def disc(self, x: float, y: float, rx: float, ry: float, fill: Colour, edge: float = 0) -> None:
        """An ellipse about its centre."""
        at = self._at([(x - rx, y - ry), (x + rx, y + ry)])
        rim = shade(fill, 0.65) if edge else None
        self.pen.ellipse([v for p in at for v in p], fill, rim, round(edge * self.fine))

    def shape(self, points: Sequence[Point], fill: Colour) -> None:
        """A filled polygon."""
        self.pen.polygon(self._at(points), fill)

    def line(self, points: Sequence[Point], fill: Colour, width: float) -> None:
        """A bent line with round ends."""
        at = self._at(points)
        self.pen.line(at, fill, round(width * self.fine), "curve")
        r = width * self.fine / 2
        for x, y in (at[0], at[-1]):
            self.pen.ellipse([x - r, y - r, x + r, y + r], fill)

    def texture(self, noise: np.ndarray, y0: int, y1: int) -> None:
        """Multiply the rows from `y0` to `y1` by `noise` (rows, width)."""
        area = (0, y0 * self.fine, self.image.width, y1 * self.fine)
        grain = Image.fromarray(np.uint8(np.clip(noise, 0, 1.99) * 128)).resize((area[2], area[3] - area[1]))
        pixels = np.asarray(self.image.crop(area).convert("RGB"), np.float32)
        pixels *= np.asarray(grain, np.float32)[..., None] / 128
        self.image.paste(Image.fromarray(np.uint8(np.clip(pixels, 0, 255))), area)

    def done(self) -> Image.Image:
        """The drawing at one pixel a unit."""
        return self.image.resize(self.size, Image.Resampling.BOX)
