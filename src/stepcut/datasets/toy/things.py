"""The things of the toy kitchen: what lies on the counter, what a hand can hold, and the hands."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from stepcut.datasets.toy.canvas import Canvas, Colour, shade
from stepcut.datasets.toy.pixels import Pixels

WHITE, STEEL, DARK = (240, 238, 232), (188, 194, 200), (52, 50, 54)
BUTTER, TEA, WATER, LEAF = (250, 220, 90), (150, 82, 30), (170, 215, 245), (70, 140, 60)


@dataclass(frozen=True)
class Ware:
    """The colours of what a household owns and eats; steps look alike across kitchens in their shapes only."""

    wood: Colour = (190, 140, 86)
    bread: Colour = (176, 112, 52)
    china: Colour = WHITE
    jam: Colour = (176, 18, 40)
    sink: Colour = STEEL
    sponge: Colour = (245, 205, 60)
    tea: Colour = (40, 110, 80)


@dataclass(frozen=True)
class Sprite:
    """A picture, `pixels` (h, w, 4), with the point by which it is held."""

    pixels: Pixels
    grip: tuple[float, float]


# ---------------------------------------------------------------------- what lies on the counter, drawn about (x, y)


def board(c: Canvas, ware: Ware, x: float, y: float) -> None:
    """A chopping board with a loaf and slices."""
    c.box(x - 120, y - 62, x + 120, y + 75, ware.wood, 14, 3)
    for k in range(5):
        c.line([(x - 105, y - 40 + 24 * k), (x + 100, y - 36 + 24 * k)], shade(ware.wood, 0.88), 1.5)
    c.disc(x + 100, y - 45, 7, 7, shade(ware.wood, 0.5))
    c.box(x - 40, y - 42, x + 100, y + 32, ware.bread, 34, 4)
    for k in range(4):
        c.line([(x + 2 + 26 * k, y - 30), (x - 8 + 26 * k, y + 2)], shade(ware.bread, 1.35), 5)
    for k in range(3):
        toast(c, ware, x - 62 - 14 * k, y + 10 + 8 * k, 0.62)


def toast(c: Canvas, ware: Ware, x: float, y: float, size: float = 1.0, spread: Colour | None = None) -> None:
    """A slice of bread, with something on it or not."""
    c.box(x - 42 * size, y - 36 * size, x + 42 * size, y + 40 * size, ware.bread, 14 * size, 2)
    c.box(x - 36 * size, y - 30 * size, x + 36 * size, y + 34 * size, shade(ware.bread, 1.6), 11 * size)
    if spread:
        c.disc(x - 4 * size, y - 2, 27 * size, 22 * size, spread)
        c.disc(x + 10 * size, y + 10, 20 * size, 16 * size, shade(spread, 1.15))


def plate(c: Canvas, ware: Ware, x: float, y: float, r: float = 80) -> None:
    """A plate from above."""
    c.disc(x + 4, y + 6, r, r * 0.8, (90, 84, 80))
    c.disc(x, y, r, r * 0.8, ware.china, 2)
    c.disc(x, y, r * 0.68, r * 0.53, shade(ware.china, 0.93), 1.5)


def butter(c: Canvas, x: float, y: float) -> None:
    """A dish of butter."""
    c.box(x - 56, y - 24, x + 56, y + 34, (205, 222, 235), 12, 3)
    c.box(x - 40, y - 26, x + 38, y + 16, BUTTER, 5, 2)
    c.box(x - 40, y - 26, x + 38, y - 8, shade(BUTTER, 1.5), 5)


def jar(c: Canvas, ware: Ware, x: float, y: float) -> None:
    """An open jar of jam, its lid and a few berries."""
    c.box(x - 34, y - 44, x + 34, y + 44, ware.jam, 12, 3)
    c.disc(x, y - 42, 31, 13, shade(ware.jam, 0.7), 3)
    c.box(x - 34, y - 14, x + 34, y + 24, WHITE)
    c.disc(x, y + 5, 12, 13, shade(ware.jam, 1.2))
    c.shape([(x - 9, y - 8), (x + 9, y - 8), (x, y + 1)], LEAF)
    c.disc(x + 66, y + 28, 32, 26, shade(ware.jam, 1.1), 2)
    for k in range(-2, 3):
        c.line([(x + 40, y + 28 + 9 * k), (x + 92, y + 28 + 9 * k)], WHITE, 3.5)
    for dx, dy in ((48, -30), (70, -22), (60, -48)):
        c.shape([(x + dx - 10, y + dy - 8), (x + dx + 10, y + dy - 8), (x + dx, y + dy + 13)], shade(ware.jam, 1.15))
        c.line([(x + dx - 7, y + dy - 9), (x + dx + 7, y + dy - 9)], LEAF, 4)


def cup(c: Canvas, ware: Ware, x: float, y: float, liquid: Colour = (225, 222, 214)) -> None:
    """A tea cup on its saucer."""
    c.disc(x + 3, y + 20, 72, 48, (90, 84, 80))
    c.disc(x, y + 16, 72, 48, shade(ware.china, 0.95), 2)
    c.disc(x + 48, y + 4, 20, 14, ware.china, 5)
    c.box(x - 44, y - 18, x + 44, y + 34, ware.china, 26, 2)
    c.disc(x, y - 12, 45, 25, ware.china, 2)
    c.disc(x, y - 10, 38, 19, liquid, 1)
    c.line([(x - 20, y - 16), (x - 40, y + 6), (x - 38, y + 20)], (200, 196, 180), 1.5)
    c.box(x - 48, y + 18, x - 30, y + 36, (230, 190, 40), 2)


def teabox(c: Canvas, ware: Ware, x: float, y: float) -> None:
    """A box of tea and the stand of the kettle."""
    c.box(x - 150, y - 70, x - 84, y + 16, ware.tea, 3, 2)
    c.disc(x - 117, y - 34, 20, 16, (240, 226, 170))
    c.shape([(x - 130, y - 30), (x - 104, y - 40), (x - 114, y - 22)], LEAF)
    c.disc(x + 128, y - 40, 52, 30, DARK, 3)
    c.disc(x + 128, y - 44, 40, 21, (84, 84, 90), 2)


def sink(c: Canvas, ware: Ware, x: float, y: float) -> None:
    """A steel sink with its tap and a rack of plates."""
    c.box(x - 138, y - 70, x + 138, y + 96, ware.sink, 20, 4)
    c.box(x - 116, y - 48, x + 116, y + 78, shade(ware.sink, 0.65), 24, 4)
    c.box(x - 104, y - 20, x + 104, y + 70, (104, 142, 160), 22)
    c.disc(x + 20, y + 30, 14, 9, DARK, 2)
    for k in range(9):
        c.disc(x - 80 + 19 * k, y + 46 + 11 * math.sin(2.3 * k), 12 + k % 3 * 3, 9 + k % 2 * 3, (236, 244, 250), 1)
    c.line([(x, y - 84), (x, y - 130), (x + 4, y - 142), (x + 4, y - 70)], shade(ware.sink, 0.8), 17)
    c.line([(x - 4, y - 84), (x - 4, y - 128)], shade(ware.sink, 1.5), 4)
    for k in range(4):
        c.disc(x - 158 - 9 * k, y - 50, 15, 42, ware.china, 2)


# ---------------------------------------------------------------------- what a hand can hold


def tool(act: str, handle: Colour, ware: Ware) -> Sprite:
    """What is held in the right hand during a step; it is seen then and at no other time."""
    c = Canvas(260, 260)
    if act == "cut bread":
        c.shape([(112, 130), (140, 130), (136, 20), (122, 4), (112, 16)], (206, 212, 218))
        c.shape([(112, 130), (120, 130), (118, 8), (112, 16)], (236, 240, 244))
        c.box(110, 124, 142, 226, handle, 10, 2)
        return Sprite(np.asarray(c.done()), (126, 190))
    if act == "spread butter":
        c.line([(126, 140), (126, 40)], STEEL, 17)
        c.disc(122, 42, 19, 26, BUTTER, 1.5)
        c.box(115, 128, 138, 220, handle, 9, 2)
        return Sprite(np.asarray(c.done()), (126, 190))
    if act in ("add jam", "stir tea"):
        c.line([(126, 220), (126, 60)], handle, 9)
        c.disc(126, 44, 21, 30, handle, 2)
        if act == "add jam":
            c.disc(126, 40, 22, 26, ware.jam, 1.5)
            c.disc(120, 34, 6, 5, shade(ware.jam, 1.5))
        return Sprite(np.asarray(c.done()), (126, 175))
    if act == "pour water":
        c.shape([(62, 96), (14, 62), (6, 78), (60, 150)], shade(handle, 0.85))
        c.disc(126, 130, 78, 72, handle, 4)
        c.box(66, 176, 186, 206, shade(handle, 0.7), 12)
        c.disc(112, 108, 24, 30, shade(handle, 1.45))
        c.disc(126, 62, 34, 12, shade(handle, 0.6), 2)
        c.disc(126, 50, 9, 8, DARK)
        c.line([(84, 74), (92, 16), (170, 14), (196, 76)], DARK, 13)
        return Sprite(np.asarray(c.done()), (150, 16))
    c.box(84, 96, 168, 152, ware.sponge, 10, 2)  # wash dish: a sponge
    c.box(84, 138, 168, 162, handle, 8)
    for k in range(7):
        c.disc(80 + 15 * k, 92 + 9 * (k % 2), 11, 9, (238, 246, 252), 1)
    return Sprite(np.asarray(c.done()), (126, 150))


def dish(ware: Ware) -> Sprite:
    """The plate that is washed."""
    c = Canvas(200, 170)
    plate(c, ware, 100, 80, 86)
    c.disc(80, 74, 20, 12, (200, 130, 60))
    for k in range(6):
        c.disc(70 + 16 * k, 104 - 6 * (k % 3), 13, 10, (238, 246, 252), 1)
    return Sprite(np.asarray(c.done()), (100, 80))


def stream(length: int, width: float) -> Sprite:
    """Running water."""
    c = Canvas(40, length)
    c.line([(20, 4), (20, length - 8)], WATER, width)
    c.line([(18, 4), (18, length - 8)], (232, 245, 255), width / 3)
    c.disc(20, length - 7, 15, 6, (232, 245, 255))
    return Sprite(np.asarray(c.done()), (20, 0))


def hand(skin: Colour, sleeve: Colour, left: bool) -> Sprite:
    """A fist on its forearm, which comes from below; held by the middle of the fist."""
    c = Canvas(150, 460)
    c.shape([(48, 120), (100, 120), (128, 460), (28, 460)], skin)
    c.shape([(38, 190), (112, 190), (138, 460), (14, 460)], sleeve)
    c.box(34, 182, 116, 208, shade(sleeve, 0.75), 8)
    c.disc(75, 84, 40, 48, skin)
    for k in range(4):
        c.box(36 + 19 * k, 38 + 4 * abs(k - 1), 56 + 19 * k, 88, shade(skin, 1.0 - 0.05 * (k % 2)), 10, 1.2)
    c.line([(36, 108), (52, 74)] if left else [(114, 108), (98, 74)], shade(skin, 0.92), 20)
    return Sprite(np.asarray(c.done()), (75, 62))


def person(skin: Colour, sleeve: Colour, trousers: Colour) -> Sprite:
    """The cook as the third-person camera sees them; held by the shoulder."""
    c = Canvas(300, 820, fine=2)
    c.box(80, 420, 145, 800, trousers, 20)
    c.box(155, 420, 220, 800, shade(trousers, 0.85), 20)
    c.box(60, 170, 240, 470, sleeve, 60)
    c.disc(150, 90, 62, 76, skin)
    c.disc(142, 62, 68, 58, shade(trousers, 0.5))
    c.box(66, 786, 148, 818, DARK, 12)
    c.box(152, 786, 236, 818, DARK, 12)
    return Sprite(np.asarray(c.done()), (222, 220))


def pastime_thing(act: str, rng: np.random.Generator) -> Sprite:
    """What the cook holds when no step is going on: a phone, or some thing that no other video has."""

    def any_colour() -> Colour:
        r, g, b = rng.integers(20, 250, 3).tolist()
        return (r, g, b)

    c = Canvas(260, 300)
    if act == "phone":
        c.box(60, 20, 200, 270, DARK, 18, 2)
        c.box(70, 34, 190, 256, any_colour(), 4)
        for k in range(int(rng.integers(2, 8))):
            width = rng.uniform(30, 105)
            c.box(78, 42 + 26 * k, 78 + width, 42 + 26 * k + rng.uniform(8, 20), any_colour(), 4)
        return Sprite(np.asarray(c.done()), (126, 250))
    for _ in range(int(rng.integers(3, 8))):  # a gadget made up of shapes and colours
        x, y, r = rng.uniform(70, 190), rng.uniform(60, 220), rng.uniform(18, 70)
        corners = int(rng.integers(2, 8))
        if corners == 2:
            c.disc(x, y, r, r * rng.uniform(0.4, 1), any_colour(), 3)
        else:
            turn = rng.uniform(0, 6)
            angles = [turn + 2 * math.pi * k / corners for k in range(corners)]
            c.shape([(x + r * math.cos(a), y + r * math.sin(a)) for a in angles], any_colour())
    return Sprite(np.asarray(c.done()), (126, 210))
