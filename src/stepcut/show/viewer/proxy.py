"""A small copy of a video that the browser cannot play, encoded once and kept in the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import choose
from stepcut.features.video import probe, sample_frames
from stepcut.files.atomic import whole_file
from stepcut.files.cache import cache_dir
from stepcut.progress import Hook, Stage, silent
from stepcut.show.film import write_film

HEIGHT = 360
FASTEST = 15
"""Frames a second: enough to see what is done, and half the work."""

KINDS: dict[str, tuple[str, dict[str, str]]] = {
    "mp4": ("libx264", {"preset": "veryfast", "crf": "26"}),
    "webm": ("libvpx-vp9", {"deadline": "realtime", "cpu-used": "8", "row-mt": "1", "b": "600k"}),
}
"""What the browser says it can play -> the encoder, and its options."""


def proxy_path(video: str | Path, kind: str) -> Path:
    """Where the copy of a video is kept; its name changes when the video does."""
    choose("kind", kind, KINDS)
    file = Path(video).absolute()
    state = file.stat()
    name = hashlib.blake2b(f"{file} {state.st_size} {state.st_mtime_ns}".encode(), digest_size=12).hexdigest()
    return cache_dir() / "proxies" / f"{name}.{kind}"


def make_proxy(video: str | Path, kind: str = "mp4", progress: Hook = silent) -> Path:
    """Encode the copy unless it is there; pictures only, without sound, on the true times of the video."""
    target = proxy_path(video, kind)
    if target.exists():
        return target
    encoder, options = KINDS[kind]
    info = probe(video)
    rate = min(info.rate or Fraction(FASTEST), Fraction(FASTEST)).limit_denominator(1000)
    height = min(HEIGHT, info.height) // 2 * 2
    width = max(2, round(info.width * height / info.height / 2) * 2)
    with whole_file(target) as temporary, Stage(progress, "proxy", total=max(info.duration, 0.1), unit="s") as stage:

        def frames() -> Iterator[NDArray[np.uint8]]:
            for time, picture in sample_frames(video, fps=rate, size=(height, width), threads=1):
                yield picture
                stage.advance(time - stage.done)

        write_film(frames(), rate, temporary, kind, encoder, options)
    return target
