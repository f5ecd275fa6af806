"""JSON formats: stepcut's native one, which stores everything, and ActivityNet.

ActivityNet is a database of videos with segments, or the results of a method with scores.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stepcut.files.atomic import write_json
from stepcut.formats.common import (
    NONE,
    Options,
    build_segment,
    entry,
    number,
    optional,
)
from stepcut.formats.text import fail
from stepcut.timeline import Segment, Timeline

ONE, MANY, VERSION = "stepcut timeline", "stepcut timelines", 1


def _segment(times: Any, step: Any, confidence: Any, path: Path) -> Segment:
    start, end = times
    return build_segment(number(start), number(end), str(step), path, None, optional(confidence))


def read_native(record: Any, path: Path, _options: Options = NONE) -> list[Timeline]:
    version = record.get("version", VERSION)
    if not isinstance(version, int) or version > VERSION:
        fail(path, f"has version {version!r} of a newer stepcut", "Update stepcut")
    timelines = []
    for each in record["timelines"] if record["format"] == MANY else [record]:
        segments = [
            _segment((s["start"], s["end"]), s["step"], s.get("confidence"), path)
            for s in each["segments"]
        ]
        steps, video = [str(step) for step in each.get("steps") or ()], each.get("video")
        name = path.stem if video is None else str(video)
        timelines.append(Timeline(segments, optional(each.get("duration")), steps, name))
    return timelines


def write_native(path: Path, timelines: Sequence[Timeline], _options: Options = NONE) -> None:
    records = [
        {
            "video": timeline.video,
            "duration": timeline.duration,
            "steps": list(timeline.steps),
            "segments": [
                entry(s, "confidence", start=s.start, end=s.end, step=s.step) for s in timeline
            ],
        }
        for timeline in timelines
    ]
    content = records[0] if len(records) == 1 else {"timelines": records}
    write_json(path, {"format": ONE if len(records) == 1 else MANY, "version": VERSION, **content})


def is_native(record: Any) -> bool:
    return isinstance(record, dict) and record.get("format") in (ONE, MANY)


def read_activitynet(record: Any, path: Path, _options: Options = NONE) -> list[Timeline]:
    """Read all videos of a ground truth (`database`) or a submission (`results`)."""
    order = [str(node["nodeName"]) for node in record.get("taxonomy", ())]
    timelines = []
    true = isinstance(record.get("database"), dict)
    for name, video in record["database" if true else "results"].items():
        entries = video["annotations"] if true else video
        length = video.get("duration") if true else None
        segments = [_segment(e["segment"], e["label"], e.get("score"), path) for e in entries]
        used = {segment.step for segment in segments}
        steps = [step for step in dict.fromkeys(order) if step in used]
        timelines.append(Timeline(segments, optional(length), steps, str(name)))
    return timelines


def write_activitynet(path: Path, timelines: Sequence[Timeline], _options: Options = NONE) -> None:
    """Write a ground truth with the vocabulary as taxonomy and confidence as `score`."""
    steps = dict.fromkeys(step for timeline in timelines for step in timeline.steps)
    root = {"nodeId": 0, "nodeName": "Root", "parentId": None, "parentName": None}
    taxonomy = [
        {"nodeId": place, "nodeName": step, "parentId": 0, "parentName": "Root"}
        for place, step in enumerate(steps, start=1)
    ]
    database = {
        timeline.video: {
            "duration": timeline.duration,
            "subset": "validation",
            "annotations": [
                entry(s, "score", segment=[s.start, s.end], label=s.step) for s in timeline
            ],
        }
        for timeline in timelines
    }
    write_json(path, {"version": "stepcut", "database": database, "taxonomy": [root, *taxonomy]})


def is_activitynet(record: Any) -> bool:
    return isinstance(record, dict) and any(
        isinstance(record.get(key), dict) for key in ("database", "results")
    )
