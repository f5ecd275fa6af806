"""The document that a person sees and corrects: steps by number, the parts of every video in seconds; immutable."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from stepcut.colours import colour
from stepcut.timeline import Segment, Timeline

Stretches = tuple[tuple[float, float], ...]
"""Stretches of a video, as (start, end) in seconds, in the order of time; none touch."""


class Part(NamedTuple):
    """A segment that knows its step by number, so that a step is renamed in one place; the page takes it as a list."""

    start: float
    end: float
    step: int
    confidence: float | None = None


class Step(NamedTuple):
    """A step's number stays for ever; its name and colour may change."""

    number: int
    name: str
    colour: str


class Click(NamedTuple):
    """An instant inside a step, in seconds."""

    time: float
    step: int


class Fine(NamedTuple):
    """A finding of a check that a person accepts: of this kind, about this step; without a step, in this video."""

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
    """The number that the next new step gets."""
    known: Mapping[str, Stretches] = field(default_factory=dict)
    """The stretches of each video that a person has labelled, set or confirmed."""
    merged: Mapping[int, int | None] = field(default_factory=dict)
    """What became of each step that was merged away: the number of another step, or None for background."""
    mistakes: frozenset[str] = frozenset()
    """The videos that hold mistakes, by the word of a person: `check` does not take them for normal ones."""
    clicks: Mapping[str, tuple[Click, ...]] = field(default_factory=dict)
    """Instants inside steps that a person has clicked, by video, in the order of time."""
    complete: frozenset[str] = frozenset()
    """The videos in which every occurrence of a step was clicked."""
    fine: frozenset[Fine] = frozenset()
    """Findings of a check that a person accepts from now on."""

    def step(self, number: int) -> Step | None:
        """The step of this number, unless it was merged away."""
        return next((step for step in self.steps if step.number == number), None)

    def stands_for(self, number: int) -> int | None:
        """The step that learned step `number` is now: itself, one that it was merged into, or None for background."""
        now: int | None = number
        while now is not None and now in self.merged:
            now = self.merged[now]
        return now

    def timelines(self) -> dict[str, Timeline]:
        """The parts as timelines, by the name of the video."""
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


def document_of(
    steps: Sequence[str],
    timelines: Mapping[str, Timeline],
    known: Mapping[str, Stretches] | None = None,
    mistakes: Collection[str] = (),
) -> Document:
    """The document of learned `steps` and `timelines`, of which labels say what is `known`, before any correction;
    `mistakes`: the videos that were said to hold some before it was learned."""
    number = {name: k for k, name in enumerate(steps)}
    parts = {
        video: tuple(Part(s.start, s.end, number[s.step], s.confidence) for s in timeline)
        for video, timeline in timelines.items()
    }
    return Document(
        steps=tuple(Step(k, name, colour(k)) for k, name in enumerate(steps)),
        parts=parts,
        durations={video: timeline.end for video, timeline in timelines.items()},
        fresh=len(steps),
        known=known or {},
        mistakes=frozenset(mistakes),
    )


def join(parts: Iterable[Part], edges: Collection[float]) -> tuple[Part, ...]:
    """The `parts`, where neighbours that are the same step and touch at one of `edges` become one; other cuts stay."""
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        touch = last is not None and last.step == part.step and abs(last.end - part.start) < 1e-6
        if last is not None and touch and any(abs(part.start - edge) < 1e-6 for edge in edges):
            joined[-1] = Part(last.start, part.end, part.step, _mean(last, part))
        else:
            joined.append(part)
    return tuple(joined)


def union(known: Stretches, *more: tuple[float, float]) -> Stretches:
    """The stretches `known` and `more`, each (start, end), together: sorted, those that touch as one."""
    together: list[tuple[float, float]] = []
    for start, end in sorted((*known, *more)):
        if together and start <= together[-1][1]:
            together[-1] = (together[-1][0], max(end, together[-1][1]))
        else:
            together.append((start, end))
    return tuple(together)


def _mean(one: Part, other: Part) -> float | None:
    """The confidence of two parts together: their mean by time, unless a person set one of them."""
    if one.confidence is None or other.confidence is None:
        return None
    first, second = one.end - one.start, other.end - other.start
    return (one.confidence * first + other.confidence * second) / (first + second)
