"""Document: the steps, segments and annotations that a person views."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import msgspec

from stepcut import colours
from stepcut.annotations import (
    NO_STEP,
    VIEWER,
    Accepted,
    Annotation,
    Annotations,
    Origin,
    union,
)
from stepcut.checking.rules import SEVERITIES, Severity
from stepcut.timeline import Segment, Timeline, is_unnamed


class Step(NamedTuple):
    """Its number never changes, its name and colour may."""

    number: int
    name: str
    colour: str


class Fine(NamedTuple):
    """An accepted kind of finding: about a step or, without one, in a video."""

    kind: str
    step: int | None
    video: str


@dataclass(frozen=True)
class Document:
    steps: tuple[Step, ...]
    segments: Mapping[str, tuple[Segment, ...]]
    """Sorted by time, none overlapping."""
    said: Annotations
    learned: tuple[str, ...]
    now: tuple[int | None, ...]
    """What each step ever numbered is now: itself, the one it was merged into, or background."""
    former: Mapping[str, int]
    """The number of the step that had each name most recently."""
    fine: frozenset[Fine] = frozenset()
    kinds: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    """The severities that edits gave to learned steps."""

    @classmethod
    def of(
        cls,
        steps: Sequence[str],
        timelines: Mapping[str, Timeline],
        annotations: Annotations | None = None,
    ) -> Self:
        said = annotations or Annotations()
        number: dict[str | None, int] = {name: k for k, name in enumerate(steps)}
        videos = {
            video: said.videos.get(video, Annotation(end=timeline.end))
            for video, timeline in timelines.items()
        }
        return cls(
            steps=tuple(Step(k, name, colours.colour(k)) for k, name in enumerate(steps)),
            segments={video: timeline.segments for video, timeline in timelines.items()},
            said=msgspec.structs.replace(said, videos=videos),
            learned=tuple(steps),
            now=tuple(range(len(steps))),
            former={name: k for k, name in enumerate(steps)},
            fine=frozenset(
                Fine(one.kind, number.get(one.step), one.video)
                for one in said.accepted
                if one.step is None or one.step in number
            ),
        )

    def step(self, number: int) -> Step | None:
        return next((step for step in self.steps if step.number == number), None)

    @cached_property
    def numbers(self) -> dict[str, int]:
        return {step.name: step.number for step in self.steps}

    def number(self, name: str) -> int | None:
        """The number of a step by its name; None for background."""
        return None if name == NO_STEP else self.numbers[name]

    @cached_property
    def reaction(self) -> float:
        """See `Annotations.reaction`."""
        return self.said.reaction

    @cached_property
    def timelines(self) -> dict[str, Timeline]:
        """What a person annotated has no confidence."""
        names, found = tuple(step.name for step in self.steps), {}
        for video, mine in self.segments.items():
            said = self.said.videos[video]
            shown = (replace(o, confidence=None) if said.holds(o) else o for o in mine)
            found[video] = Timeline(shown, said.end, names, video)
        return found

    @property
    def names(self) -> list[str | None]:
        names = {step.number: step.name for step in self.steps}
        return [None if number is None else names[number] for number in self.now]

    @property
    def model_steps(self) -> list[str]:
        names = {step.number: step.name for step in self.steps}
        taken = set(names.values())
        return [
            names.get(number, f"{name} (merged)" if name in taken else name)
            for number, name in enumerate(self.learned)
        ]

    @property
    def former_names(self) -> dict[str, int]:
        return {name: k for name, k in self.former.items() if k < len(self.learned)}

    @property
    def untaught(self) -> str:
        changes = {
            "merged": [name for k, name in enumerate(self.learned) if self.now[k] != k],
            "new": [step.name for step in self.steps if step.number >= len(self.learned)],
        }
        listed = [f"{what} ({', '.join(names)})" for what, names in changes.items() if names]
        if not listed:
            return ""
        return (
            f"steps changed since learning, {' and '.join(listed)}: run teach to update check and "
            "guide."
        )

    @property
    def annotations(self) -> Annotations:
        models = self.model_steps
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

    def severity(self, base: Severity) -> Severity:
        kinds: Any = {
            kind: frozenset(getattr(base, kind) - self.kinds.keys())
            | {step for step, mine in self.kinds.items() if kind in mine}
            for kind in SEVERITIES
        }
        return replace(base, **kinds)

    # ---------- changes

    def say(self, video: str, **changes: Any) -> Self:
        before = self.said.videos[video]
        origins = tuple(dict.fromkeys((*before.origins, Origin(VIEWER))))
        after = msgspec.structs.replace(before, origins=origins, **changes)
        videos = {**self.said.videos, video: after}
        return replace(self, said=msgspec.structs.replace(self.said, videos=videos))

    def draw(
        self, video: str, segments: Iterable[Segment], *confirmed: tuple[float, float]
    ) -> Self:
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


def join(segments: Iterable[Segment], edges: Collection[float]) -> tuple[Segment, ...]:
    """Merge neighbouring `segments` of one step that touch at one of `edges`."""
    joined: list[Segment] = []
    for one in segments:
        last = joined[-1] if joined else None
        touch = last is not None and last.step == one.step and abs(last.end - one.start) < 1e-6
        if last is not None and touch and any(abs(one.start - edge) < 1e-6 for edge in edges):
            mean = None  # if a person set one of them
            if last.confidence is not None and one.confidence is not None:
                mean = last.confidence * last.duration + one.confidence * one.duration
                mean /= last.duration + one.duration
            joined[-1] = Segment(last.start, one.end, one.step, mean)
        else:
            joined.append(one)
    return tuple(joined)
