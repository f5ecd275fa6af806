"""The pictures that best show each step, so that a person can name it."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from stepcut.errors import VideoError
from stepcut.procedure.naming import frame_at
from stepcut.procedure.procedure import Procedure


@dataclass(frozen=True)
class Moment:
    """One picture of a step: from which video, and when."""

    step: int
    video: str
    time: float
    jpeg: bytes

    @property
    def address(self) -> str:
        """The picture as a data address, for a page that needs no other file."""
        return "data:image/jpeg;base64," + base64.b64encode(self.jpeg).decode()


def best_times(procedure: Procedure, each: int = 4) -> list[tuple[int, str, float]]:
    """Up to `each` moments per step as (step, video, time): the middle of its surest segment, in the surest videos."""
    chosen = []
    for number, step in enumerate(procedure.steps):
        surest: list[tuple[float, str, float]] = []
        for name, timeline in procedure.timelines.items():
            mine = [segment for segment in timeline if segment.step == step]
            if mine:
                best = max(mine, key=lambda segment: (segment.confidence or 0.0, segment.duration))
                surest.append((-(best.confidence or 0.0), name, (best.start + best.end) / 2))
        chosen += [(number, name, time) for _, name, time in sorted(surest)[:each]]
    return chosen


def find_moments(procedure: Procedure, each: int = 4, height: int = 120) -> list[Moment]:
    """The pictures themselves; a video that is no longer where it was is passed over."""
    moments = []
    for step, name, time in best_times(procedure, each):
        path = procedure.videos[name]
        if path is None or not Path(path).exists():
            continue
        try:
            moments.append(Moment(step, name, time, picture_at(path, time, height)))
        except VideoError:
            continue
    return moments


def picture_at(path: str | Path, time: float, height: int = 120) -> bytes:
    """The frame shown at `time`, in seconds, as a small JPEG."""
    frame = frame_at(path, time)
    if frame is None:
        raise VideoError(f"{path}: no frame at {time:.1f} s. The file may have changed since it was learned from.")
    image = Image.fromarray(frame)
    image.thumbnail((height * 16 // 9, height))
    out = io.BytesIO()
    image.save(out, "JPEG", quality=80)
    return out.getvalue()
