"""The native JSON: everything that a timeline holds, in words that need no manual. One timeline or many in a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stepcut.errors import AnnotationError
from stepcut.files.atomic import write_json
from stepcut.formats.capabilities import Capabilities
from stepcut.formats.common import NONE, Options, fail, number, optional
from stepcut.timeline import Segment, Timeline

CAN = Capabilities()
ONE, MANY, VERSION = "stepcut timeline", "stepcut timelines", 1


def read(record: Any, path: Path, _options: Options = NONE) -> list[Timeline]:
    """Read the timelines of a native JSON file."""
    version = record.get("version", VERSION)
    if not isinstance(version, int) or version > VERSION:
        fail(path, f"was written by a newer stepcut (version {version!r})", "Update stepcut")
    many = record.get("timelines") if record["format"] == MANY else [record]
    if not isinstance(many, list) or not all(isinstance(each, dict) for each in many):
        fail(path, "'timelines' must be a list of timelines", "Write the file again")
    return [_timeline(each, path.stem) for each in many]


def write(path: Path, timelines: Sequence[Timeline], _options: Options = NONE) -> None:
    """Write timelines as native JSON."""
    records = []
    for timeline in timelines:
        segments = []
        for segment in timeline:
            entry: dict[str, Any] = {"start": segment.start, "end": segment.end, "step": segment.step}
            if segment.confidence is not None:
                entry["confidence"] = segment.confidence
            segments.append(entry)
        about = {"video": timeline.video, "duration": timeline.duration, "steps": list(timeline.steps)}
        records.append({**about, "segments": segments})
    content = records[0] if len(records) == 1 else {"timelines": records}
    write_json(path, {"format": ONE if len(records) == 1 else MANY, "version": VERSION, **content})


def matches(record: Any) -> bool:
    """Whether a JSON value is native."""
    return isinstance(record, dict) and record.get("format") in (ONE, MANY)


def _timeline(record: Mapping[str, Any], default_video: str) -> Timeline:
    try:
        segments = [
            Segment(number(s["start"]), number(s["end"]), str(s["step"]), optional(s.get("confidence")))
            for s in record["segments"]
        ]
        steps = [str(step) for step in record.get("steps", ())]
        return Timeline(segments, optional(record.get("duration")), steps, str(record.get("video", default_video)))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise AnnotationError(
            f"a timeline needs 'segments' with start, end (seconds) and step; got {error!r}. Write the file again."
        ) from error
