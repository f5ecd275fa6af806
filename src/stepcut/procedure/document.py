"""Document: the steps, segments and annotations that a person views and corrects; immutable."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import msgspec

from stepcut.annotations import VIEWER, Accepted, Annotation, Annotations, Origin, union
from stepcut.colours import colour
from stepcut.timeline import Segment, Timeline, is_unnamed


class Step(NamedTuple):
    """A step; its number never changes, its name and colour may."""

    number: int
    name: str
    colour: str


class Fine(NamedTuple):
    """An accepted kind of finding of `check`: about a step or, without one, in a video."""

    kind: str
    step: int | None
    video: str


@dataclass(frozen=True)
class Document:
    """All steps, the segments of all videos, and what people say about them."""

    steps: tuple[Step, ...]
    segments: Mapping[str, tuple[Segment, ...]]
    """The segments of each video, sorted by time, none overlapping."""
    said: Annotations
    """The annotations, with an entry for each video."""
    now: tuple[int | None, ...]
    """What each step ever numbered is now: itself, the one it was merged into, or background."""
    fine: frozenset[Fine] = frozenset()
    """The accepted kinds of findings."""

    @classmethod
    def of(
        cls,
        steps: Sequence[str],
        timelines: Mapping[str, Timeline],
        annotations: Annotations | None = None,
    ) -> Self:
        """Create the document of learned `steps` and `timelines`, and of their `annotations`."""
        said = annotations or Annotations()
        number = {name: k for k, name in enumerate(steps)}
        videos = {
            video: said.videos.get(video, Annotation(end=timeline.end))
            for video, timeline in timelines.items()
        }
        return cls(
            steps=tuple(Step(k, name, colour(k)) for k, name in enumerate(steps)),
            segments={video: timeline.segments for video, timeline in timelines.items()},
            said=msgspec.structs.replace(said, videos=videos),
            now=tuple(range(len(steps))),
            fine=frozenset(
                Fine(one.kind, None if one.step is None else number[one.step], one.video)
                for one in said.accepted
                if one.step is None or one.step in number
            ),
        )

    def step(self, number: int) -> Step | None:
        """Return the step `number`, or None if it is merged."""
        return next((step for step in self.steps if step.number == number), None)

    @property
    def mistakes(self) -> frozenset[str]:
        """The videos with a mistake, which are excluded from the reference set of `check`."""
        return self.said.mistakes

    @cached_property
    def timelines(self) -> dict[str, Timeline]:
        """The timelines by video."""
        names = tuple(step.name for step in self.steps)
        return {
            video: Timeline(mine, self.said.videos[video].end, names, video)
            for video, mine in self.segments.items()
        }

    @property
    def names(self) -> list[str | None]:
        """The current name of each step ever numbered; None if it was merged into background."""
        names = {step.number: step.name for step in self.steps}
        return [None if number is None else names[number] for number in self.now]

    def model_steps(self, learned: Sequence[str]) -> list[str]:
        """Return the names of the `learned` steps; a step that still exists has its current one."""
        names = {step.number: step.name for step in self.steps}
        taken = set(names.values())
        return [
            names.get(number, f"{name} (merged)" if name in taken else name)
            for number, name in enumerate(learned)
        ]

    def untaught(self, learned: Sequence[str]) -> str:
        """Return a warning about steps that differ from the `learned` ones, or ""."""
        new = [step.name for step in self.steps if step.number >= len(learned)]
        merged = [name for number, name in enumerate(learned) if self.now[number] != number]
        changes = [
            f"{what} ({', '.join(names)})"
            for what, names in (("merged", merged), ("new", new))
            if names
        ]
        if not changes:
            return ""
        listed = " and ".join(changes)
        return f"steps changed since learning, {listed}: run teach to update check and guide."

    def annotations(self, models: Sequence[str]) -> Annotations:
        """Return what people say; `models` are the names of the learned steps."""
        return msgspec.structs.replace(
            self.said,
            videos={
                name: one
                for name, one in self.said.videos.items()
                if one.says_steps or one.mistake or one.normal
            },
            names=tuple(step.name for step in self.steps if not is_unnamed(step.name)),
            accepted=tuple(
                Accepted(one.kind, None if one.step is None else models[one.step], one.video)
                for one in sorted(self.fine, key=str)
                if one.step is None or one.step < len(models)
            ),
        )

    # ------------------------------------------------------------------ changes

    def say(self, video: str, **changes: Any) -> Self:
        """Return the document with changes to the annotation of a video."""
        before = self.said.videos[video]
        origins = tuple(dict.fromkeys((*before.origins, Origin(VIEWER))))
        after = msgspec.structs.replace(before, origins=origins, **changes)
        videos = {**self.said.videos, video: after}
        return replace(self, said=msgspec.structs.replace(self.said, videos=videos))

    def draw(
        self, video: str, segments: Iterable[Segment], *confirmed: tuple[float, float]
    ) -> Self:
        """Return the document with other `segments` of a video; these intervals are `confirmed`."""
        ordered, before = tuple(sorted(segments)), self.said.videos[video]
        covered = union(before.annotated, *confirmed)
        labels = {
            replace(one, confidence=None)
            for one in ordered
            if any(
                (one.start < end and one.end > start) or start <= one.start == one.end <= end
                for start, end in covered
            )
        }
        points = {one for one in self.segments[video] if one.is_click}
        labelled = tuple(sorted({*labels, *({*before.clicks} - points)}))
        drawn = replace(self, segments={**self.segments, video: ordered})
        return drawn.say(video, segments=labelled, annotated=covered)

    def click(self, video: str, clicks: Collection[Segment]) -> Self:
        """Return the document with other `clicks` in a video."""
        before = self.said.videos[video]
        labels = [one for one in before.segments if not one.is_click]
        return self.say(
            video,
            segments=tuple(sorted({*labels, *clicks})),
            complete=before.complete if before.clicks and clicks else not clicks,
        )


def join(segments: Iterable[Segment], edges: Collection[float]) -> tuple[Segment, ...]:
    """Merge neighbouring `segments` of one step that touch at one of `edges`."""
    joined: list[Segment] = []
    for one in segments:
        last = joined[-1] if joined else None
        touch = last is not None and last.step == one.step and abs(last.end - one.start) < 1e-6
        if last is not None and touch and any(abs(one.start - edge) < 1e-6 for edge in edges):
            joined[-1] = Segment(last.start, one.end, one.step, _mean(last, one))
        else:
            joined.append(one)
    return tuple(joined)


def _mean(one: Segment, other: Segment) -> float | None:
    """The confidence of two segments weighted by time; None if a person set one of them."""
    if one.confidence is None or other.confidence is None:
        return None
    whole = one.duration + other.duration
    return (one.confidence * one.duration + other.confidence * other.duration) / whole
