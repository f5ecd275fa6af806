"""JSON formats: stepcut's own, which stores everything, ActivityNet, and Label Studio.

ActivityNet is a database of videos with segments, or the results of a method with scores.
Label Studio has tasks with predictions to correct, and the export with the annotations. A region of
its `<TimelineLabels>` counts frames from 1, both ends included; the data of a task contain the
frame rate and the name of the video.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import msgspec

from stepcut.colours import colour
from stepcut.errors import VideoError
from stepcut.files.atomic import write_json, write_text
from stepcut.formats.common import (
    PROPOSAL,
    Absent,
    Options,
    build_segment,
    fail,
    frame_rate,
    number,
    optional,
    shown_videos,
    touching,
    where_present,
    whole_units,
)
from stepcut.timeline import Segment, Timeline

ONE, MANY, VERSION = "stepcut timeline", "stepcut timelines", 1


class Part(msgspec.Struct, omit_defaults=True):
    """A segment of stepcut's own format."""

    start: float
    end: float
    step: str
    confidence: float | None = None


class Labels(msgspec.Struct, kw_only=True):
    """A timeline of stepcut's own format."""

    video: str | None = None
    duration: float | None = None
    steps: list[str] | None = None
    segments: list[Part]


def read_native(record: Any, path: Path, _options: Options) -> list[Timeline]:
    version = record.get("version", VERSION)
    if not isinstance(version, int) or version > VERSION:
        fail(path, f"has version {version!r} of a newer stepcut", "Update stepcut")
    kept = record["timelines"] if record["format"] == MANY else [record]
    return [
        Timeline(
            [build_segment(s.start, s.end, s.step, path, None, s.confidence) for s in one.segments],
            one.duration,
            one.steps or (),
            path.stem if one.video is None else one.video,
        )
        for one in msgspec.convert(kept, list[Labels])
    ]


def write_native(path: Path, timelines: Sequence[Timeline], _options: Options) -> None:
    kept = [
        Labels(
            video=timeline.video,
            duration=timeline.duration,
            steps=list(timeline.steps),
            segments=[Part(s.start, s.end, s.step, s.confidence) for s in timeline],
        )
        for timeline in timelines
    ]
    records = msgspec.to_builtins(kept)
    content = records[0] if len(records) == 1 else {"timelines": records}
    write_json(path, {"format": ONE if len(records) == 1 else MANY, "version": VERSION, **content})


def is_native(record: Any) -> bool:
    return isinstance(record, dict) and record.get("format") in (ONE, MANY)


class Scored(msgspec.Struct, omit_defaults=True):
    """A segment of ActivityNet."""

    segment: tuple[float, float]
    label: str
    score: float | None = None


class Entry(msgspec.Struct):
    """A video of ActivityNet's ground truth."""

    annotations: list[Scored]
    duration: float | None = None
    subset: str = "validation"


def read_activitynet(record: Any, path: Path, _options: Options) -> list[Timeline]:
    """Read all videos of a ground truth (`database`) or a submission (`results`)."""
    if isinstance(record.get("database"), dict):
        videos = msgspec.convert(record["database"], dict[str, Entry])
    else:
        results = msgspec.convert(record["results"], dict[str, list[Scored]])
        videos = {name: Entry(listed) for name, listed in results.items()}
    order = [str(node["nodeName"]) for node in record.get("taxonomy", ())]
    timelines = []
    for name, video in videos.items():
        segments = [
            build_segment(*s.segment, s.label, path, None, s.score) for s in video.annotations
        ]
        used = {segment.step for segment in segments}
        steps = [step for step in dict.fromkeys(order) if step in used]
        timelines.append(Timeline(segments, video.duration, steps, name))
    return timelines


def write_activitynet(path: Path, timelines: Sequence[Timeline], _options: Options) -> None:
    """Write a ground truth with the vocabulary as taxonomy and confidence as `score`."""
    steps = dict.fromkeys(step for timeline in timelines for step in timeline.steps)
    taxonomy = [
        {"nodeId": place, "nodeName": step, "parentId": 0, "parentName": "Root"}
        for place, step in enumerate(steps, start=1)
    ]
    root = {"nodeId": 0, "nodeName": "Root", "parentId": None, "parentName": None}
    database = {
        timeline.video: Entry(
            [Scored((s.start, s.end), s.step, s.confidence) for s in timeline], timeline.duration
        )
        for timeline in timelines
    }
    record = {"version": "stepcut", "database": database, "taxonomy": [root, *taxonomy]}
    write_json(path, msgspec.to_builtins(record))


def is_activitynet(record: Any) -> bool:
    return isinstance(record, dict) and any(
        isinstance(record.get(key), dict) for key in ("database", "results")
    )


# ---------------------------------------------------------------------- Label Studio

CONFIG = ".config.xml"  # the suffix of the labelling configuration
CONTROL, OBJECT = "steps", "video"  # names in the labelling configuration


def read_label_studio(record: Any, path: Path, options: Options) -> list[Timeline]:
    """Read tasks or an export: annotations, or predictions if no task has an annotation.

    Tasks without the annotations that `options` require are skipped.
    """
    if any(map(_annotations, record)):
        options = replace(options, confirmed=True)
    return where_present(record, lambda task: _task_timeline(task, options, path))


def write_label_studio(path: Path, timelines: Sequence[Timeline], options: Options) -> None:
    """Write one task with predictions per video, and the labelling configuration."""
    steps = list(dict.fromkeys(step for timeline in timelines for step in timeline.steps))
    names = shown_videos(timelines)
    tasks = [_task(each, name, options) for each, name in zip(timelines, names, strict=True)]
    write_json(path, tasks)
    write_text(path.with_suffix(CONFIG), labelling_config(steps))


def labelling_config(steps: Sequence[str]) -> str:
    """Return the code for Settings > Labelling Interface: the video and one label per step.

    >>> "pour" in labelling_config(["pour"])
    True
    """
    labels = [
        f"    <Label value={quoteattr(step)} background={quoteattr(colour(k))}/>"
        for k, step in enumerate(steps)
    ]
    head = f'<View>\n  <TimelineLabels name="{CONTROL}" toName="{OBJECT}">'
    video = f'  <Video name="{OBJECT}" value="$video" frameRate="$fps" timelineHeight="120"/>'
    return "\n".join([head, *labels, "  </TimelineLabels>", video, "</View>\n"])


def is_label_studio(record: Any) -> bool:
    tasks = record if isinstance(record, list) else []
    return bool(tasks) and all(
        isinstance(task, dict) and isinstance(task.get("data"), dict) for task in tasks
    )


def _task(timeline: Timeline, name: str, options: Options) -> dict[str, Any]:
    rate = options.agreed_rate(video_rate(timeline.video), timeline.video or "timeline")
    regions: list[dict[str, Any]] = []
    for place, segment in enumerate(timeline):
        first, last = whole_units(segment, rate)
        span = {"start": first + 1, "end": max(last, first + 1)}  # a click is one frame
        value = {"ranges": [span], "timelinelabels": [segment.step]}
        score = {} if segment.confidence is None else {"score": segment.confidence}
        where = {"id": f"step{place}", "from_name": CONTROL, "to_name": OBJECT}
        regions.append({**where, "type": "timelinelabels", "value": value, **score})
    scores = [segment.confidence for segment in timeline if segment.confidence is not None]
    prediction: dict[str, Any] = {"model_version": PROPOSAL, "result": regions}
    if scores:
        prediction["score"] = sum(scores) / len(scores)
    data = {"video": timeline.video, "name": name, "fps": float(rate), "rate": str(rate)}
    data |= {"duration": timeline.duration, "steps": list(timeline.steps)}
    return {"data": data, "predictions": [prediction]}


def video_rate(video: str) -> Fraction | None:
    """Return the frame rate of a video file, or None if it cannot be opened."""
    if not Path(video).is_file():
        return None
    from stepcut.features.video.container import probe

    try:
        return probe(video).rate
    except VideoError:
        return None


def _task_timeline(task: Mapping[str, Any], options: Options, path: Path) -> Timeline:
    data = task["data"]
    name = str(data.get("name") or data.get("video") or path.stem)
    # Annotations have no rate; the data of a task have one if stepcut wrote them.
    rate = frame_rate(data.get("rate") or data.get("fps"))
    with_rate = Options(options.agreed_rate(rate, f"{path}, task of {name}")) if rate else options
    segments: list[Segment] = []
    for region in _regions(task, options, f"{path}, task of {name}"):
        segments += _region_segments(region, with_rate, path)
    length = optional(data.get("duration"))
    timeline = Timeline(segments, length, [str(step) for step in data.get("steps") or ()], name)
    return touching(timeline, rate) if rate else timeline


def _regions(task: Mapping[str, Any], options: Options, where: str) -> list[Mapping[str, Any]]:
    """Return the regions of the wanted annotator, of the only one, or of the predictions."""
    done = _annotations(task)
    if options.annotator is not None:
        chosen = [each for each in done if options.annotator in _annotator_names(each)]
        if not chosen:
            people = sorted({name for each in done for name in _annotator_names(each)})
            raise Absent(
                f"{where}: found no annotations by {options.annotator!r}. Choose from {people}."
            )
        return list(chosen[-1]["result"])
    if len(done) > 1:
        people = [_annotator_names(each)[0] for each in done]
        what = f"has {len(done)} annotations, by {people}"
        fail(where, what, "Choose one: annotator=NAME")
    if options.confirmed and not done:
        raise Absent(
            f"{where}: the task has only predictions, no annotation. Annotate it and export again."
        )
    results = done or list(task.get("predictions") or ())
    return list(results[-1]["result"]) if results else []


def _annotations(task: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the annotations of a task that was not skipped."""
    return [each for each in task.get("annotations") or () if not each.get("was_cancelled")]


def _annotator_names(annotation: Mapping[str, Any]) -> list[str]:
    """Return the names of an annotator: e-mail address, user name or number."""
    by = annotation.get("completed_by")
    names = [by.get("email"), by.get("username"), by.get("id")] if isinstance(by, dict) else [by]
    return [str(name) for name in names if name is not None] or ["unknown"]


def _region_segments(region: Mapping[str, Any], options: Options, path: Path) -> list[Segment]:
    value, kind = region.get("value", {}), region.get("type")
    score = optional(region.get("score"))
    if kind == "timelinelabels":
        rate = options.frame_rate(str(path))
        frames = [(int(span["start"]) - 1, int(span["end"])) for span in value["ranges"]]
        spans = [  # one frame is a click
            (float(first / rate), float((first if last == first + 1 else last) / rate))
            for first, last in frames
        ]
    elif kind == "labels" and "start" in value:  # regions of <Audio>, in seconds
        spans = [(number(value["start"]), number(value["end"]))]
    else:  # choices, text and other controls of a project
        return []
    labels = value.get(kind)
    if not isinstance(labels, list) or not labels:
        what = f"a region at {spans} s has no label"
        fail(path, what, "Give it one in Label Studio, or delete it")
    return [
        build_segment(a, b, str(label), path, None, score) for a, b in spans for label in labels
    ]
