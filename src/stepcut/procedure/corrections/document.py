"""Document: the steps and segments that a person views and corrects; immutable."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepcut.annotations import VIEWER, Accepted, Annotation, Annotations, Origin, Stretches
from stepcut.colours import colour
from stepcut.timeline import Segment, Timeline, is_unnamed

NO_ANNOTATIONS = Annotations()


class Part(NamedTuple):
    """A segment with the number of its step."""

    start: float
    end: float
    step: int
    confidence: float | None = None


class Step(NamedTuple):
    """A step; its number never changes, its name and colour may."""

    number: int
    name: str
    colour: str


class Click(NamedTuple):
    """An instant inside a step, in seconds."""

    time: float
    step: int


class Fine(NamedTuple):
    """An accepted kind of finding of `check`: about a step or, without one, in a video."""

    kind: str
    step: int | None
    video: str


@dataclass(frozen=True)
class Document:
    """All steps, and the parts of all videos, sorted by time, none overlapping."""

    steps: tuple[Step, ...]
    parts: Mapping[str, tuple[Part, ...]]
    durations: Mapping[str, float]
    fresh: int
    """The number of the next new step."""
    annotated: Mapping[str, Stretches] = field(default_factory=dict)
    """The intervals of each video that a person has labelled, corrected or confirmed."""
    merged: Mapping[int, int | None] = field(default_factory=dict)
    """The target of each merged step: another step, or None for background."""
    mistakes: frozenset[str] = frozenset()
    """The videos with a mistake, which are excluded from the reference set of `check`."""
    normal: frozenset[str] = frozenset()
    """The videos that a person called normal, which are never set aside."""
    clicks: Mapping[str, tuple[Click, ...]] = field(default_factory=dict)
    """The clicks of each video, sorted by time."""
    complete: frozenset[str] = frozenset()
    """The videos in which every occurrence of a step is clicked."""
    fine: frozenset[Fine] = frozenset()
    """The accepted kinds of findings."""

    def step(self, number: int) -> Step | None:
        """Return the step `number`, or None if it is merged."""
        return next((step for step in self.steps if step.number == number), None)

    def stands_for(self, number: int) -> int | None:
        """Return the current step of learned step `number`; None for background."""
        now: int | None = number
        while now is not None and now in self.merged:
            now = self.merged[now]
        return now

    def model_steps(self, learned: Sequence[str]) -> list[str]:
        """Return the names of the `learned` steps; a step that still exists has its current one."""
        names = {step.number: step.name for step in self.steps}
        taken = set(names.values())
        return [
            names.get(number, f"{name} (merged)" if name in taken else name)
            for number, name in enumerate(learned)
        ]

    def shown_steps(self, count: int) -> NDArray[np.int64]:
        """Return the index in `steps` of each of `count` learned steps, -1 for background."""
        place: dict[int | None, int] = {step.number: at for at, step in enumerate(self.steps)}
        return np.array([*(place.get(self.stands_for(number), -1) for number in range(count)), -1])

    def untaught(self, learned: Sequence[str]) -> str:
        """Return a warning about steps that differ from the `learned` ones, or ""."""
        new = [step.name for step in self.steps if step.number >= len(learned)]
        merged = [learned[number] for number in self.merged if number < len(learned)]
        changes = [
            f"{what} ({', '.join(names)})"
            for what, names in (("merged", merged), ("new", new))
            if names
        ]
        if not changes:
            return ""
        listed = " and ".join(changes)
        return f"steps changed since learning, {listed}: run teach to update check and guide."

    def timelines(self) -> dict[str, Timeline]:
        """Return the timelines by video."""
        names = {step.number: step.name for step in self.steps}
        return {
            video: Timeline(
                [
                    Segment(part.start, part.end, names[part.step], part.confidence)
                    for part in parts
                ],
                duration=self.durations[video],
                steps=tuple(names.values()),
                video=video,
            )
            for video, parts in self.parts.items()
        }

    def annotations(self, before: Annotations, models: Sequence[str]) -> Annotations:
        """Return the current annotations.

        `before` are the annotations at learning time, `models` the names of the model's steps.
        """
        timelines = self.timelines()
        videos = {}
        for video, end in self.durations.items():
            old = before.videos.get(video, Annotation(end=end))
            stretches = self.annotated.get(video, ())
            labels = [
                replace(segment, confidence=None)
                for segment in timelines[video]
                if any(
                    (segment.start < b and segment.end > a)
                    or a <= segment.start == segment.end <= b
                    for a, b in stretches
                )
            ]
            names = {step.number: step.name for step in self.steps}
            clicks = [
                Segment(one.time, one.time, names[one.step]) for one in self.clicks.get(video, ())
            ]
            now = msgspec.structs.replace(
                old,
                segments=tuple(sorted({*labels, *clicks})),
                annotated=stretches,
                complete=video in self.complete if clicks else old.complete,
                mistake=video in self.mistakes,
                normal=video in self.normal,
            )
            if _content(now) != _content(old):
                origins = tuple(dict.fromkeys((*old.origins, Origin(VIEWER))))
                now = msgspec.structs.replace(now, origins=origins)
            if now.says_steps or now.mistake or now.normal:
                videos[video] = now
        return msgspec.structs.replace(
            before,
            videos=videos,
            names=tuple(step.name for step in self.steps if not is_unnamed(step.name)),
            accepted=tuple(
                Accepted(one.kind, None if one.step is None else models[one.step], one.video)
                for one in sorted(self.fine, key=str)
                if one.step is None or one.step < len(models)
            ),
        )


def _content(one: Annotation) -> tuple[object, ...]:
    """An annotation without its origins, for comparison."""
    marks = one.mistake, one.normal
    return one.labelled, one.annotated, one.clicks, one.complete, one.transcript, marks


def document_of(
    steps: Sequence[str],
    timelines: Mapping[str, Timeline],
    annotations: Annotations = NO_ANNOTATIONS,
) -> Document:
    """Create the document of learned `steps` and `timelines`, and of their `annotations`."""
    number = {name: k for k, name in enumerate(steps)}
    videos = {name: one for name, one in annotations.videos.items() if name in timelines}
    return Document(
        steps=tuple(Step(k, name, colour(k)) for k, name in enumerate(steps)),
        parts={
            video: tuple(Part(s.start, s.end, number[s.step], s.confidence) for s in timeline)
            for video, timeline in timelines.items()
        },
        durations={video: timeline.end for video, timeline in timelines.items()},
        fresh=len(steps),
        annotated={name: one.annotated for name, one in videos.items() if one.annotated},
        mistakes=annotations.mistakes & timelines.keys(),
        normal=annotations.normal & timelines.keys(),
        clicks={
            name: tuple(Click(click.start, number[click.step]) for click in one.clicks)
            for name, one in videos.items()
            if one.clicks
        },
        complete=frozenset(name for name, one in videos.items() if one.clicks and one.complete),
        fine=frozenset(
            Fine(one.kind, None if one.step is None else number[one.step], one.video)
            for one in annotations.accepted
            if one.step is None or one.step in number
        ),
    )


def join(parts: Iterable[Part], edges: Collection[float]) -> tuple[Part, ...]:
    """Merge neighbouring `parts` of one step that touch at one of `edges`."""
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        touch = last is not None and last.step == part.step and abs(last.end - part.start) < 1e-6
        if last is not None and touch and any(abs(part.start - edge) < 1e-6 for edge in edges):
            joined[-1] = Part(last.start, part.end, part.step, _mean(last, part))
        else:
            joined.append(part)
    return tuple(joined)


def _mean(one: Part, other: Part) -> float | None:
    """The confidence of two parts weighted by time; None if a person set one of them."""
    if one.confidence is None or other.confidence is None:
        return None
    first, second = one.end - one.start, other.end - other.start
    return (one.confidence * first + other.confidence * second) / (first + second)
