"""Render scripts to frames and mp4 files, from the cook's head or from a tripod."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from math import atan2, ceil, cos, floor, hypot, pi, sin, tanh
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d

from stepcut.files import whole_file
from stepcut.parallel import compiled_later
from stepcut.toy import scene
from stepcut.toy.scene import HEIGHT, KITCHEN, WIDTH, Look, Packed, Point, work_at
from stepcut.toy.script import STEPS, Script, Shot

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float32]

SIZE = (256, 192)  # width and height of a frame in pixels; the default backbone uses no more
FPS = 10
CLOSE = SIZE[0] / 320  # pixels per unit of the kitchen at zoom 1
REACH = 80.0  # of the hands from the centre of the view, in units at zoom 1


@dataclass(frozen=True)
class InHand:
    """A thing at `(x, y)` from the hands, rotated by `turn` degrees and scaled by `size`."""

    thing: str
    x: float
    y: float
    turn: float = 0.0
    size: float = 1.0


def render_frames(script: Script, view: str, look: Look | None = None) -> Iterator[Pixels]:
    """Yield the frames in YUV 4:2:0, (288, 256); frame `i` shows time `i / FPS`."""
    look = look or Look(script.seed)
    rng = np.random.default_rng([*script.seed, 4])
    kitchen = scene.paint_kitchen(look, script.seed)
    colours = look.body | look.ware
    names = ("left", "right", "person", "dish", "pour", "tap")
    sprites = {name: scene.make_sprite(name, colours) for name in names}
    for step in STEPS:
        sprites[step] = scene.make_sprite(step, {**colours, "handle": look.tools[step]})
    side = view == "side"
    if side:  # a tripod shows the whole kitchen
        path = np.tile([WIDTH / 2, HEIGHT / 2, SIZE[0] / WIDTH * 1.04, 0.0], (_count(script), 1))
        path[:, :2] += 1.5 * rng.standard_normal(2)
    else:
        path = _fly_ego(script, look, rng)
    finish = _make_finish(look, len(path), rng)
    reduction = 4 if side else 1  # avoids flicker
    seen = scene.pack(kitchen.reduce(reduction))
    number = 0
    for shot in script.shots:
        if not shot.step:
            own = np.random.default_rng(shot.seed)
            sprites["thing"] = scene.pastime_thing(shot.act, own)
            spot = (own.uniform(250, WIDTH - 250), own.uniform(560, 760))
        else:
            spot = work_at(look, shot.act)
        while number < len(path) and number / FPS < shot.end - 1e-9:
            camera = path[number]
            frame = np.empty(SIZE[::-1], np.uint32)
            cx, cy, zoom, roll = camera.tolist()
            middle = (cx / reduction, cy / reduction), (SIZE[0] / 2, SIZE[1] / 2)
            cover(frame, seen, _inverse(*middle, roll, zoom * reduction))
            items = _hold(shot, number / FPS - shot.start)
            if side:
                items, (x, y) = _stand(items), spot
            else:
                reach, head = REACH * CLOSE / zoom, camera[:2]
                x, y = (head + np.clip(spot - head, -reach, reach)).tolist()
            for item in items:
                at = _project(camera, x + item.x, y + item.y)
                _draw(frame, *sprites[item.thing], at, item.turn + roll, item.size * zoom)
            yield finish(frame, number)
            number += 1
        if shot.step and scene.settle(kitchen, look, shot.step):
            seen = scene.pack(kitchen.reduce(reduction))


def render_video(script: Script, path: str | os.PathLike[str], view: str = "ego") -> None:
    h264 = "libx264" in av.codecs_available  # browsers play it; MPEG-4 is in every build
    options = {"preset": "ultrafast", "crf": "28"} if h264 else {"qscale": "4"}
    with whole_file(path) as temporary, av.open(str(temporary), "w", format="mp4") as container:
        stream = container.add_stream("libx264" if h264 else "mpeg4", rate=FPS, options=options)
        stream.width, stream.height = SIZE
        stream.pix_fmt = "yuv420p"
        stream.codec_context.thread_count = 1  # the same bytes on every machine
        for planes in render_frames(script, view):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(planes, format="yuv420p")))
        container.mux(stream.encode(None))


def is_filmed(script: Script, path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        with av.open(str(path)) as container:  # fails on truncated files: the index is at the end
            return bool(container.streams.video[0].frames == _count(script))
    except (av.FFmpegError, IndexError):
        return False


def _count(script: Script) -> int:
    return round(script.duration * FPS)


def _fly_ego(script: Script, look: Look, rng: np.random.Generator) -> NDArray[np.float64]:
    """Path of the head, (frames, 4): x, y, zoom and roll in degrees; it follows the work."""
    path = np.empty((_count(script), 4))
    times = np.arange(len(path)) / FPS
    for shot in script.shots:
        here = (times >= shot.start - 1e-9) & (times < shot.end - 1e-9)
        own = np.random.default_rng([shot.seed, 1])
        t = times[here] - shot.start
        if shot.step:
            x, y = work_at(look, shot.step)
            x, y = x + own.uniform(-35, 35), y + own.uniform(-40, 15)
            zoom, wide = KITCHEN["work"][shot.step][2] * own.uniform(0.88, 1.12), 26.0
        else:
            x = own.uniform(200, WIDTH - 200)
            y = {"wander": 880, "look": 240}.get(shot.act, 690) + own.uniform(-90, 90)
            zoom, wide = own.uniform(0.6, 1.2), {"wander": 260.0, "look": 160.0}.get(shot.act, 45.0)
        path[here, 0] = x + wide * _sway(t, 0.12, own)
        path[here, 1] = y + 0.5 * wide * _sway(t, 0.12, own)
        path[here, 2] = zoom * look.closeness * (1 + 0.08 * _sway(t, 0.1, own))
        path[here, 3] = own.uniform(-7, 7) + 5 * _sway(t, 0.15, own)
    path[:] = gaussian_filter1d(path, 0.25 * FPS, axis=0, mode="nearest")
    path[:, 0] += 2.5 * _sway(times, 1.7, rng)
    path[:, 1] += 2.5 * _sway(times, 2.1, rng)
    path[:, 3] += 0.6 * _sway(times, 1.9, rng)
    path[:, 2] = CLOSE * np.clip(path[:, 2], 0.55, 1.6)
    half = 0.5 * np.array(SIZE) / path[:, 2:3] * (1.1, 1.25) + 5  # keep the kitchen in view
    path[:, :2] = np.clip(path[:, :2], half, (WIDTH, HEIGHT) - half)
    return path


def _sway(t: NDArray[np.float64], pace: float, rng: np.random.Generator) -> Any:
    """Smooth motion between about -1 and 1, at about `pace` cycles per second."""
    waves = [np.sin(2 * pi * (pace * rng.uniform(0.5, 1.6) * t + rng.random())) for _ in range(3)]
    return sum(waves) / 2.0


@cache
def _habits(seed: int) -> tuple[float, float, float, float]:
    """Pace of work in one shot, and position (x, y) and angle of the hands."""
    own = np.random.default_rng([seed, 2])
    return own.uniform(0.75, 1.3), own.uniform(-14, 14), own.uniform(-10, 10), own.uniform(-8, 8)


def _hold(shot: Shot, t: float) -> list[InHand]:
    """The hands and what they hold, `t` seconds into a shot, rearmost first."""
    act = shot.act
    pace, dx, dy, turn = _habits(shot.seed)
    beat = 2 * pi * pace * t
    way = 0.5 + 0.5 * tanh(3 * sin(0.55 * beat))  # of the jam, from the jar (0) to the toast (1)
    tools = {  # position and angle of the tool, and angle of the right hand
        "cut bread": (14 + dx, 58 + dy + 20 * sin(1.7 * beat), -12 + turn, -24),
        "spread butter": (66 + dx + 26 * sin(beat), 74 + dy + 8 * cos(0.7 * beat), -52 + turn, -30),
        "add jam": (10 + 80 * way + dx, 96 - 40 * way + dy, -28 + turn - 20 * way, -26),
        "pour water": (92 + dx, -96 + dy + 4 * sin(0.5 * beat),
                       -34 + turn / 2 + 4 * sin(0.6 * beat), -40),
        "stir tea": (24 + 15 * cos(1.4 * beat) + dx / 3, 86 + 8 * sin(1.4 * beat),
                     -20 + turn / 2, -28),
        "wash dish": (26 + dx + 24 * cos(1.2 * beat), 30 + dy + 16 * sin(1.2 * beat), turn, -24),
    }  # fmt: skip
    behind = {
        "cut bread": [InHand("left", -62 + dx, 34, 28)],
        "spread butter": [InHand("left", -80, 60 + dy, 30)],
        "add jam": [InHand("left", -16, 30, 34)],
        "pour water": [InHand("pour", -34 + dx, -64 + dy)],
        "stir tea": [InHand("left", -74, 36 + dy, 34)],
        "wash dish": [InHand("tap", 4, -70), InHand("dish", -4, 22 + dy, 6 * sin(beat)),
                      InHand("left", -78, 44 + dy, 26)],
    }  # fmt: skip
    if act in tools:
        x, y, tip, hand = tools[act]
        return [*behind[act], InHand(act, x, y, tip), InHand("right", x, y, hand)]
    if act in ("phone", "fiddle"):
        x, y = 10 + 2 * dx + 8 * sin(0.4 * beat), 50 + dy
        return [InHand("thing", x, y, turn + 6 * sin(0.3 * beat), 0.9), InHand("right", x, y, -14)]
    return []  # wander, look: the hands are down


def _stand(items: list[InHand]) -> list[InHand]:
    side, up = -170.0, -270.0
    whole = [InHand("person", side, up)]
    for item in items:
        if item.thing in ("left", "right"):
            x, y = side - item.x, up - item.y
            item = InHand(item.thing, item.x, item.y, atan2(-x, y) * 180 / pi, hypot(x, y) / 390)
        whole.append(item)
    return whole


def _project(camera: NDArray[np.float64], x: float, y: float) -> Point:
    cx, cy, zoom, roll = camera.tolist()
    c, s = cos(roll * pi / 180) * zoom, sin(roll * pi / 180) * zoom
    return c * (x - cx) - s * (y - cy) + SIZE[0] / 2, s * (x - cx) + c * (y - cy) + SIZE[1] / 2


def _draw(frame: Packed, picture: Packed, grip: Point, at: Point, turn: float, size: float) -> None:
    c, s = cos(turn * pi / 180), sin(turn * pi / 180)
    height, width = picture.shape[:2]
    sides = ((0, 0), (width, 0), (0, height), (width, height))
    corners = [(x - grip[0], y - grip[1]) for x, y in sides]
    across = [at[0] + size * (c * x - s * y) for x, y in corners]
    down = [at[1] + size * (s * x + c * y) for x, y in corners]
    left, top = max(0, floor(min(across))), max(0, floor(min(down)))
    part = frame[top : max(top, ceil(max(down))), left : max(left, ceil(max(across)))]
    overlay(part, picture, _inverse(grip, (at[0] - left, at[1] - top), turn, size))


def _inverse(grip: Point, at: Point, turn: float, size: float) -> NDArray[np.float64]:
    """Map from a frame to a picture (see `overlay`) that has its `grip` at `at`."""
    a, b = cos(turn * pi / 180) / size, sin(turn * pi / 180) / size
    x, y = at
    return np.array([a, b, grip[0] - a * x - b * y, -b, a, grip[1] + b * x - a * y])


# parts of red, green and blue in Y, U and V (BT.601)
YUV = np.array([[0.257, 0.504, 0.098], [-0.148, -0.291, 0.439], [0.439, -0.368, -0.071]])


def _make_finish(
    look: Look, count: int, rng: np.random.Generator
) -> Callable[[Packed, int], Pixels]:
    clouds = 1 + 0.1 * _sway(np.arange(count) / FPS, 0.04, rng)
    saturation = look.vivid * np.eye(3) + (1 - look.vivid) / 3
    light = np.outer(look.light, np.linspace(0, 1, 256) ** look.gamma * 255)
    levels = ((YUV @ saturation)[:, :, None] * light).astype(np.float32)
    y, x = np.ogrid[-1 : 1 : SIZE[1] * 1j, -1 : 1 : SIZE[0] * 1j]
    rim = (1 - 0.28 * (x**2 + y**2) ** 1.5 / 2).astype(np.float32)
    noise = look.noise * YUV[0].sum() * rng.standard_normal((SIZE[1] + 64, SIZE[0] + 64))
    grain = (16 + noise).astype(np.float32)  # black is 16
    shifts = rng.integers(0, 64, (count, 2)).tolist()

    def finish(frame: Packed, number: int) -> Pixels:
        dx, dy = shifts[number]
        own = grain[dy : dy + SIZE[1], dx : dx + SIZE[0]]
        seen = np.ascontiguousarray(frame[:, ::-1]) if look.mirrored else frame
        return expose(seen, levels * np.float32(clouds[number]), rim, own)

    return finish


# ---------- loops


@compiled_later
def overlay(frame: Packed, picture: Packed, m: NDArray[np.float64]) -> None:
    """Draw a packed `picture` (h, w) over a packed `frame` (H, W) with bilinear interpolation.

    Pixel (x, y) of the frame shows the picture at (m0 x + m1 y + m2, m3 x + m4 y + m5), if that is
    inside it. Coordinates are 16.16 fixed-point numbers; two of the four channels are computed at
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
    """Fill a packed `frame` with an opaque `picture`, mapped as in `overlay`; its edge continues.

    Without branches the loop compiles to vector instructions: a video is rendered a fifth faster.
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
def expose(frame: Packed, levels: Floats, rim: Floats, grain: Floats) -> Pixels:
    """Convert a packed frame (H, W) to the sensor's picture in YUV 4:2:0, (H * 3/2, W).

    `levels` (3, 3, 256) maps red, green and blue to their parts of Y, U and V. `rim` darkens the
    picture, and `grain` is added to Y. U and V of 2 x 2 pixels follow in rows of W / 2.
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
