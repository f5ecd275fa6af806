"""MS-TCN: `groundTruth/<video>.txt` with a step per frame, and `mapping.txt` with a number per step."""

import math
import re
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from stepcut.files.atomic import write_text
from stepcut.formats.capabilities import Capabilities
from stepcut.formats.common import NONE, Options, fail, read_text
from stepcut.timeline import BACKGROUND, Timeline

CAN = Capabilities(
    times="frames", names="word", video="file", instants=False, overlaps=False, confidence=False
)
NOTHING = ("background", "SIL")
"""What the data sets in this form call a frame without a step; the first is what is written."""


def read(content: str, path: Path, options: Options = NONE) -> list[Timeline]:
    """Read the frames of one video; `mapping.txt`, beside it or one folder up, gives the order of the steps."""
    rate = options.frame_rate(str(path))
    frames = [line.strip() for line in content.rstrip("\n").split("\n")]
    mapping = find_mapping(path)
    steps = (
        read_mapping(mapping)
        if mapping
        else list(dict.fromkeys(f for f in frames if f and f not in NOTHING))
    )
    place = {step: k for k, step in enumerate(steps)}
    for line, frame in enumerate(frames, start=1):
        if not frame:
            fail(
                path,
                "the line is empty; every frame has a step",
                f"Write {NOTHING[0]!r} for none",
                line,
            )
        if frame not in NOTHING and frame not in place:
            fail(
                path,
                f"the step {frame!r} is not in {mapping}",
                "Add it there, or correct the name",
                line,
            )
    numbers = [BACKGROUND if frame in NOTHING else place[frame] for frame in frames]
    return [Timeline.from_labels(numbers, float(rate), steps, video=path.stem)]


def write(path: Path, timelines: Sequence[Timeline], options: Options = NONE) -> None:
    """Write one video's frames, and its steps into `mapping.txt`; numbers that are there already stay."""
    (timeline,) = timelines
    rate = options.frame_rate(str(path))
    taken = [step for step in timeline.steps if step in NOTHING]
    if taken:
        fail(path, f"the step {taken[0]!r} has the name of the background", "Rename the step first")
    count = math.ceil(Fraction(timeline.end) * rate - Fraction(1, 1000))
    if not count:
        fail(path, "the timeline has no length, so there is no frame to write", "Give its duration")
    numbers = timeline.labels(
        (np.arange(count) + 0.5) / float(rate)
    )  # a frame is what is done in its middle
    folder = path.parent.parent if path.parent.name == "groundTruth" else path.parent
    mapping = find_mapping(path) or folder / "mapping.txt"
    known = read_numbered_names(mapping) if mapping.is_file() else []
    names = {name for _, name in known}
    nothing = next((name for name in NOTHING if name in names), NOTHING[0])
    new = [name for name in (nothing, *timeline.steps) if name not in names]
    every = [*known, *enumerate(new, start=known[-1][0] + 1 if known else 0)]
    write_text(mapping, "".join(f"{number} {name}\n" for number, name in every))
    frames = [
        nothing if number == BACKGROUND else timeline.steps[number] for number in numbers.tolist()
    ]
    write_text(path, "".join(f"{frame}\n" for frame in frames))


def read_mapping(path: Path) -> list[str]:
    """The steps of the `mapping.txt` at `path` in the order of their numbers, without the background."""
    return [step for _, step in read_numbered_names(path) if step not in NOTHING]


def read_numbered_names(path: Path) -> list[tuple[int, str]]:
    """The numbers and names in the lines `NUMBER name` of the file at `path`, in the order of the numbers."""
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
    """The `mapping.txt` beside the file of frames at `path`, or one folder up."""
    places = (path.parent / "mapping.txt", path.parent.parent / "mapping.txt")
    return next((place for place in places if place.is_file()), None)
