"""The kitchen of one video, drawn from `things.json`: colours, light, layout, tools and hands.

A thing is a list of shapes: box (left, top, right, bottom, then rounding and rim), disc (x, y,
half width, half height, then rim), shape (a polygon) and line (its points, then its width). A
colour is [r, g, b] or a name that each household defines; "wood 0.88" is a darker wood.
"""

import colorsys
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from scipy.ndimage import gaussian_filter

from stepcut.toy.script import STEPS

Packed = NDArray[np.uint32]
Colour = tuple[int, ...]  # red, green and blue, 0 to 255
Point = tuple[float, float]
Sprite = tuple[Packed, Point]  # a packed picture (h, w), and its grip point

WIDTH, HEIGHT = 1600, 1200  # units of the kitchen; a head camera shows about 400 x 300 of them
COUNTER, FRONT, FLOOR = 470, 900, 1080  # top of the counter, the cupboards below it and the floor
THINGS: dict[str, Any] = json.loads(
    Path(__file__).with_name("things.json").read_text(encoding="utf-8")
)
# `work`: step -> place, offset, closeness of the head. `counter`: thing, place, x offset, y.
KITCHEN = THINGS["kitchen"]
WHITE, STEEL, DARK = (240, 238, 232), (188, 194, 200), (52, 50, 54)
BUTTER, TEA, WINDOW = (250, 220, 90), (150, 82, 30), (236, 232, 224)
# of all kitchens; an empty cup shows its glaze
COLOURS: dict[str, Colour] = {
    "white": WHITE, "steel": STEEL, "dark": DARK, "butter": BUTTER, "water": (170, 215, 245),
    "leaf": (70, 140, 60), "liquid": (225, 222, 214),
}  # fmt: skip


# ---------- drawing


def shade(colour: Colour, by: float) -> Colour:
    """Darken (`by` < 1) or lighten (`by` > 1) a colour."""
    lit = (c * by if by <= 1 else c + (255 - c) * (by - 1) for c in colour)
    return tuple(max(0, min(255, round(c))) for c in lit)


def hsv(h: float, s: float, v: float) -> Colour:
    return tuple(round(255 * c) for c in colorsys.hsv_to_rgb(h % 1, s, v))


def any_colour(rng: np.random.Generator) -> Colour:
    return hsv(rng.uniform(), rng.uniform(0.2, 0.9), rng.uniform(0.25, 0.95))


class Canvas:
    """A drawing of `width` x `height` units at `fine` pixels per unit; rims are darker."""

    def __init__(self, width: int, height: int, paint: Colour | None = None, fine: int = 3) -> None:
        self.fine = fine
        mode, fill = ("RGBA", (0, 0, 0, 0)) if paint is None else ("RGB", paint)
        self.image = Image.new(mode, (width * fine, height * fine), fill)
        self.pen = ImageDraw.Draw(self.image)

    def _at(self, *points: Point) -> list[Point]:
        return [(x * self.fine, y * self.fine) for x, y in points]

    def box(
        self, x0: float, y0: float, x1: float, y1: float, fill: Colour, round_: float = 0,
        edge: float = 0,
    ) -> None:  # fmt: skip
        rim = shade(fill, 0.65) if edge else None
        at = self._at((x0, y0), (x1, y1))
        self.pen.rounded_rectangle(at, round_ * self.fine, fill, rim, round(edge * self.fine))

    def disc(self, x: float, y: float, rx: float, ry: float, fill: Colour, edge: float = 0) -> None:
        rim = shade(fill, 0.65) if edge else None
        at = self._at((x - rx, y - ry), (x + rx, y + ry))
        self.pen.ellipse(at, fill, rim, round(edge * self.fine))

    def shape(self, points: Sequence[Point], fill: Colour) -> None:
        self.pen.polygon(self._at(*points), fill)

    def line(self, points: Sequence[Point], fill: Colour, width: float) -> None:
        at = self._at(*points)
        self.pen.line(at, fill, round(width * self.fine), "curve")
        r = width * self.fine / 2
        for x, y in (at[0], at[-1]):
            self.pen.ellipse([x - r, y - r, x + r, y + r], fill)

    def texture(self, noise: NDArray[np.float64], y0: int, y1: int) -> None:
        area = (0, y0 * self.fine, self.image.width, y1 * self.fine)
        grain = Image.fromarray(np.uint8(np.clip(noise, 0, 1.99) * 128))
        grain = grain.resize((area[2], area[3] - area[1]))
        pixels = np.asarray(self.image.crop(area).convert("RGB"))
        grains = np.asarray(Image.merge("RGB", [grain] * 3))
        product = np.multiply(pixels, grains, dtype=np.uint16)
        product >>= 7  # 128 leaves a pixel unchanged
        np.minimum(product, 255, out=product)
        self.image.paste(Image.fromarray(product.astype(np.uint8)), area)

    def draw(
        self, thing: str, colours: Mapping[str, Colour], x: float = 0, y: float = 0
    ) -> "Canvas":
        palette = {**COLOURS, **colours}
        for kind, paint, at, *more in THINGS[thing]["shapes"]:
            name, _, light = paint.partition(" ") if isinstance(paint, str) else ("", "", "")
            fill = palette[name] if name else tuple(paint)
            fill = shade(fill, float(light)) if light else fill
            if kind == "disc":
                self.disc(x + at[0], y + at[1], at[2], at[3], fill, *more)
                continue
            points = [(x + dx, y + dy) for dx, dy in zip(at[::2], at[1::2], strict=True)]
            if kind == "box":
                self.box(*points[0], *points[1], fill, *more)
            else:
                getattr(self, kind)(points, fill, *more)
        return self

    def done(self) -> Image.Image:
        return self.image.reduce(self.fine)


def pack(picture: Image.Image) -> Packed:
    """Pack a picture into one number per pixel, (h, w): RGBA with premultiplied alpha."""
    pixels = np.asarray(picture.convert("RGBA" if picture.mode == "RGB" else "RGBa"))
    return np.ascontiguousarray(pixels).view("<u4")[..., 0]


def make_sprite(thing: str, colours: Mapping[str, Colour]) -> Sprite:
    about = THINGS[thing]
    width, height = about["size"]
    canvas = Canvas(width, height, fine=about.get("fine", 3)).draw(thing, colours)
    return pack(canvas.done()), (about["grip"][0], about["grip"][1])


def pastime_thing(act: str, rng: np.random.Generator) -> Sprite:
    """What the cook holds between steps: a phone, or a gadget of random shapes and colours."""

    def paint() -> Colour:
        return tuple(rng.integers(20, 250, 3).tolist())

    c = Canvas(260, 300)
    if act == "phone":
        c.box(60, 20, 200, 270, DARK, 18, 2)
        c.box(70, 34, 190, 256, paint(), 4)
        for top in range(42, 42 + 26 * int(rng.integers(2, 8)), 26):
            right = 78 + rng.uniform(30, 105)
            c.box(78, top, right, top + rng.uniform(8, 20), paint(), 4)
        return pack(c.done()), (126, 250)
    for _ in range(int(rng.integers(3, 8))):
        x, y, r = rng.uniform(70, 190), rng.uniform(60, 220), rng.uniform(18, 70)
        corners = int(rng.integers(2, 8))
        if corners == 2:
            c.disc(x, y, r, r * rng.uniform(0.4, 1), paint(), 3)
        else:
            turn = rng.uniform(0, 6)
            angles = [turn + 2 * math.pi * k / corners for k in range(corners)]
            c.shape([(x + r * math.cos(a), y + r * math.sin(a)) for a in angles], paint())
    return pack(c.done()), (126, 210)


# ---------- one kitchen


class Look:
    """Random properties of one video; only the shapes of steps are the same in all kitchens."""

    def __init__(self, seed: tuple[int, int]) -> None:
        rng = np.random.default_rng([*seed, 2])

        def paint(saturation: Point, value: Point) -> Colour:
            return hsv(rng.uniform(), rng.uniform(*saturation), rng.uniform(*value))

        def one_of(colours: list[list[int]]) -> Colour:
            return tuple(colours[int(rng.integers(len(colours)))])

        warm = rng.uniform(-0.3, 0.3)
        gain = rng.uniform(0.75, 1.3)
        order = rng.permutation(4)
        handle = one_of(KITCHEN["handles"])
        self.wall = paint((0.1, 0.75), (0.45, 0.95))
        self.tiles = str(rng.choice(["square", "brick", "stripe", "plain", "dots"]))
        self.counter = paint((0.05, 0.5), (0.25, 0.9))
        self.surface = str(rng.choice(["wood", "marble", "check", "plain", "stripe"]))
        self.cupboards = paint((0.1, 0.6), (0.3, 0.95))
        self.body = {
            "skin": one_of(KITCHEN["skins"]),
            "sleeve": paint((0.2, 0.9), (0.2, 0.95)),
            "trousers": paint((0.1, 0.6), (0.15, 0.6)),
        }
        self.light = (gain * (1 + warm), gain, gain * (1 - warm))
        self.gamma = rng.uniform(0.6, 1.2)
        self.vivid = rng.uniform(0.3, 1.2)
        self.noise = rng.uniform(2, 9)
        self.mirrored = bool(rng.random() < 0.3)
        self.closeness = rng.uniform(0.75, 1.25)
        self.ware = {name: one_of(colours) for name, colours in KITCHEN["wares"].items()}
        self.ware["tea"] = any_colour(rng)
        names = zip(("board", "plate", "cup", "sink"), order.tolist(), strict=True)
        self.places = {name: 250 + 365 * k + rng.uniform(-20, 20) for name, k in names}
        self.tools = dict.fromkeys(STEPS, handle) | dict.fromkeys(("add jam", "stir tea"), STEEL)
        self.tools |= {step: hsv(rng.uniform(), 0.5, 0.7) for step in ("pour water", "wash dish")}


def work_at(look: Look, step: str) -> Point:
    place, (dx, dy), _ = KITCHEN["work"][step]
    return look.places[place] + dx, 690 + dy


def paint_kitchen(look: Look, seed: tuple[int, int]) -> Image.Image:
    rng = np.random.default_rng([*seed, 3])
    c = Canvas(WIDTH, HEIGHT, look.wall, fine=2)
    _tile(c, look)
    for _ in range(3):
        _hang(c, rng.uniform(120, WIDTH - 120), rng.uniform(130, 230), rng)
    c.box(0, COUNTER, WIDTH, FRONT, look.counter)
    _lay(c, look, rng)
    c.box(0, FRONT, WIDTH, FRONT + 26, shade(look.counter, 0.6))
    c.box(0, FRONT + 26, WIDTH, FLOOR, look.cupboards)
    for x in range(0, WIDTH, 200):
        c.box(x + 8, FRONT + 40, x + 192, FLOOR - 12, shade(look.cupboards, 1.12), 6, 2)
        c.disc(x + 176, FRONT + 70, 6, 6, STEEL, 1)
    c.box(0, FLOOR, WIDTH, HEIGHT, shade(look.cupboards, 0.45))
    c.texture(1 + 0.12 * gaussian_filter(rng.standard_normal((60, 200)), 1.0), FLOOR, HEIGHT)
    for _ in range(7):  # at the back of the counter
        at = rng.uniform(60, WIDTH - 60), rng.uniform(COUNTER + 20, COUNTER + 70)
        thing = ("bottle", "carton", "fruit")[rng.integers(3)]
        names = ("paint", "print") if thing == "carton" else ("paint",)
        c.draw(thing, {name: any_colour(rng) for name in names}, *at)
    for thing, place, dx, y in KITCHEN["counter"]:
        c.draw(thing, look.ware, look.places[place] + dx, y)
    return c.done()


def settle(kitchen: Image.Image, look: Look, step: str) -> bool:
    if step in ("spread butter", "add jam"):
        spread = BUTTER if step == "spread butter" else look.ware["jam"]
        c = Canvas(100, 100).draw("spread toast", {**look.ware, "spread": spread}, 50, 50)
        x, y = look.places["plate"] - 70, 650
    elif step == "pour water":
        c = Canvas(200, 160).draw("cup", {**look.ware, "liquid": TEA}, 100, 70)
        x, y = look.places["cup"] - 100, 620
    else:
        return False
    picture = c.done()
    kitchen.paste(picture, (round(x), round(y)), picture)
    return True


def _tile(c: Canvas, look: Look) -> None:
    joint = shade(look.wall, 0.75)
    if look.tiles in ("square", "brick"):
        brick = look.tiles == "brick"
        for row, y in enumerate(range(0, COUNTER, 47)):
            c.line([(0, y), (WIDTH, y)], joint, 3)
            for x in range(-60 + (row % 2) * 40 * brick, WIDTH, 80 if brick else 47):
                c.line([(x, y), (x, y + 47)], joint, 3)
    elif look.tiles == "stripe":
        for x in range(0, WIDTH, 60):
            c.box(x, 0, x + 26, COUNTER, joint)
    elif look.tiles == "dots":
        for y in range(20, COUNTER, 60):
            for x in range(20, WIDTH, 60):
                c.disc(x, y, 12, 12, joint)


def _lay(c: Canvas, look: Look, rng: np.random.Generator) -> None:
    if look.surface == "check":
        for row, y in enumerate(range(COUNTER, FRONT, 54)):
            for x in range(54 * (row % 2), WIDTH, 108):
                c.box(x, y, x + 54, min(y + 54, FRONT), shade(look.counter, 1.5))
    elif look.surface == "stripe":
        for x in range(0, WIDTH, 70):
            c.box(x, COUNTER, x + 30, FRONT, shade(look.counter, 0.75))
    rough = {"wood": (1, 40), "marble": (6, 6)}.get(look.surface, (0.6, 0.6))
    noise = gaussian_filter(rng.standard_normal((215, 800)), rough)
    strong = 0.1 if look.surface in ("wood", "marble") else 0.04
    c.texture(1 + strong * noise / noise.std(), COUNTER, FRONT)


def _hang(c: Canvas, x: float, y: float, rng: np.random.Generator) -> None:
    kind, w, h = rng.integers(4), rng.uniform(70, 130), rng.uniform(70, 110)
    frame = any_colour(rng)
    if kind == 0:
        c.box(x - w, y - h, x + w, y + h, WINDOW, 4, 4)
        c.box(x - w + 10, y - h + 10, x + w - 10, y + h - 10, shade(any_colour(rng), 1.3))
        c.disc(x + rng.uniform(-30, 30), y + h * 0.3, w * 0.5, h * 0.4, any_colour(rng))
        c.line([(x, y - h), (x, y + h)], WINDOW, 8)
    elif kind == 1:
        c.box(x - w, y - h, x + w, y + h, frame, 0, 6)
        for _ in range(9):
            at = x + rng.uniform(-0.7, 0.7) * w, y + rng.uniform(-0.7, 0.7) * h
            c.disc(*at, w * 0.25, h * 0.25, any_colour(rng))
    elif kind == 2:
        c.disc(x, y, 70, 70, frame, 6)
        c.disc(x, y, 56, 56, WHITE)
        c.line([(x, y), (x + rng.uniform(-40, 40), y - 30)], DARK, 5)
    else:
        c.box(x - 150, y + 60, x + 150, y + 76, frame, 2, 2)
        for left in range(0, 280, 40):
            top = y + 60 - rng.uniform(40, 100)
            c.box(x - 140 + left, top, x - 110 + left, y + 60, any_colour(rng), 5, 2)
