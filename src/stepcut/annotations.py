"""Annotations of a set of videos: the one form of what people say, and its rows for a method."""

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import groupby, pairwise
from statistics import median
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepcut.errors import AnnotationError
from stepcut.methods.constraints import OPEN, Constraint, Transcript
from stepcut.timeline import BACKGROUND, Segment, Timeline, clip_segments, time_in_video

Labels = NDArray[np.int64]
Stretches = tuple[tuple[float, float], ...]
"""(start, end) in seconds, sorted; none touch."""
VIEWER, PYTHON = "viewer", "python"
"""Origins that are not files."""
NO_STEP = ""
"""The step of clicks and onsets that say background."""
REACTION = 0.5
"""Seconds that a key is late, before corrected boundaries show more."""
FLOAT = 0.3
"""The least time on both sides of an onset in which its boundary is open, in seconds."""


STEP_CLASSES = ("value-adding", "necessary", "waste")


class Origin(msgspec.Struct, frozen=True, omit_defaults=True):
    source: str
    annotator: str = ""


class RecipeStep(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    seconds: float | None = None
    any_time: bool = False
    optional: bool = False


class Accepted(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: str
    step: str | None = None
    video: str = ""


class Onset(msgspec.Struct, frozen=True, omit_defaults=True):
    """A key pressed at the start of a step while the video plays; it ends the step before."""

    time: float
    """When the key was pressed, in seconds of the video."""
    step: str = NO_STEP
    speed: float = 1.0
    """The playback rate."""
    start: float | None = None
    """Where the step starts; None if that follows from the reaction time."""

    def begins(self, reaction: float) -> float:
        late = self.time - reaction * self.speed
        return max(late, 0.0) if self.start is None else self.start


class Annotation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    end: float
    segments: tuple[Segment, ...] = ()
    """Clicks have zero length. The rest inside `annotated` is background.
    A segment that extends beyond it has an unknown boundary."""
    annotated: Stretches = ()
    complete: bool = True
    """Whether the clicks cover every occurrence of a step."""
    onsets: tuple[Onset, ...] = ()
    """Sorted by time. Between two of them the step is known, outside `annotated`, except near them."""
    transcript: tuple[str, ...] = ()
    mistake: bool = False
    normal: bool = False
    """Whether a person said so; then `check` never sets it aside."""
    origins: tuple[Origin, ...] = ()

    @property
    def timeline(self) -> Timeline:
        return Timeline(self.segments, self.end)

    @property
    def clicks(self) -> list[Segment]:
        return [one for one in self.segments if one.is_click]

    @property
    def labelled(self) -> list[Segment]:
        pieces = (self.timeline.crop(start, end) for start, end in self.annotated)
        return [segment for piece in pieces for segment in piece.intervals]

    @property
    def steps(self) -> list[str]:
        named = [one.step for one in self.segments] + [one.step for one in self.onsets]
        return [one for one in dict.fromkeys((*named, *self.transcript)) if one != NO_STEP]

    @property
    def whole(self) -> bool:
        return sum(end - start for start, end in self.annotated) >= self.end - 1e-6

    @property
    def says_steps(self) -> bool:
        return bool(self.annotated or self.segments or self.transcript or self.onsets)

    def covers(self, time: float) -> bool:
        return any(start <= time <= end for start, end in self.annotated)

    def holds(self, one: Segment) -> bool:
        return any(start <= one.start and one.end <= end for start, end in self.annotated)

    def over(self, before: "Annotation") -> "Annotation":
        labels = [one for one in self.segments if not one.is_click]
        if before.annotated:
            rest = gaps(self.annotated, self.end)
            kept = [one for stretch in rest for one in before.timeline.crop(*stretch).intervals]
            labels = [*self.labelled, *kept]
        clicks = [*self.clicks, *(one for one in before.clicks if not self.covers(one.start))]
        covered = union(before.annotated, *self.annotated)
        return msgspec.structs.replace(
            settle(sorted({*labels, *clicks}), covered, self),
            complete=self.complete if self.clicks else before.complete,
            onsets=self.onsets or before.onsets,
            transcript=self.transcript or before.transcript,
            mistake=self.mistake or (before.mistake and not self.normal),
            normal=self.normal or (before.normal and not self.mistake),
            origins=tuple(dict.fromkeys((*before.origins, *self.origins))),
        )

    def renamed(self, names: Mapping[str, str]) -> "Annotation":
        if not names.keys() & {*self.steps}:
            return self
        return msgspec.structs.replace(
            self,
            segments=self.timeline.rename(names).segments,
            onsets=tuple(
                msgspec.structs.replace(one, step=names.get(one.step, one.step))
                for one in self.onsets
            ),
            transcript=tuple(names.get(step, step) for step in self.transcript),
        )

    def keyed(self, reaction: float) -> list[Segment]:
        """Return what the onsets show, from each to the next; keys are `reaction` seconds late."""
        starts = [time_in_video(one.begins(reaction), self.end) for one in self.onsets]
        order = sorted(range(len(starts)), key=starts.__getitem__)
        ends = [*(starts[place] for place in order[1:]), self.end]
        return [
            Segment(starts[place], end, self.onsets[place].step)
            for place, end in zip(order, ends, strict=False)
            if starts[place] < end
        ]

    def with_onsets(self, reaction: float) -> "Annotation":
        """Return the annotation with labels between its onsets; the boundaries near them are open."""
        known, labels = [], []
        speed = max((one.speed for one in self.onsets), default=1.0)
        for one in self.keyed(reaction)[:-1]:  # nothing shows when the last one ends
            apart = min(max(reaction, FLOAT) * speed, 0.45 * one.duration)
            known.append((one.start + apart, one.end - apart))
            labels += [one] if one.step != NO_STEP else []
        before = Annotation(end=self.end, segments=tuple(labels), annotated=union((), *known))
        return self.over(before) if known else self

    # ---------- rows, `rate` per second

    def is_open(self, rows: int, rate: Fraction | float) -> NDArray[np.bool_]:
        times = middles(rows, rate, self.end)
        covered = [(start <= times) & (times < end) for start, end in self.annotated]
        return ~np.any(covered, axis=0) if covered else np.ones(rows, dtype=bool)

    def rows(self, rows: int, rate: Fraction | float, steps: Sequence[str]) -> Labels:
        """Return labels (T,): an index in `steps`, -1 for background or -2 for open."""
        times = middles(rows, rate, self.end)
        labels = self.timeline.labels(times, steps)
        labels[self.is_open(rows, rate)] = OPEN
        for one in self.segments:  # a segment shorter than a row takes the row that contains it
            middle = (one.start + one.end) / 2
            short = not ((one.start <= times) & (times < one.end)).any()
            if short and self.covers(middle):
                labels[min(math.floor(middle * float(rate)), rows - 1)] = steps.index(one.step)
        return labels

    def constraint(
        self,
        rows: int,
        rate: Fraction | float,
        steps: Sequence[str],
        recipe: Sequence[RecipeStep] = (),
    ) -> Constraint | None:
        """Return the constraint on the rows; the `recipe` is for a video without a transcript."""
        labels = self.rows(rows, rate, steps)
        open_clicks = [one for one in self.clicks if not self.covers(one.start)]
        number = {NO_STEP: BACKGROUND, **{step: k for k, step in enumerate(steps)}}
        numbers = [number[one.step] for one in open_clicks]
        places = [math.floor(one.start * float(rate)) for one in open_clicks]
        # Clicks of different steps within one row take the rows after it, or at the end before it.
        for n, (one, other) in enumerate(pairwise(numbers)):
            places[n + 1] = max(places[n + 1], places[n] + (one != other))
        for n in reversed(range(len(places))):
            last = n + 1 == len(places)
            most = rows - 1 if last else places[n + 1] - (numbers[n] != numbers[n + 1])
            places[n] = min(places[n], most)
        clicks = tuple(zip(places, numbers, strict=True))
        transcript = recipe_transcript(recipe, steps) if recipe else None
        if self.transcript:
            transcript = Transcript(tuple(steps.index(step) for step in self.transcript))
        labelled = (labels != OPEN).any()
        if not (labelled or clicks or transcript):
            return None
        complete = self.complete and not labelled
        return Constraint(labels if labelled else None, clicks, complete, transcript)


class Annotations(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The annotations of a set of videos; `Procedure.annotations` returns the current ones.

    Examples
    --------
    >>> cut = Annotation(end=60.0, segments=(Segment(3.0, 3.0, "cut"),))
    >>> made = Annotations(videos={"video1": cut})
    >>> made.annotated, made.steps
    (['video1'], ['cut'])
    """

    videos: dict[str, Annotation] = {}
    names: tuple[str, ...] = ()
    """The step names that people chose."""
    severities: dict[str, tuple[str, ...]] = {}
    """Severities by step: critical, optional, free."""
    recipe: tuple[RecipeStep, ...] = ()
    accepted: tuple[Accepted, ...] = ()
    classes: dict[str, str] = {}
    """The class of steps in time studies, one of `STEP_CLASSES`."""
    notes: dict[str, str] = {}
    """What a person wrote about steps."""

    @property
    def labels(self) -> dict[str, Timeline]:
        """The timelines of the videos with labels; see `Annotation.annotated`."""
        return {name: one.timeline for name, one in self.videos.items() if one.annotated}

    @property
    def clicks(self) -> dict[str, list[Segment]]:
        """The clicks by video."""
        return {name: one.clicks for name, one in self.videos.items() if one.clicks}

    @property
    def reaction(self) -> float:
        """Seconds that keys are late: the median over onsets of annotated boundaries."""
        late = [REACTION] * 3
        for one in self.videos.values():
            for onset in one.onsets:
                starts = [each.start for each in one.segments if each.step == onset.step]
                if onset.step == NO_STEP:
                    starts = [each.end for each in one.segments]
                found = [(onset.time - each) / onset.speed for each in starts if one.covers(each)]
                late += [each for each in sorted(found, key=abs)[:1] if abs(each) < 4 * REACTION]
        return max(median(late), 0.0)

    def with_onsets(self) -> Self:
        """Return the annotations with labels in place of onsets; see `Annotation.with_onsets`."""
        reaction = self.reaction
        videos = {name: one.with_onsets(reaction) for name, one in self.videos.items()}
        return msgspec.structs.replace(self, videos=videos)

    @property
    def transcripts(self) -> dict[str, tuple[str, ...]]:
        """The transcripts by video."""
        return {name: one.transcript for name, one in self.videos.items() if one.transcript}

    @property
    def mistakes(self) -> frozenset[str]:
        """The videos with a mistake."""
        return frozenset(name for name, one in self.videos.items() if one.mistake)

    @property
    def normal(self) -> frozenset[str]:
        """The videos that a person called normal."""
        return frozenset(name for name, one in self.videos.items() if one.normal)

    @property
    def annotated(self) -> list[str]:
        """The videos with labels, clicks or a transcript."""
        return [name for name, one in self.videos.items() if one.says_steps]

    @property
    def steps(self) -> list[str]:
        """The distinct steps of all videos and the recipe."""
        named = (step for one in self.videos.values() for step in one.steps)
        return list(dict.fromkeys((*named, *(one.name for one in self.recipe))))

    def over(self, before: Self) -> Self:
        """Merge with the annotations `before`; these take precedence."""
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
            classes={**before.classes, **self.classes},
            notes={**before.notes, **self.notes},
        )

    def renamed(self, names: Mapping[str, str]) -> Self:
        """Return the annotations with new `names` of steps, by current name."""
        return msgspec.structs.replace(
            self,
            videos={name: one.renamed(names) for name, one in self.videos.items()},
            names=tuple(names.get(name, name) for name in self.names),
            severities={names.get(name, name): kinds for name, kinds in self.severities.items()},
            recipe=tuple(
                msgspec.structs.replace(one, name=names.get(one.name, one.name))
                for one in self.recipe
            ),
            classes={names.get(name, name): one for name, one in self.classes.items()},
            notes=_joined((names.get(name, name), text) for name, text in self.notes.items()),
        )

    def constraints(
        self, samples: Mapping[str, int], rate: Fraction | float, steps: Sequence[str]
    ) -> list[Constraint | None]:
        """Return the constraint of each video, by `samples` rows, `rate` and `steps` by number."""
        nothing, found = Annotation(end=0.0), []
        for name, rows in samples.items():
            one = self.videos.get(name, nothing).constraint(rows, rate, steps, self.recipe)
            if one is not None and one.clicks and one.clicks[0][0] < 0:
                raise refused(
                    name,
                    f"{len(one.clicks)} clicks do not fit into its {rows} rows of features. "
                    "Remove some, or extract features at a higher rate.",
                )
            found.append(one)
        return found

    def to_json(self) -> Any:
        """Return the annotations as JSON values without the fields that have their default."""
        return msgspec.to_builtins(self)

    @classmethod
    def from_json(cls, record: Any) -> Self:
        """Create annotations from the `record` of `to_json`; ValueError if it is damaged."""
        try:
            annotations = msgspec.convert(record, cls)
        except (msgspec.ValidationError, AnnotationError) as error:
            raise ValueError(f"annotations: {error}") from error
        videos = {}
        for video, one in annotations.videos.items():
            where = f"annotations of {video}"
            edges = [time for stretch in one.annotated for time in stretch]
            if edges != sorted(edges) or not math.isfinite(one.end):
                raise ValueError(where)
            covered = [Segment(*both, "") for both in one.annotated]
            videos[video] = msgspec.structs.replace(
                one,
                segments=clip_segments(one.segments, one.end, where),
                annotated=tuple((s.start, s.end) for s in clip_segments(covered, one.end, where)),
            )
        return msgspec.structs.replace(annotations, videos=videos)


def _joined(notes: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Notes of steps that were merged follow each other."""
    found: dict[str, str] = {}
    for name, text in notes:
        found[name] = f"{found[name]}\n{text}" if name in found else text
    return found


def recipe_transcript(recipe: Sequence[RecipeStep], steps: Sequence[str]) -> Transcript:
    fixed = [one for one in recipe if not one.any_time]
    return Transcript(
        steps=tuple(steps.index(one.name) for one in fixed),
        optional=frozenset(place for place, one in enumerate(fixed) if one.optional),
        anytime=frozenset(steps.index(one.name) for one in recipe if one.any_time),
    )


def union(stretches: Stretches, *more: tuple[float, float]) -> Stretches:
    together: list[tuple[float, float]] = []
    for start, end in sorted((*stretches, *more)):
        if together and start <= together[-1][1]:
            together[-1] = (together[-1][0], max(end, together[-1][1]))
        else:
            together.append((start, end))
    return tuple(together)


def gaps(stretches: Stretches, end: float) -> list[tuple[float, float]]:
    return Timeline([Segment(*one, "") for one in stretches], end).gaps()


def settle(segments: Sequence[Segment], annotated: Stretches, one: Annotation) -> Annotation:
    """Replace the labels and clicks of `one`; time around a click is open, not background."""
    lasting, opened = [one for one in segments if not one.is_click], []
    for each in segments:
        if each.is_click and _label_around(lasting, each) is None:
            before = max((other.end for other in lasting if other.end <= each.start), default=0.0)
            after = min((o.start for o in lasting if o.start >= each.start), default=one.end)
            opened.append((before, after))
    if opened:
        annotated = tuple(gaps(union(tuple(gaps(annotated, one.end)), *opened), one.end))
    return msgspec.structs.replace(one, segments=tuple(segments), annotated=annotated)


def _label_around(lasting: Sequence[Segment], click: Segment) -> Segment | None:
    return next((one for one in lasting if one.start < click.start < one.end), None)


def middles(rows: int, rate: Fraction | float, end: float) -> NDArray[np.float64]:
    """Return the middle of the interval of each row, (T,), clipped to just before `end`."""
    times = (np.arange(rows) + 0.5) / float(rate)
    return np.asarray(np.clip(times, 0.0, max(end - 1e-6, 0.0)))


# ---------- contradictions


def refused(video: str, words: str) -> AnnotationError:
    return AnnotationError(f"{video}: {words}", video=video)


def refuse_contradictions(
    annotation: Annotation, video: str, recipe: Sequence[RecipeStep] = ()
) -> None:
    refuse_overlaps(annotation.timeline, video)
    for one, other in pairwise(annotation.clicks):
        if one.start == other.start and one.step != other.step:
            raise refused(
                video,
                f"two clicks are at {one.start:g} s, {one.step!r} and {other.step!r}. "
                "Move or remove one of them.",
            )
    labels = annotation.timeline.intervals
    for one in annotation.clicks:
        label = _label_around(labels, one)
        if label is not None and label.step != one.step:
            raise refused(
                video,
                f"the click {one.step!r} at {one.start:g} s is inside the label {label.step!r}, "
                f"{label.start:g} to {label.end:g} s. Correct one of the two.",
            )
    listed = tuple(RecipeStep(step) for step in annotation.transcript)
    _refuse_order(annotation, video, listed or recipe, "transcript" if listed else "recipe")


def refuse_overlaps(timeline: Timeline, video: str) -> None:
    if pairs := timeline.overlapping():
        one, other = pairs[0]
        raise refused(
            video,
            f"the labels {one.step!r} and {other.step!r} overlap at "
            f"{max(one.start, other.start):g} s. Shorten one of them. If labels overlap by one "
            "frame at most, run: stepcut convert LABELS FOLDER --to json --rate 30",
        )


def _refuse_order(
    annotation: Annotation, video: str, order: Sequence[RecipeStep], what: str
) -> None:
    anytime = {one.name for one in order if one.any_time}
    shown = sorted(o for o in annotation.segments if o.step not in (*anytime, NO_STEP))
    fixed = [one for one in order if not one.any_time]
    if not fixed:
        return
    listed = f"of the {what} ({', '.join(one.name for one in fixed)})"
    # One step may be labelled in several parts.
    fixed = [next(same) for _, same in groupby(fixed, key=lambda one: one.name)]
    places = {0}  # how much of the order may be done
    for one in (next(same) for _, same in groupby(shown, key=lambda one: one.step)):
        places = {
            last + 1
            for first in places
            for last in range(first, len(fixed))
            if fixed[last].name == one.step
            and (not annotation.whole or all(each.optional for each in fixed[first:last]))
        }
        if not places:
            kind = "click" if one.is_click else "label"
            raise refused(
                video,
                f"the {kind} {one.step!r} at {one.start:g} s contradicts the order {listed}. "
                "Correct one of the two.",
            )
    left = [[one.name for one in fixed[place:] if not one.optional] for place in places]
    if annotation.whole and all(left):
        raise refused(
            video,
            f"the labels of the whole video lack {left[0][0]!r} {listed}. Correct one of the two.",
        )
