"""MS-TCN: `groundTruth/<video>.txt` with one step per frame, and `mapping.txt` with the steps."""

import math
import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from stepcut.files.atomic import write_text
from stepcut.formats.common import NONE, NOTHING, Options, refuse_background
from stepcut.formats.text import fail, read_text
from stepcut.timeline import BACKGROUND, Timeline


def read(content: str, path: Path, options: Options = NONE) -> list[Timeline]:
    """Read the frames of one video; `mapping.txt`, if present, has the order of the steps."""
    rate = options.frame_rate(str(path))
    frames = [line.strip() for line in content.rstrip("\n").split("\n")]
    mapping = find_mapping(path)
    occurring = list(dict.fromkeys(f for f in frames if f and f not in NOTHING))
    steps = read_mapping(mapping) if mapping else occurring
    place = {step: k for k, step in enumerate(steps)}
    for line, frame in enumerate(frames, start=1):
        if not frame:
            fail(path, "the line is empty", f"Write a step, or {NOTHING[0]!r} for none", line)
        if frame not in NOTHING and frame not in place:
            what = f"the step {frame!r} is not in {mapping}"
            fail(path, what, "Add it to that file, or correct the name", line)
    numbers = [BACKGROUND if frame in NOTHING else place[frame] for frame in frames]
    return [Timeline.from_labels(numbers, float(rate), steps, video=path.stem)]


def write(path: Path, timelines: Sequence[Timeline], options: Options = NONE) -> None:
    """Write the frames of one video, and add its steps to `mapping.txt`."""
    (timeline,) = timelines
    rate = options.frame_rate(str(path))
    refuse_background(timeline, path)
    count = math.ceil(Fraction(timeline.end) * rate - Fraction(1, 1000))
    if not count:
        fail(path, "the timeline has no length, so it has no frames", "Set its duration")
    middles = (np.arange(count) + 0.5) / float(rate)  # a frame has the label of its middle
    numbers = timeline.labels(middles).tolist()
    folder = path.parent.parent if path.parent.name == "groundTruth" else path.parent
    mapping = find_mapping(path) or folder / "mapping.txt"
    old = read_numbered_names(mapping) if mapping.is_file() else []
    names = {name for _, name in old}
    nothing = next((name for name in NOTHING if name in names), NOTHING[0])
    new = [name for name in (nothing, *timeline.steps) if name not in names]
    every = [*old, *enumerate(new, start=old[-1][0] + 1 if old else 0)]
    write_text(mapping, "".join(f"{number} {name}\n" for number, name in every))
    lines = [nothing if k == BACKGROUND else timeline.steps[k] for k in numbers]
    write_text(path, "".join(f"{line}\n" for line in lines))


def read_mapping(path: Path) -> list[str]:
    """Return the steps of a `mapping.txt` by number, without background."""
    return [step for _, step in read_numbered_names(path) if step not in NOTHING]


def read_numbered_names(path: Path) -> list[tuple[int, str]]:
    """Return the numbers and names of lines `NUMBER name`, sorted by number."""
    numbered = []
    for line, text in enumerate(read_text(path).split("\n"), start=1):
        number, _, step = text.strip().partition(" ")
        if not text.strip():
            continue
        if not re.fullmatch("[0-9]{1,9}", number) or not step.strip():
            fail(path, f"{text!r} is not 'NUMBER step'", "Correct the line", line)
        numbered.append((int(number), step.strip()))
    return sorted(numbered)


def find_mapping(path: Path) -> Path | None:
    """Find the `mapping.txt` beside a file of frames or one folder up, or in `mapping/` there."""
    folders = (path.parent, path.parent.parent)
    places = (
        folder / name for name in ("mapping.txt", "mapping/mapping.txt") for folder in folders
    )
    return next((place for place in places if place.is_file()), None)
