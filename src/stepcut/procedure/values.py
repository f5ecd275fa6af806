"""Values in the files of a procedure, checked one by one as they are read: a damaged file is found here."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.files.atomic import read_json
from stepcut.timeline import Segment, Timeline, runs


def read_timeline(name: str, entry: Mapping[str, Any], steps: list[str]) -> Timeline:
    """One timeline of timelines.json."""
    segments = [
        Segment(float(s["start"]), float(s["end"]), steps[_index(s["step"])], _share(s["confidence"]))
        for s in entry["segments"]
    ]
    duration = None if entry["duration"] is None else float(entry["duration"])
    timeline = Timeline(segments, duration=duration, steps=steps, video=name)
    if timeline.overlapping() or not all(0 <= s.start <= s.end <= timeline.end + 1e-6 for s in timeline):
        raise ValueError(f"the timeline of {name}")
    return timeline


def _index(number: Any) -> int:
    if not isinstance(number, int) or number < 0:
        raise ValueError(f"step {number!r}")
    return number


def _share(number: Any) -> float | None:
    return None if number is None else float(number)


def runs_of(rows: NDArray[np.int64]) -> list[list[int]]:
    """Labels as pairs: how many rows, and which step."""
    return [[end - start, step] for step, start, end in runs(rows).tolist()]


def read_given(path: Path, samples: Mapping[str, int], count: int) -> dict[str, NDArray[np.int64]]:
    """The labels that a procedure was taught; none where it was not."""
    if not path.exists():
        return {}
    found = {}
    for name, pairs in read_json(path).items():
        counts, steps = zip(*pairs, strict=True)
        if sum(counts) != samples[name] or not all(-2 <= step < count for step in steps):
            raise ValueError(f"labels.json does not fit {name}")
        found[name] = np.repeat(np.array(steps, dtype=np.int64), counts)
    return found


def digest(data: bytes) -> str:
    """A short name for the content of a file."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def read_arrays(data: bytes) -> dict[str, Any]:
    """The arrays of model.safetensors."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays: dict[str, Any] = load(data)
    except SafetensorError as error:
        raise ValueError(f"model.safetensors: {error}") from error
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"model.safetensors: {name} holds values that are no numbers")
    return arrays
