"""JSON formats: stepcut's native one, which stores everything, ActivityNet and FiftyOne.

ActivityNet is a database of videos with segments, or the results of a method with scores. FiftyOne
is the `labels.json` of a FiftyOneTemporalDetectionDataset, or samples with temporal detections.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from stepcut.files.atomic import write_json
from stepcut.files.names import video_name
from stepcut.formats.common import (
    NONE,
    Options,
    build_segment,
    entry,
    frame_rate,
    number,
    optional,
    touching,
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


def read_fiftyone(record: Any, path: Path, options: Options = NONE) -> list[Timeline]:
    """Read all videos; `timestamps` are seconds, `support` is [first, last] frame."""
    if "samples" in record:
        return [_sample(sample, options, path) for sample in record["samples"]]
    classes = [str(name) for name in record.get("classes") or ()]
    timelines = []
    for name, detections in record["labels"].items():
        segments = [_detection(each, classes, options, path) for each in detections or ()]
        timelines.append(Timeline(segments, None, classes, str(name)))
    return timelines


def write_fiftyone(path: Path, timelines: Sequence[Timeline], _options: Options = NONE) -> None:
    """Write `labels.json` in seconds; put the videos beside it in `data/`."""
    classes = list(dict.fromkeys(step for timeline in timelines for step in timeline.steps))
    place = {step: k for k, step in enumerate(classes)}
    labels: dict[str, Any] = {}
    for timeline in timelines:
        name = video_name(timeline.video)
        if name in labels:
            fail(path, f"two timelines have the video name {name!r}", "Rename one of them")
        labels[name] = [
            entry(s, "confidence", label=place[s.step], timestamps=[s.start, s.end])
            for s in timeline
        ]
    write_json(path, {"classes": classes, "labels": labels})


def is_fiftyone(record: Any) -> bool:
    if not isinstance(record, dict):
        return False
    return isinstance(record.get("labels"), dict) or isinstance(record.get("samples"), list)


def _detection(
    detection: Mapping[str, Any], classes: Sequence[str], options: Options, path: Path
) -> Segment:
    step = str(label := detection["label"])
    if isinstance(label, int) and classes:
        if not 0 <= label < len(classes):
            what = f"the label {label} is not one of the {len(classes)} classes"
            fail(path, what, "Export it again")
        step = classes[label]
    times = detection.get("timestamps")
    if times is None:
        rate = options.frame_rate(str(path))
        first, last = (int(value) for value in detection["support"])
        times = float(Fraction(first - 1) / rate), float(Fraction(last) / rate)
    return _segment(times, step, detection.get("confidence"), path)


def _sample(sample: Mapping[str, Any], options: Options, path: Path) -> Timeline:
    """Read the first field of a sample with temporal detections."""
    metadata = sample.get("metadata") or {}
    rate = frame_rate(metadata.get("frame_rate"))
    if rate:
        options = Options(options.agreed_rate(rate, f"{path}, {sample['filepath']}"))
    fields = [
        each
        for each in sample.values()
        if isinstance(each, dict) and each.get("_cls") == "TemporalDetections"
    ]
    detections = fields[0]["detections"] if fields else ()
    segments = [_detection(detection, (), options, path) for detection in detections]
    length, video = optional(metadata.get("duration")), video_name(str(sample["filepath"]))
    timeline = Timeline(segments, length, (), video)
    return touching(timeline, rate) if rate else timeline
