"""A small copy of a video that the browser cannot play, encoded once and kept in the cache."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from pathlib import Path
from typing import Any

import av

from stepcut.errors import choose
from stepcut.features.video import probe, sample_frames
from stepcut.files.atomic import whole_file
from stepcut.files.cache import cache_dir
from stepcut.progress import Hook, Stage, silent

HEIGHT = 360
FASTEST = 15
"""Frames a second: enough to see what is done, and half the work."""

# What the browser says it can play -> (file suffix, container, encoder, its options).
KINDS: dict[str, tuple[str, str, str, dict[str, str]]] = {
    "mp4": ("mp4", "mp4", "libx264", {"preset": "veryfast", "crf": "26", "movflags": "+faststart"}),
    "webm": ("webm", "webm", "libvpx-vp9", {"deadline": "realtime", "cpu-used": "8", "row-mt": "1", "b": "600k"}),
}


def proxy_path(video: str | Path, kind: str) -> Path:
    """Where the copy of a video is kept; its name changes when the video does."""
    suffix = choose("kind", kind, KINDS)[0]
    file = Path(video).absolute()
    state = file.stat()
    name = hashlib.blake2b(f"{file} {state.st_size} {state.st_mtime_ns}".encode(), digest_size=12).hexdigest()
    return cache_dir() / "proxies" / f"{name}.{suffix}"


def make_proxy(video: str | Path, kind: str = "mp4", progress: Hook = silent) -> Path:
    """Encode the copy unless it is there; pictures only, without sound, on the true times of the video."""
    target = proxy_path(video, kind)
    if target.exists():
        return target
    _, container, encoder, options = choose("kind", kind, KINDS)
    info = probe(video)
    rate = min(info.rate or Fraction(FASTEST), Fraction(FASTEST)).limit_denominator(1000)
    height = min(HEIGHT, info.height) // 2 * 2
    width = max(2, round(info.width * height / info.height / 2) * 2)
    with (
        whole_file(target) as temporary,
        av.open(str(temporary), "w", format=container, options=_container_options(options)) as out,
        Stage(progress, "proxy", total=max(info.duration, 0.1), unit="s") as stage,
    ):
        stream: Any = out.add_stream(encoder, rate=rate, options=_encoder_options(options))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.gop_size = FASTEST  # a key frame a second, so that seeking is quick
        for time, picture in sample_frames(video, fps=rate, size=(height, width), threads=1):
            out.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
            stage.advance(time - stage.done)
        out.mux(stream.encode())
    return target


def _container_options(options: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in options.items() if key == "movflags"}


def _encoder_options(options: dict[str, str]) -> dict[str, str]:
    return {key: value for key, value in options.items() if key != "movflags"}
