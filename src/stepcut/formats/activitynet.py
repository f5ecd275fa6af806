"""ActivityNet JSON: a database of videos with annotated segments, or the results of a method with scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stepcut.files.atomic import write_json
from stepcut.formats.capabilities import Capabilities
from stepcut.formats.common import NONE, Options, build_segment, number, optional
from stepcut.timeline import Timeline

CAN = Capabilities(steps="order")


def read(record: Any, path: Path, _options: Options = NONE) -> list[Timeline]:
    """Read every video of a ground truth (`database`) or of a submission (`results`)."""
    videos = {
        str(name): (entry, None) if "results" in record else (entry["annotations"], entry.get("duration"))
        for name, entry in (record.get("database") or record.get("results")).items()
    }
    used = {str(each["label"]) for annotations, _ in videos.values() for each in annotations}
    order = [str(node["nodeName"]) for node in record.get("taxonomy", ())]
    steps = [step for step in dict.fromkeys(order) if step in used]
    return [_timeline(name, each, length, steps, path) for name, (each, length) in videos.items()]


def write(path: Path, timelines: Sequence[Timeline], _options: Options = NONE) -> None:
    """Write a ground truth; the vocabulary is its taxonomy, and a confidence stands as `score`."""
    steps = dict.fromkeys(step for timeline in timelines for step in timeline.steps)
    taxonomy: list[dict[str, Any]] = [{"nodeId": 0, "nodeName": "Root", "parentId": None, "parentName": None}]
    taxonomy += [
        {"nodeId": place, "nodeName": step, "parentId": 0, "parentName": "Root"}
        for place, step in enumerate(steps, start=1)
    ]
    database = {}
    for timeline in timelines:
        database[timeline.video] = {
            "duration": timeline.duration,
            "subset": "validation",
            "annotations": [
                {
                    "segment": [segment.start, segment.end],
                    "label": segment.step,
                    **({} if segment.confidence is None else {"score": segment.confidence}),
                }
                for segment in timeline
            ],
        }
    write_json(path, {"version": "stepcut", "database": database, "taxonomy": taxonomy})


def matches(record: Any) -> bool:
    """Whether a JSON value has the shape of ActivityNet."""
    return isinstance(record, dict) and any(isinstance(record.get(key), dict) for key in ("database", "results"))


def _timeline(
    name: str, annotations: Sequence[Mapping[str, Any]], length: Any, steps: Sequence[str], path: Path
) -> Timeline:
    segments = []
    for each in annotations:
        start, end = (number(value) for value in each["segment"])
        segments.append(build_segment(start, end, str(each["label"]), path, None, optional(each.get("score"))))
    used = {segment.step for segment in segments}
    return Timeline(segments, optional(length), [step for step in steps if step in used], name)
