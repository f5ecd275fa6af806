"""Look of one kitchen: colours, light and layout, and the picture that the camera moves over."""

import colorsys

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter

from stepcut.toy import things
from stepcut.toy.script import STEPS
from stepcut.toy.things import Canvas, Colour, shade

WIDTH, HEIGHT = 1600, 1200
"""Size of the kitchen in units; a head camera shows about 400 x 300 of them."""
COUNTER, FRONT, FLOOR = 470, 900, 1080
"""Top of the counter, the cupboards below it and the floor."""

KITCHEN = things.read_things()["kitchen"]
"""`work`: step -> place, offset of the work, closeness of the head. `counter`: thing, place, x
offset, y. `wares`, `skins`, `handles`: available colours.
"""


def _hsv(h: float, s: float, v: float) -> Colour:
    return tuple(round(255 * c) for c in colorsys.hsv_to_rgb(h % 1, s, v))


class Look:
    """Random properties of one video, from its `seed`. Across kitchens, only the shapes of steps
    agree.

    `body`, `ware` and `tools` are colours of the cook, the household and each step's tool. `places`
    gives the x of each place.
    """

    def __init__(self, seed: tuple[int, int]) -> None:
        rng = np.random.default_rng([*seed, 2])
        warm = rng.uniform(-0.3, 0.3)
        gain = rng.uniform(0.75, 1.3)
        order = rng.permutation(4)
        handle = _one_of(KITCHEN["handles"], rng)
        self.wall = _hsv(rng.uniform(), rng.uniform(0.1, 0.75), rng.uniform(0.45, 0.95))
        self.tiles = str(rng.choice(["square", "brick", "stripe", "plain", "dots"]))
        self.counter = _hsv(rng.uniform(), rng.uniform(0.05, 0.5), rng.uniform(0.25, 0.9))
        self.surface = str(rng.choice(["wood", "marble", "check", "plain", "stripe"]))
        self.cupboards = _hsv(rng.uniform(), rng.uniform(0.1, 0.6), rng.uniform(0.3, 0.95))
        self.body = {
            "skin": _one_of(KITCHEN["skins"], rng),
            "sleeve": _hsv(rng.uniform(), rng.uniform(0.2, 0.9), rng.uniform(0.2, 0.95)),
            "trousers": _hsv(rng.uniform(), rng.uniform(0.1, 0.6), rng.uniform(0.15, 0.6)),
        }
        self.light = (gain * (1 + warm), gain, gain * (1 - warm))
        self.gamma = rng.uniform(0.6, 1.2)
        self.vivid = rng.uniform(0.3, 1.2)
        self.noise = rng.uniform(2, 9)
        self.mirrored = bool(rng.random() < 0.3)
        self.closeness = rng.uniform(0.75, 1.25)
        self.ware = {name: _one_of(colours, rng) for name, colours in KITCHEN["wares"].items()} | {
            "tea": _any(rng)
        }
        names = zip(("board", "plate", "cup", "sink"), order.tolist(), strict=True)
        self.places = {name: 250 + 365 * k + rng.uniform(-20, 20) for name, k in names}
        self.tools = dict.fromkeys(STEPS, handle) | dict.fromkeys(
            ("add jam", "stir tea"), things.STEEL
        )
        self.tools |= {step: _hsv(rng.uniform(), 0.5, 0.7) for step in ("pour water", "wash dish")}


def work_at(look: Look, step: str) -> tuple[float, float]:
    place, (dx, dy), _ = KITCHEN["work"][step]
    return look.places[place] + dx, 690 + dy


def paint_kitchen(look: Look, seed: tuple[int, int]) -> Image.Image:
    """Draw the kitchen before the first step: an RGB picture of WIDTH x HEIGHT."""
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
        c.disc(x + 176, FRONT + 70, 6, 6, things.STEEL, 1)
    c.box(0, FLOOR, WIDTH, HEIGHT, shade(look.cupboards, 0.45))
    c.texture(1 + 0.12 * gaussian_filter(rng.standard_normal((60, 200)), 1.0), FLOOR, HEIGHT)
    for _ in range(7):  # at the back of the counter
        at = rng.uniform(60, WIDTH - 60), rng.uniform(COUNTER + 20, COUNTER + 70)
        thing = ("bottle", "carton", "fruit")[rng.integers(3)]
        colours = {"paint": _any(rng)} | ({"print": _any(rng)} if thing == "carton" else {})
        things.draw(c, thing, colours, *at)
    for thing, place, dx, y in KITCHEN["counter"]:
        things.draw(c, thing, look.ware, look.places[place] + dx, y)
    return c.done()


def settle(kitchen: Image.Image, look: Look, step: str) -> bool:
    """Draw the result of a finished step, if it is visible: butter, jam, or tea in the cup."""
    if step in ("spread butter", "add jam"):
        c = Canvas(100, 100)
        spread = things.BUTTER if step == "spread butter" else look.ware["jam"]
        things.draw(c, "spread toast", {**look.ware, "spread": spread}, 50, 50)
        picture, (x, y) = c.done(), (look.places["plate"] - 70, 650)
    elif step == "pour water":
        c = Canvas(200, 160)
        things.draw(c, "cup", {**look.ware, "liquid": things.TEA}, 100, 70)
        picture, (x, y) = c.done(), (look.places["cup"] - 100, 620)
    else:
        return False
    kitchen.paste(picture, (round(x), round(y)), picture)
    return True


def _tile(c: Canvas, look: Look) -> None:
    joint = shade(look.wall, 0.75)
    if look.tiles in ("square", "brick"):
        for row, y in enumerate(range(0, COUNTER, 47)):
            c.line([(0, y), (WIDTH, y)], joint, 3)
            for x in range(
                -60 + (row % 2) * 40 * (look.tiles == "brick"),
                WIDTH,
                80 if look.tiles == "brick" else 47,
            ):
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
    c.texture(
        1 + (0.1 if look.surface in ("wood", "marble") else 0.04) * noise / noise.std(),
        COUNTER,
        FRONT,
    )


def _one_of(colours: list[list[int]], rng: np.random.Generator) -> Colour:
    return tuple(colours[int(rng.integers(len(colours)))])


def _any(rng: np.random.Generator) -> Colour:
    return _hsv(rng.uniform(), rng.uniform(0.2, 0.9), rng.uniform(0.25, 0.95))


def _hang(c: Canvas, x: float, y: float, rng: np.random.Generator) -> None:
    """Draw a window, a picture, a clock or a shelf on the wall."""
    kind, w, h = rng.integers(4), rng.uniform(70, 130), rng.uniform(70, 110)
    frame = _any(rng)
    if kind == 0:
        c.box(x - w, y - h, x + w, y + h, WINDOW_FRAME, 4, 4)
        sky = _any(rng)
        c.box(x - w + 10, y - h + 10, x + w - 10, y + h - 10, shade(sky, 1.3))
        c.disc(x + rng.uniform(-30, 30), y + h * 0.3, w * 0.5, h * 0.4, _any(rng))
        c.line([(x, y - h), (x, y + h)], WINDOW_FRAME, 8)
    elif kind == 1:
        c.box(x - w, y - h, x + w, y + h, frame, 0, 6)
        for _ in range(9):
            c.disc(
                x + rng.uniform(-0.7, 0.7) * w,
                y + rng.uniform(-0.7, 0.7) * h,
                w * 0.25,
                h * 0.25,
                _any(rng),
            )
    elif kind == 2:
        c.disc(x, y, 70, 70, frame, 6)
        c.disc(x, y, 56, 56, things.WHITE)
        c.line([(x, y), (x + rng.uniform(-40, 40), y - 30)], things.DARK, 5)
    else:
        c.box(x - 150, y + 60, x + 150, y + 76, frame, 2, 2)
        for k in range(7):
            tall = rng.uniform(40, 100)
            c.box(x - 140 + 40 * k, y + 60 - tall, x - 110 + 40 * k, y + 60, _any(rng), 5, 2)


WINDOW_FRAME = (236, 232, 224)
