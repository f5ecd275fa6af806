"""JSON formats: stepcut's own, which stores everything, ActivityNet, and Label Studio.

A region of Label Studio's `<TimelineLabels>` counts frames from 1, both ends included; the data of
a task contain the frame rate and the name of the video.
"""

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from xml.sax.saxutils import quoteattr

import msgspec

from stepcut.colours import colour
from stepcut.errors import VideoError
from stepcut.files import write_text
from stepcut.formats.common import (
    PROPOSAL,
    Absent,
    Options,
    all_steps,
    build_segment,
    flaw,
    frame_rate,
    shown_videos,
    touching,
    where_present,
    whole_units,
)
from stepcut.timeline import Segment, Timeline

ONE, MANY, VERSION = "stepcut timeline", "stepcut timelines", 1


class Part(msgspec.Struct, omit_defaults=True):
    start: float
    end: float
    step: str
    confidence: float | None = None


class Labels(msgspec.Struct, kw_only=True):
    video: str | None = None
    duration: float | None = None
    steps: list[str] | None = None
    segments: list[Part]


def read_native(record: Any, options: Options) -> list[Timeline]:
    version = record.get("version", VERSION)
    if not isinstance(version, int) or version > VERSION:
        raise flaw(f"has version {version!r} of a newer stepcut", "Update stepcut")
    kept = record["timelines"] if record["format"] == MANY else [record]
    return [
        Timeline(
            [build_segment(s.start, s.end, s.step, None, s.confidence) for s in one.segments],
            one.duration,
            one.steps or (),
            options.path.stem if one.video is None else one.video,
        )
        for one in msgspec.convert(kept, list[Labels])
    ]


def write_native(timelines: Sequence[Timeline], _options: Options) -> Any:
    kept = [
        {
            "video": timeline.video,
            "duration": timeline.duration,
            "steps": timeline.steps,
            "segments": [Part(s.start, s.end, s.step, s.confidence) for s in timeline],
        }
        for timeline in timelines
    ]
    kept = msgspec.to_builtins(kept)
    content = kept[0] if len(kept) == 1 else {"timelines": kept}
    return {"format": ONE if len(kept) == 1 else MANY, "version": VERSION, **content}


def is_native(record: Any) -> bool:
    return isinstance(record, dict) and record.get("format") in (ONE, MANY)


class Scored(msgspec.Struct, omit_defaults=True):
    segment: tuple[float, float]
    label: str
    score: float | None = None


class Entry(msgspec.Struct):
    annotations: list[Scored]
    duration: float | None = None
    subset: str = "validation"


def read_activitynet(record: Any, _options: Options) -> list[Timeline]:
    if isinstance(record.get("database"), dict):
        videos = msgspec.convert(record["database"], dict[str, Entry])
    else:
        results = msgspec.convert(record["results"], dict[str, list[Scored]])
        videos = {name: Entry(listed) for name, listed in results.items()}
    order = dict.fromkeys(str(node["nodeName"]) for node in record.get("taxonomy", ()))
    timelines = []
    for name, video in videos.items():
        segments = [build_segment(*s.segment, s.label, None, s.score) for s in video.annotations]
        used = {segment.step for segment in segments}
        steps = [step for step in order if step in used]
        timelines.append(Timeline(segments, video.duration, steps, name))
    return timelines


def write_activitynet(timelines: Sequence[Timeline], _options: Options) -> Any:
    taxonomy: list[Any] = [{"nodeId": 0, "nodeName": "Root", "parentId": None, "parentName": None}]
    for place, step in enumerate(all_steps(timelines), start=1):
        taxonomy.append({"nodeId": place, "nodeName": step, "parentId": 0, "parentName": "Root"})
    database = {
        each.video: Entry(
            [Scored((s.start, s.end), s.step, s.confidence) for s in each], each.duration
        )
        for each in timelines
    }
    return msgspec.to_builtins({"version": "stepcut", "database": database, "taxonomy": taxonomy})


def is_activitynet(record: Any) -> bool:
    return isinstance(record, dict) and any(
        isinstance(record.get(key), dict) for key in ("database", "results")
    )


# ---------- Label Studio

CONFIG = ".config.xml"  # the suffix of the labelling configuration


class Region(msgspec.Struct):
    type: Any = None
    value: Any = None
    score: float | None = None


class Answer(msgspec.Struct):
    result: list[Region]
    completed_by: Any = None
    was_cancelled: Any = None

    def names(self) -> list[str]:
        by = self.completed_by
        found = (
            [by.get(key) for key in ("email", "username", "id")] if isinstance(by, dict) else [by]
        )
        return [str(name) for name in found if name is not None] or ["unknown"]


class TaskData(msgspec.Struct):
    video: Any = None
    name: Any = None
    fps: Any = None
    rate: Any = None
    duration: float | None = None
    steps: list[Any] | None = None


class Task(msgspec.Struct):
    data: TaskData
    annotations: list[Answer] | None = None
    predictions: list[Any] | None = None  # of some exports only the numbers

    @property
    def done(self) -> list[Answer]:
        return [each for each in self.annotations or () if not each.was_cancelled]


def read_label_studio(record: Any, options: Options) -> list[Timeline]:
    """Read tasks or an export: annotations, or predictions if no task has an annotation."""
    tasks = msgspec.convert(record, list[Task])
    if any(task.done for task in tasks):
        options = replace(options, confirmed=True)
    return where_present(tasks, lambda task: _task_timeline(task, options))


def write_label_studio(timelines: Sequence[Timeline], options: Options) -> Any:
    tasks = []
    for timeline, name in zip(timelines, shown_videos(timelines), strict=True):
        rate = options.agreed_rate(video_rate(timeline.video), timeline.video or "timeline")
        regions = []
        for place, segment in enumerate(timeline):
            first, last = whole_units(segment, rate)
            span = {"start": first + 1, "end": max(last, first + 1)}  # a click is one frame
            value = {"ranges": [span], "timelinelabels": [segment.step]}
            where = {"id": f"step{place}", "from_name": "steps", "to_name": "video"}
            score = {} if segment.confidence is None else {"score": segment.confidence}
            regions.append({**where, "type": "timelinelabels", "value": value, **score})
        prediction: dict[str, Any] = {"model_version": PROPOSAL, "result": regions}
        scores = [s.confidence for s in timeline if s.confidence is not None]
        if scores:
            prediction["score"] = sum(scores) / len(scores)
        data = {"video": timeline.video, "name": name, "fps": float(rate), "rate": str(rate)}
        data |= {"duration": timeline.duration, "steps": list(timeline.steps)}
        tasks.append({"data": data, "predictions": [prediction]})
    labels = [
        f"    <Label value={quoteattr(step)} background={quoteattr(colour(k))}/>\n"
        for k, step in enumerate(all_steps(timelines))
    ]
    write_text(options.path.with_suffix(CONFIG), LABELLING.format(labels="".join(labels)))
    return tasks


# The code for Settings > Labelling Interface: the video, and one label per step.
LABELLING = """<View>
  <TimelineLabels name="steps" toName="video">
{labels}  </TimelineLabels>
  <Video name="video" value="$video" frameRate="$fps" timelineHeight="120"/>
</View>
"""


def is_label_studio(record: Any) -> bool:
    tasks = record if isinstance(record, list) else []
    return bool(tasks) and all(
        isinstance(task, dict) and isinstance(task.get("data"), dict) for task in tasks
    )


def video_rate(video: str) -> Fraction | None:
    if not Path(video).is_file():
        return None
    from stepcut.features.video.container import probe

    try:
        return probe(video).rate
    except VideoError:
        return None


def _task_timeline(task: Task, options: Options) -> Timeline:
    data = task.data
    name = str(data.name or data.video or options.path.stem)
    # Annotations have no rate; the data of a task have one if stepcut wrote them.
    rate = frame_rate(data.rate or data.fps)
    if rate:
        options = replace(options, rate=options.agreed_rate(rate, f"task of {name}"))
    regions = _regions(task, options, f"task of {name}")
    segments = [segment for region in regions for segment in _region_segments(region, options)]
    steps = [str(step) for step in data.steps or ()]
    timeline = Timeline(segments, data.duration, steps, name)
    return touching(timeline, rate) if rate else timeline


def _regions(task: Task, options: Options, where: str) -> list[Region]:
    done, wanted = task.done, options.annotator
    if wanted is not None:
        chosen = [each for each in done if wanted in each.names()]
        if not chosen:
            people = sorted({name for each in done for name in each.names()})
            raise Absent(f"{where}: found no annotations by {wanted!r}. Choose from {people}.")
        return chosen[-1].result
    if len(done) > 1:
        people = [each.names()[0] for each in done]
        what = f"{where}: has {len(done)} annotations, by {people}"
        raise flaw(what, "Choose one: annotator=NAME")
    if options.confirmed and not done:
        what = "the task has only predictions, no annotation. Annotate it and export again."
        raise Absent(f"{where}: {what}")
    if done or not task.predictions:
        return done[-1].result if done else []
    return msgspec.convert(task.predictions[-1], Answer).result


def _region_segments(region: Region, options: Options) -> list[Segment]:
    value, kind = region.value, region.type
    if kind == "timelinelabels":
        rate = options.needed_rate()
        frames = [(int(span["start"]) - 1, int(span["end"])) for span in value["ranges"]]
        spans = [  # one frame is a click
            (float(first / rate), float((first if last == first + 1 else last) / rate))
            for first, last in frames
        ]
    elif kind == "labels" and value and "start" in value:  # regions of <Audio>, in seconds
        spans = [msgspec.convert((value["start"], value["end"]), tuple[float, float])]
    else:  # choices, text and other controls of a project
        return []
    labels = value.get(kind)
    if not isinstance(labels, list) or not labels:
        what = f"a region at {spans} s has no label"
        raise flaw(what, "Give it one in Label Studio, or delete it")
    return [
        build_segment(*span, str(label), None, region.score) for span in spans for label in labels
    ]
