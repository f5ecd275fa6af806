"""Annotations: everything people have said about a set of videos, in one type with one JSON form.

Per video: labels (segments, and the stretches of the video that they cover; the rest is open),
clicks (segments of zero length in the open part), a transcript (the steps in order, without times),
whether it contains a mistake, and where all that comes from. For all videos together: names and
severities of steps, and a recipe.

>>> click = Annotation(end=60.0, segments=(Segment(12.0, 12.0, "stir"),))
>>> click.constraint(rows=60, rate=1.0, steps=["pour", "stir"]).clicks
((12, 1),)
"""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepcut.errors import AnnotationError
from stepcut.methods.constraints import OPEN, Constraint, Transcript
from stepcut.timeline import Segment, Timeline, runs

Labels = NDArray[np.int64]
Stretches = tuple[tuple[float, float], ...]
"""Stretches of a video, as (start, end) in seconds, in the order of time; none touch."""

VIEWER, PYTHON = "viewer", "python"
"""Origins that are not files."""


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where an annotation comes from."""

    source: str
    """A file, `viewer` or `python`."""
    annotator: str = ""


class RecipeStep(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of a recipe."""

    name: str
    seconds: float | None = None
    """How long it usually takes."""
    any_time: bool = False
    """Whether it may come at any place of the order."""
    optional: bool = False
    """Whether a video may leave it out."""


class Accepted(msgspec.Struct, frozen=True, omit_defaults=True):
    """A kind of finding of `check` that a person accepts: about this step, or, without a step, in
    this video."""

    kind: str
    step: str | None = None
    video: str = ""


class Annotation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What people have said about one video."""

    end: float
    """The length of the video in seconds."""
    segments: tuple[Segment, ...] = ()
    """Labels, and clicks: segments of zero length. Inside `annotated`, what no segment covers is
    background; where a segment reaches beyond it, nobody has said when it begins or ends."""
    annotated: Stretches = ()
    """The stretches that the labels cover; the rest is open."""
    complete: bool = True
    """Whether every occurrence of a step was clicked, where there are clicks."""
    transcript: tuple[str, ...] = ()
    """The steps of the video in order, without times."""
    mistake: bool = False
    """Whether the video contains a mistake, so that `check` does not take it for a normal one."""
    origins: tuple[Origin, ...] = ()

    @property
    def timeline(self) -> Timeline:
        """The segments as a timeline of the whole video."""
        return Timeline(self.segments, self.end)

    @property
    def clicks(self) -> list[Segment]:
        """The segments of zero length that lie in the open part."""
        return [
            one
            for one in self.segments
            if one.start == one.end and not _covers(self.annotated, one.start)
        ]

    @property
    def labelled(self) -> list[Segment]:
        """The segments as far as they lie inside `annotated`."""
        pieces = (
            self.timeline.crop(start, end if end < self.end else math.inf)
            for start, end in self.annotated
        )
        return [segment for piece in pieces for segment in piece]

    @property
    def steps(self) -> list[str]:
        """The steps that are named, each once."""
        named = (*(one.step for one in self.segments), *self.transcript)
        return list(dict.fromkeys(named))

    @property
    def whole(self) -> bool:
        """Whether all of the video is labelled."""
        return sum(end - start for start, end in self.annotated) >= self.end - 1e-6

    @property
    def says_steps(self) -> bool:
        """Whether it says anything about when or in which order steps are done."""
        return bool(self.annotated or self.segments or self.transcript)

    def check(self, video: str) -> None:
        """Refuse what contradicts itself; an error names the `video`."""
        if pairs := self.timeline.overlapping():
            one, other = pairs[0]
            raise AnnotationError(
                f"{video}: at {max(one.start, other.start):g} s it is labelled both {one.step!r} and "
                f"{other.step!r}; one step at a time can be learned and shown. Shorten one of the two; where all "
                "overlap by a frame at most: stepcut convert LABELS FOLDER --to json --rate 30",
                video=video,
            )
        clicks = self.clicks
        for one, other in pairwise(clicks):
            if one.start == other.start and one.step != other.step:
                raise AnnotationError(
                    f"{video}: two clicks at {one.start:g} s, {one.step!r} and {other.step!r}; one step at a time can "
                    "be learned. Move or remove one of them.",
                    video=video,
                )
        left = iter(self.transcript)
        if self.transcript and (odd := next((c for c in clicks if c.step not in left), None)):
            raise AnnotationError(
                f"{video}: the click {odd.step!r} at {odd.start:g} s does not fit the transcript "
                f"({', '.join(self.transcript)}). Correct one of the two.",
                video=video,
            )

    def over(self, before: "Annotation") -> "Annotation":
        """What this says, and what was said `before` where this says nothing."""
        old = [one for one in before.clicks if not _covers(self.annotated, one.start)]
        clicks = [*self.clicks, *old]
        if before.annotated:
            rest = gaps(self.annotated, self.end)
            kept = [one for stretch in rest for one in before.timeline.crop(*stretch)]
            labels = [*self.labelled, *(one for one in kept if one not in clicks)]
        else:
            labels = [one for one in self.segments if one not in clicks]
        covered = union(before.annotated, *self.annotated)
        return msgspec.structs.replace(
            self,
            segments=tuple(sorted({*labels, *clicks})),
            annotated=covered,
            complete=self.complete if self.clicks else before.complete,
            transcript=self.transcript or before.transcript,
            mistake=self.mistake or before.mistake,
            origins=tuple(dict.fromkeys((*before.origins, *self.origins))),
        )

    def renamed(self, names: Mapping[str, str]) -> "Annotation":
        """The same with other names of steps."""
        return msgspec.structs.replace(
            self,
            segments=self.timeline.rename(names).segments,
            transcript=tuple(names.get(step, step) for step in self.transcript),
        )

    def is_open(self, rows: int, rate: Fraction | float) -> NDArray[np.bool_]:
        """For each of the `rows` of features, `rate` a second, whether no label covers it."""
        times = middles(rows, rate, self.end)
        covered = [(start <= times) & (times < end) for start, end in self.annotated]
        return ~np.any(covered, axis=0) if covered else np.ones(rows, dtype=bool)

    def rows(self, rows: int, rate: Fraction | float, steps: Sequence[str]) -> Labels:
        """The label of each of the `rows` of features, `rate` a second: a number in `steps`, -1
        background, -2 open."""
        times = middles(rows, rate, self.end)
        labels = self.timeline.labels(times, steps)
        labels[self.is_open(rows, rate)] = OPEN
        for (
            one
        ) in self.segments:  # one too short to hold the middle of a row takes the row it lies in
            middle = (one.start + one.end) / 2
            short = not ((one.start <= times) & (times < one.end)).any()
            if short and _covers(self.annotated, middle):
                labels[min(math.floor(middle * float(rate)), rows - 1)] = steps.index(one.step)
        return labels

    def constraint(
        self,
        rows: int,
        rate: Fraction | float,
        steps: Sequence[str],
        recipe: Sequence[RecipeStep] = (),
    ) -> Constraint | None:
        """What this says about each of the `rows` of features, `rate` a second; None where it says
        nothing.

        steps   the names in the order of their numbers
        recipe  holds where the video has no transcript of its own
        """
        labels = self.rows(rows, rate, steps)
        clicks: list[tuple[int, int]] = []
        for one in self.clicks:
            row = min(math.floor(one.start * float(rate)), rows - 1)
            step = steps.index(one.step)
            if clicks and clicks[-1][0] >= row and clicks[-1][1] != step:
                row = clicks[-1][0] + 1  # two clicks within one row
            if row < rows:
                clicks.append((row, step))
        transcript = recipe_transcript(recipe, steps) if recipe else None
        if self.transcript:
            transcript = Transcript(tuple(steps.index(step) for step in self.transcript))
        known = (labels != OPEN).any()
        if not (known or clicks or transcript):
            return None
        complete = self.complete and not known
        return Constraint(labels if known else None, tuple(clicks), complete, transcript)


class Annotations(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What people have said about a set of videos, by the name of the video."""

    videos: dict[str, Annotation] = {}
    names: tuple[str, ...] = ()
    """The names that people gave to steps."""
    severities: dict[str, tuple[str, ...]] = {}
    """By the name of a step: critical, optional, free."""
    recipe: tuple[RecipeStep, ...] = ()
    accepted: tuple[Accepted, ...] = ()

    @property
    def labels(self) -> dict[str, Timeline]:
        """The timelines of the videos that are labelled, at least in part; see
        `Annotation.annotated`."""
        return {name: one.timeline for name, one in self.videos.items() if one.annotated}

    @property
    def clicks(self) -> dict[str, list[Segment]]:
        """The clicks by video."""
        return {name: one.clicks for name, one in self.videos.items() if one.clicks}

    @property
    def transcripts(self) -> dict[str, tuple[str, ...]]:
        """The steps in order by video."""
        return {name: one.transcript for name, one in self.videos.items() if one.transcript}

    @property
    def mistakes(self) -> frozenset[str]:
        """The videos that contain a mistake."""
        return frozenset(name for name, one in self.videos.items() if one.mistake)

    @property
    def annotated(self) -> list[str]:
        """The videos of which somebody has said when or in which order steps are done."""
        return [name for name, one in self.videos.items() if one.says_steps]

    @property
    def steps(self) -> list[str]:
        """The steps that are named in a video or in the recipe, each once."""
        named = (step for one in self.videos.values() for step in one.steps)
        return list(dict.fromkeys((*named, *(one.name for one in self.recipe))))

    def over(self, before: Self) -> Self:
        """What this says, and what was said `before` where this says nothing."""
        videos = {
            name: one.over(before.videos[name]) if name in before.videos else one
            for name, one in self.videos.items()
        }
        return msgspec.structs.replace(
            self,
            videos={**before.videos, **videos},
            names=tuple(dict.fromkeys((*self.names, *before.names))),
            severities={**before.severities, **self.severities},
            recipe=self.recipe or before.recipe,
            accepted=tuple(dict.fromkeys((*before.accepted, *self.accepted))),
        )

    def renamed(self, names: Mapping[str, str]) -> Self:
        """The same with other names of steps: those that `names` has for them."""
        return msgspec.structs.replace(
            self,
            videos={name: one.renamed(names) for name, one in self.videos.items()},
            names=tuple(names.get(name, name) for name in self.names),
            severities={names.get(name, name): kinds for name, kinds in self.severities.items()},
            recipe=tuple(
                msgspec.structs.replace(one, name=names.get(one.name, one.name))
                for one in self.recipe
            ),
        )

    def constraints(
        self, samples: Mapping[str, int], rate: Fraction | float, steps: Sequence[str]
    ) -> list[Constraint | None]:
        """What a method learns from, per video.

        samples  rows of features by the name of the video
        rate     rows per second
        steps    the names in the order of their numbers
        """
        nothing = Annotation(end=0.0)
        return [
            self.videos.get(name, nothing).constraint(rows, rate, steps, self.recipe)
            for name, rows in samples.items()
        ]

    def to_json(self) -> Any:
        """Plain values, as JSON takes them."""
        return msgspec.to_builtins(self)

    @classmethod
    def from_json(cls, record: Any) -> Self:
        """The annotations of a `record` that `to_json` gave."""
        try:
            found = msgspec.convert(record, cls)
        except (msgspec.ValidationError, AnnotationError) as error:
            raise ValueError(f"annotations: {error}") from error
        for name, one in found.videos.items():
            edges = [time for stretch in one.annotated for time in stretch]
            times = [time for segment in one.segments for time in (segment.start, segment.end)]
            inside = all(0 <= time <= one.end + 1e-6 for time in (*edges, *times))
            if edges != sorted(edges) or not inside or not math.isfinite(one.end):
                raise ValueError(f"annotations of {name}")
        return found


def annotate(timeline: Timeline, video: str, end: float, rate: float, origin: Origin) -> Annotation:
    """The annotation that a `timeline` of a whole `video` is, which ends at `end` and has `rate`
    rows a second.

    A timeline of clicks alone leaves the rest of the video open; any other one says what is
    background, too.
    """
    last = max((segment.end for segment in timeline), default=0.0)
    if last > end + max(1.0, 1 / rate):
        what = "a label ends" if any(one.end > one.start for one in timeline) else "a click is"
        raise AnnotationError(
            f"{video}: {what} at {last:.1f} s, beyond the video ({end:.1f} s). Are these labels of another video?",
            video=video,
        )
    inside = tuple(
        Segment(min(one.start, end), min(one.end, end), one.step)
        for one in timeline
        if one.start <= max(end, last)
    )
    whole = not inside or any(one.end > one.start for one in inside)
    made = Annotation(
        end=end, segments=inside, annotated=((0.0, end),) if whole else (), origins=(origin,)
    )
    made.check(video)
    return made


def recipe_transcript(recipe: Sequence[RecipeStep], steps: Sequence[str]) -> Transcript:
    """A `recipe` as the transcript of any video; `steps` are the names in the order of their
    numbers."""
    fixed = [one for one in recipe if not one.any_time]
    return Transcript(
        steps=tuple(steps.index(one.name) for one in fixed),
        optional=frozenset(place for place, one in enumerate(fixed) if one.optional),
        anytime=frozenset(steps.index(one.name) for one in recipe if one.any_time),
    )


def union(stretches: Stretches, *more: tuple[float, float]) -> Stretches:
    """The `stretches` and `more`, each (start, end), together: sorted, those that touch as one."""
    together: list[tuple[float, float]] = []
    for start, end in sorted((*stretches, *more)):
        if together and start <= together[-1][1]:
            together[-1] = (together[-1][0], max(end, together[-1][1]))
        else:
            together.append((start, end))
    return tuple(together)


def gaps(stretches: Stretches, end: float) -> list[tuple[float, float]]:
    """What lies between the `stretches` of a video that ends at `end`."""
    return Timeline([Segment(*one, "") for one in stretches], end).gaps()


def _covers(stretches: Stretches, time: float) -> bool:
    return any(start <= time <= end for start, end in stretches)


def labelled_stretches(labels: Labels, rate: Fraction | float, end: float) -> Stretches:
    """The stretches of a video up to its `end` that `labels` (T,) of its rows cover, `rate` a
    second.

    >>> labelled_stretches(np.array([-2, 0, -1, -2, 1]), 2.0, 2.4)
    ((0.5, 1.5), (2.0, 2.4))
    """
    covered = runs((labels != OPEN).astype(int)).tolist()
    return tuple(
        (start / float(rate), end if last == len(labels) else last / float(rate))
        for said, start, last in covered
        if said
    )


def annotate_rows(
    labels: Labels, rate: Fraction | float, names: Sequence[str], end: float, origin: Origin
) -> Annotation:
    """The annotation that `labels` (T,) of rows are, `rate` a second: numbers in `names`, -1
    background, -2 open."""
    timeline = Timeline.from_labels(labels, float(rate), names, end)
    covered = labelled_stretches(labels, rate, end)
    inner = {time for stretch in covered for time in stretch if 0 < time < end}
    half = 0.5 / float(
        rate
    )  # beyond `covered`: where a step that borders on open rows ends is not known
    segments = [
        Segment(
            one.start - half if one.start in inner else one.start,
            one.end + half if one.end in inner else one.end,
            one.step,
        )
        for one in timeline
    ]
    return Annotation(end=end, segments=tuple(segments), annotated=covered, origins=(origin,))


def middles(rows: int, rate: Fraction | float, end: float) -> NDArray[np.float64]:
    """The times that decide what each of the `rows` is: the middle between its own time and the
    next row's.

    What goes beyond the `end` of the video is taken from just before it.
    """
    times = (np.arange(rows) + 0.5) / float(rate)
    return np.asarray(np.clip(times, 0.0, max(end - 1e-6, 0.0)))
