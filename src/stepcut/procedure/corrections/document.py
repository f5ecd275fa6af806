"""The document that the viewer shows and edits: steps by number, the parts of every video in seconds; immutable."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from stepcut.errors import ProcedureError
from stepcut.files.atomic import read_json
from stepcut.procedure.storage import read_config
from stepcut.timeline import Segment, Timeline


class Part(NamedTuple):
    """A segment that knows its step by number, so that a step is renamed in one place."""

    start: float
    end: float
    step: int
    confidence: float | None = None


class Step(NamedTuple):
    """A step's number stays for ever; its name and colour may change."""

    number: int
    name: str
    colour: str


@dataclass(frozen=True)
class Document:
    """All steps, and the parts of all videos, sorted by time, none overlapping."""

    steps: tuple[Step, ...]
    parts: Mapping[str, tuple[Part, ...]]
    durations: Mapping[str, float]
    fresh: int
    """The number that the next new step gets."""

    def step(self, number: int) -> Step | None:
        """The step of this number, unless it was merged away."""
        return next((step for step in self.steps if step.number == number), None)

    def timelines(self) -> dict[str, Timeline]:
        """The parts as timelines, by the name of the video."""
        names = {step.number: step.name for step in self.steps}
        return {
            video: Timeline(
                [Segment(part.start, part.end, names[part.step], part.confidence) for part in parts],
                duration=self.durations[video],
                steps=tuple(names.values()),
                video=video,
            )
            for video, parts in self.parts.items()
        }


@dataclass(frozen=True)
class Learned:
    """What `stepcut learn` left in the folder, read without the model: quick, and without torch."""

    folder: Path
    document: Document
    videos: dict[str, str | None]
    rate: Fraction
    fingerprint: str


def read_learned(path: str | os.PathLike[str]) -> Learned:
    """Read the steps and timelines of a procedure folder."""
    folder = Path(path)
    config = read_config(folder)
    try:
        steps = tuple(Step(s["step"], s["name"], s["colour"]) for s in read_json(folder / "steps.json"))
        saved: dict[str, Any] = read_json(folder / "timelines.json")
        parts = {
            name: tuple(Part(s["start"], s["end"], s["step"], s["confidence"]) for s in entry["segments"])
            for name, entry in saved.items()
        }
        durations = {
            name: float(entry["duration"] or max((part.end for part in parts[name]), default=0.0))
            for name, entry in saved.items()
        }
        videos = {name: entry["path"] for name, entry in saved.items()}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ProcedureError(
            f"{folder}: the procedure is damaged ({error}). Learn it again, or restore the folder."
        ) from error
    fresh = max((step.number for step in steps), default=-1) + 1
    document = Document(steps, parts, durations, fresh)
    return Learned(folder, document, videos, Fraction(config["rate"]), str(config.get("fingerprint", "")))
