"""FiftyOne temporal detections: `labels.json` of a FiftyOneTemporalDetectionDataset, or samples with such a field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from stepcut.files.atomic import write_json
from stepcut.files.names import video_name
from stepcut.formats.capabilities import Capabilities
from stepcut.formats.common import NONE, Options, build_segment, fail, frame_rate, number, optional
from stepcut.timeline import Segment, Timeline

CAN = Capabilities(duration=False, video="name")


def read(record: Any, path: Path, options: Options = NONE) -> list[Timeline]:
    """Read every video; `timestamps` are seconds, a `support` is [first, last] frame and needs a rate."""
    if "samples" in record:
        return [_sample(sample, options, path) for sample in record["samples"]]
    classes = [str(name) for name in record.get("classes") or ()]
    return [
        Timeline([_segment(d, classes, options, path) for d in detections or ()], None, classes, str(name))
        for name, detections in record["labels"].items()
    ]


def write(path: Path, timelines: Sequence[Timeline], _options: Options = NONE) -> None:
    """Write `labels.json` in seconds; put the videos beside it in `data/`."""
    classes = list(dict.fromkeys(step for timeline in timelines for step in timeline.steps))
    place = {step: k for k, step in enumerate(classes)}
    labels: dict[str, Any] = {}
    for timeline in timelines:
        name = video_name(timeline.video)
        if name in labels:
            fail(path, f"two timelines are of the video {name!r}", "Name the videos apart")
        labels[name] = [
            {
                "label": place[segment.step],
                "timestamps": [segment.start, segment.end],
                **({} if segment.confidence is None else {"confidence": segment.confidence}),
            }
            for segment in timeline
        ]
    write_json(path, {"classes": classes, "labels": labels})


def matches(record: Any) -> bool:
    """Whether a JSON value has the shape of FiftyOne."""
    if not isinstance(record, dict):
        return False
    return isinstance(record.get("labels"), dict) or isinstance(record.get("samples"), list)


def _segment(detection: Mapping[str, Any], classes: Sequence[str], options: Options, path: Path) -> Segment:
    step = str(label := detection["label"])
    if isinstance(label, int) and classes:
        if not 0 <= label < len(classes):
            fail(path, f"the label {label} is none of its {len(classes)} classes", "Export it again")
        step = classes[label]
    if "timestamps" in detection:
        start, end = (number(value) for value in detection["timestamps"])
    else:
        rate = options.frame_rate(str(path))
        first, last = (int(value) for value in detection["support"])
        start, end = float(Fraction(first - 1) / rate), float(Fraction(last) / rate)
    return build_segment(start, end, step, path, None, optional(detection.get("confidence")))


def _sample(sample: Mapping[str, Any], options: Options, path: Path) -> Timeline:
    """The first field of a sample that holds temporal detections; its metadata know the frame rate and the length."""
    metadata = sample.get("metadata") or {}
    rate = frame_rate(metadata.get("frame_rate"))
    known = Options(options.agreed_rate(rate, f"{path}, {sample['filepath']}")) if rate else options
    fields = [each for each in sample.values() if isinstance(each, dict) and each.get("_cls") == "TemporalDetections"]
    detections = fields[0]["detections"] if fields else ()
    segments = [_segment(detection, (), known, path) for detection in detections]
    return Timeline(segments, optional(metadata.get("duration")), (), video_name(str(sample["filepath"])))
