"""Annotations as users pass them: read, matched to videos, and checked against their length."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepcut.annotations import PYTHON, Annotation, Annotations, Origin, RecipeStep, settle
from stepcut.errors import AnnotationError, OptionError, as_items, unknown
from stepcut.features.features import Features
from stepcut.files.names import match_videos
from stepcut.formats import read_folder, read_transcripts
from stepcut.methods.constraints import OPEN
from stepcut.methods.inputs import Labels
from stepcut.procedure.contradictions import refuse_contradictions
from stepcut.procedure.lengths import SLACK, TOLERANCE, Mismatch, all_short, differ, fitting_rate
from stepcut.procedure.naming import Recipe, read_recipe
from stepcut.progress import warn_once
from stepcut.timeline import Segment, Timeline, runs, unnamed

Read = Mapping[str, Timeline | NDArray[Any]]
"""Timelines by video, or arrays (T,) of step numbers by video."""
LabelSource = str | os.PathLike[str] | Read
"""Labels as users pass them: the same, or label files."""
Transcripts = Mapping[str, Sequence[str | int]]
"""The steps of some videos in order, by name or number."""


@dataclass(frozen=True)
class Videos:
    """The videos that can be annotated: their number of feature rows and length in seconds."""

    samples: Mapping[str, int]
    ends: Mapping[str, float]
    rate: Fraction

    @classmethod
    def of(cls, features: Sequence[Features]) -> "Videos":
        samples = {one.name: len(one.rows) for one in features}
        return cls(samples, {one.name: one.end for one in features}, features[0].rate)


def read_labels(labels: LabelSource) -> Read:
    """Return labels as timelines or arrays by video; read files in any supported format."""
    if isinstance(labels, str | os.PathLike):
        return read_folder(labels, confirmed=True)
    if not isinstance(labels, Mapping) or not labels:
        raise OptionError(
            f"labels={labels!r} is not allowed; give a folder of label files, or a dict of "
            "timelines or arrays by video.",
            setting="labels",
            value=labels,
        )
    kinds = {isinstance(one, Timeline) for one in labels.values()}
    if len(kinds) > 1:
        raise OptionError(
            "labels mix timelines and arrays; give all of one kind.", setting="labels"
        )
    return {str(name): one for name, one in labels.items()}


class Given(NamedTuple):
    """Annotations as users pass them, read from files."""

    labels: Read
    transcripts: Transcripts
    recipe: Sequence[RecipeStep]
    origin: Origin

    @property
    def anything(self) -> bool:
        """Whether there is a label, a transcript or a recipe."""
        return bool(self.labels or self.transcripts or self.recipe)


def read_given(
    labels: LabelSource | None,
    transcripts: Transcripts | str | os.PathLike[str] | None,
    recipe: Recipe | None,
    origin: Origin | None = None,
) -> Given:
    """Read the annotations that `learn` and `teach` take."""
    orders = (
        read_transcripts(transcripts) if isinstance(transcripts, str | os.PathLike) else transcripts
    )
    return Given(
        {} if labels is None else read_labels(labels),
        orders or {},
        [] if recipe is None else read_recipe(recipe),
        origin or origin_of(transcripts if labels is None else labels),
    )


def origin_of(source: object, annotator: str | None = None) -> Origin:
    """Return the origin of annotations: a file, or Python."""
    place = os.fspath(source) if isinstance(source, str | os.PathLike) else PYTHON
    return Origin(str(place), annotator or "")


def collect(videos: Videos, given: Given, steps: Sequence[str]) -> Annotations:
    """Check the annotations that are `given`, and combine them for `videos`.

    `steps` are the names for numbers in labels and transcripts.
    """

    def name_of(number: int) -> str:
        return steps[number] if number < len(steps) else unnamed(number)

    found: dict[str, Annotation] = {}
    ends: list[Mismatch] = []
    origin = given.origin
    for name, video in find_labelled(given.labels, videos.samples).items():
        one, end = given.labels[name], videos.ends[video]
        if isinstance(one, Timeline):
            found[video] = annotate(one, video, end, float(videos.rate), origin)
            if one.intervals and not one.duration:
                ends.append(Mismatch(video, end, max(each.end for each in one)))
        else:
            rows = _numbers(video, one, videos.samples[video])
            names = [name_of(number) for number in range(1 + max(rows, default=-1))]
            found[video] = annotate_rows(rows, videos.rate, names, end, origin)
    _report_short(ends)
    for name, video in find_labelled(given.transcripts, videos.samples).items():
        listed = as_items(
            "transcripts", given.transcripts[name], (str, int, np.integer), "steps by video"
        )
        named = tuple(one if isinstance(one, str) else name_of(int(one)) for one in listed)
        _check_length(video, named, videos.samples[video])
        before = found.get(video, Annotation(end=videos.ends[video], origins=(origin,)))
        found[video] = msgspec.structs.replace(before, transcript=named)
    return Annotations(videos=found, recipe=tuple(given.recipe))


def annotate(timeline: Timeline, video: str, end: float, rate: float, origin: Origin) -> Annotation:
    """Turn a `timeline` into the annotation of a `video` of `end` seconds, `rate` rows per second.

    If all segments are clicks, the rest of the video is open. Otherwise time without a label is
    background, but open around a click.
    """
    slack = max(SLACK, 1 / rate)
    for one in timeline:
        kind = "label" if one.end > one.start else "click"
        early = -slack if one.end > one.start else 0.0  # a click at -1 may mean that there is none
        if one.start < early or one.end > end + slack:
            where = (
                f"starts at {one.start:.1f} s, before the start of the video"
                if one.start < early
                else f"ends at {one.end:.1f} s, after the end of the video ({end:.1f} s)"
            )
            raise AnnotationError(
                f"{video}: the {kind} {one.step!r} {where}. Do the labels belong to another video?",
                video=video,
            )
    stated = differ(video, end, timeline.duration) if timeline.duration else None
    if stated is not None and stated.share > TOLERANCE:
        raise AnnotationError(
            f"{video}: the labels are for a video of {timeline.duration:.1f} s, but this one lasts "
            f"{end:.1f} s. Do they belong to another video? With feature files, check --rate: "
            f"{fitting_rate(Fraction(rate), [stated]):g} fits.",
            video=video,
        )
    # Rounding may put a label outside.
    inside = tuple(
        Segment(max(min(one.start, end), 0.0), min(one.end, end), one.step)
        for one in timeline
        if one.start == one.end or (one.start < end and one.end > 0)
    )
    if lost := [one.step for one in timeline if one.end > one.start and one.start >= end]:
        warn_once(f"{video}: the label {lost[0]!r} is after the end of the video, and is not used.")
    whole = not inside or any(one.end > one.start for one in inside)
    made = Annotation(end=end, origins=(origin,))
    made = settle(inside, ((0.0, end),) if whole else (), made)
    refuse_contradictions(made, video)
    return made


def annotate_rows(
    labels: Labels, rate: Fraction | float, names: Sequence[str], end: float, origin: Origin
) -> Annotation:
    """Turn `labels` (T,), `rate` rows per second, into an annotation.

    A label is an index in `names`, -1 for background or -2 for open.

    >>> labels = np.array([-2, 0, -1, -2, 1])
    >>> annotate_rows(labels, 2, ["pour", "stir"], 2.4, Origin(PYTHON)).annotated
    ((0.5, 1.5), (2.0, 2.4))
    """
    timeline = Timeline.from_labels(labels, float(rate), names, end)
    covered = tuple(
        (start / float(rate), end if last == len(labels) else last / float(rate))
        for labelled, start, last in runs((labels != OPEN).astype(int)).tolist()
        if labelled
    )
    inner = {time for stretch in covered for time in stretch if 0 < time < end}
    # A segment next to open rows extends beyond `covered`: its boundary is unknown.
    half = 0.5 / float(rate)
    segments = [
        Segment(
            one.start - half if one.start in inner else one.start,
            min(one.end + half, end) if one.end in inner else one.end,
            one.step,
        )
        for one in timeline
    ]
    return Annotation(end=end, segments=tuple(segments), annotated=covered, origins=(origin,))


def _report_short(ends: Sequence[Mismatch]) -> None:
    """Warn if all labels end early by about the same factor: a rate may be wrong."""
    if all_short(ends):
        warn_once(
            f"the labels of all {len(ends)} videos end early, those of {ends[0].video} at "
            f"{ends[0].other:.1f} of {ends[0].seconds:.1f} s. Their rate, or the --rate of the "
            "features, may be wrong."
        )


def _check_length(video: str, transcript: Sequence[str], rows: int) -> None:
    if not transcript:
        raise AnnotationError(
            f"{video}: the transcript is empty. Give the steps in order.", video=video
        )
    if len(transcript) > rows:
        raise AnnotationError(
            f"{video}: the transcript has {len(transcript)} steps, but the video only {rows} rows "
            "of features. Shorten it, or use a higher --fps.",
            video=video,
        )


def find_labelled(names: Iterable[str], samples: Mapping[str, int]) -> dict[str, str]:
    """Match `names` to the videos in `samples`; refuse a name without a match."""
    wanted = list(names)
    found = match_videos(wanted, samples)
    if lost := [name for name in wanted if name not in found]:
        error = unknown("video", lost[0], samples)
        raise AnnotationError(f"{error} Does it belong to another task?", video=lost[0])
    return found


def _numbers(name: str, labels: Any, rows: int) -> Labels:
    numbers = np.asarray(labels)
    if numbers.shape != (rows,) or numbers.dtype.kind not in "iu" or (numbers < OPEN).any():
        raise OptionError(
            f"{name}: {numbers.dtype} labels of shape {numbers.shape} "
            f"({np.ravel(numbers)[:3]} ...) for {rows} rows of features; give one whole number per "
            "row: a step counted from 0, -1 for background or -2 for open.",
            setting="labels",
            video=name,
        )
    return numbers.astype(np.int64)


def count_numbers(videos: Videos, given: Given) -> int | None:
    """Return the number of steps in numbered labels and transcripts; None if they use names."""
    arrays = [np.asarray(one) for one in given.labels.values() if not isinstance(one, Timeline)]
    listed = [step for one in given.transcripts.values() for step in one]
    numbers = [int(step) for step in listed if not isinstance(step, str)]
    numbers += [int(one.max(initial=-1)) for one in arrays if one.dtype.kind in "iu"]
    if not arrays and (given.labels or len(numbers) < len(listed) or not listed):
        return None
    if (highest := max(numbers, default=-1)) >= (most := sum(videos.samples.values())):
        raise OptionError(
            f"a label is {highest}, but all videos together have {most} rows of features; count "
            "steps from 0, with -1 for background and -2 for open.",
            setting="labels",
            value=highest,
        )
    return 1 + highest
