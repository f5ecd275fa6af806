"""A lesson: annotations from files, Python, the viewer and earlier lessons together, and the names
of the steps."""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepcut.annotations import (
    PYTHON,
    Annotation,
    Annotations,
    Origin,
    RecipeStep,
    annotate,
    annotate_rows,
)
from stepcut.errors import AnnotationError, OptionError, as_items, unknown
from stepcut.features.contract import Features
from stepcut.files.names import match_videos, plain, spell
from stepcut.formats import read_folder
from stepcut.methods.constraints import OPEN, Constraint
from stepcut.methods.inputs import Labels
from stepcut.order.orders import grouped
from stepcut.progress import warn_once
from stepcut.timeline import Timeline, is_unnamed, unnamed

Read = Mapping[str, Timeline | NDArray[Any]]
"""Timelines by video, or arrays (T,) of step numbers by video."""
Given = str | os.PathLike[str] | Read
"""What a user may hand over: the same, or label files."""
Transcripts = Mapping[str, Sequence[str | int]]
"""The steps of some videos in order, by name or number."""

LITTLE = 1.0
"""Seconds of labels of a step, in all videos together, that are little evidence."""


@dataclass(frozen=True)
class Lesson:
    """What a method learns from people."""

    annotations: Annotations
    names: list[str]
    """The names of all steps, in the order of their numbers; '' for one that has none yet."""
    constraints: list[Constraint | None]
    """The annotations per row of features, for every video."""
    labels: list[Labels | None]
    """The labels alone, (T,) for every video; a click is a label of one row."""

    @property
    def used(self) -> set[int]:
        """The numbers of the steps that are annotated somewhere."""
        named = self.annotations.steps
        return {number for number, name in enumerate(self.names) if name in named}


@dataclass(frozen=True)
class Videos:
    """The videos that can be annotated, by name: their rows of features, and their length in
    seconds."""

    samples: Mapping[str, int]
    ends: Mapping[str, float]
    rate: Fraction

    @classmethod
    def of(cls, features: Sequence[Features]) -> "Videos":
        """The videos of these `features`."""
        samples = {one.name: len(one.rows) for one in features}
        return cls(samples, {one.name: one.end for one in features}, features[0].rate)


def read_labels(given: Given) -> Read:
    """The labels that were `given`, timelines or arrays by video; files are read in any format of
    `stepcut.formats`."""
    if isinstance(given, str | os.PathLike):
        return read_folder(given, confirmed=True)
    if not isinstance(given, Mapping) or not given:
        raise OptionError(
            f"labels={given!r} is not allowed; give a folder of label files, or timelines or arrays by video."
        )
    kinds = {isinstance(one, Timeline) for one in given.values()}
    if len(kinds) > 1:
        raise OptionError("labels mix timelines and arrays; give all of one kind.")
    return {str(name): one for name, one in given.items()}


def origin_of(given: object, annotator: str | None = None) -> Origin:
    """Where annotations come from that were `given`: a file, or Python."""
    source = os.fspath(given) if isinstance(given, str | os.PathLike) else PYTHON
    return Origin(str(source), annotator or "")


def collect(
    videos: Videos,
    labels: Read | None,
    transcripts: Transcripts | None = None,
    recipe: Sequence[RecipeStep] = (),
    steps: Sequence[str] = (),
    origin: Origin | None = None,
) -> Annotations:
    """What was handed over for `videos`, checked: `labels`, `transcripts` and a `recipe`.

    steps   names for the numbers in labels and transcripts; a further one has none yet
    origin  where all of it comes from; left out, from Python
    """

    def name_of(number: int) -> str:
        return steps[number] if number < len(steps) else unnamed(number)

    origin = origin or Origin(PYTHON)
    found: dict[str, Annotation] = {}
    for name, video in find_labelled(labels or {}, videos.samples).items():
        one, end = (labels or {})[name], videos.ends[video]
        if isinstance(one, Timeline):
            found[video] = annotate(one, video, end, float(videos.rate), origin)
        else:
            rows = _numbers(video, one, videos.samples[video])
            names = [name_of(number) for number in range(1 + max(rows, default=-1))]
            found[video] = annotate_rows(rows, videos.rate, names, end, origin)
    for name, video in find_labelled(transcripts or {}, videos.samples).items():
        steps = as_items(
            "transcripts", (transcripts or {})[name], (str, int, np.integer), "steps by video"
        )
        named = tuple(one if isinstance(one, str) else name_of(int(one)) for one in steps)
        _check_length(video, named, videos.samples[video])
        before = found.get(video, Annotation(end=videos.ends[video], origins=(origin,)))
        found[video] = msgspec.structs.replace(before, transcript=named)
    return Annotations(videos=found, recipe=tuple(recipe))


def _check_length(video: str, transcript: Sequence[str], rows: int) -> None:
    if not transcript:
        raise AnnotationError(
            f"{video}: the transcript names no step. Give the steps in order.", video=video
        )
    if len(transcript) > rows:
        raise AnnotationError(
            f"{video}: the transcript names {len(transcript)} steps, but the video has {rows} rows of features. "
            "Shorten it, or use a higher --fps.",
            video=video,
        )


def find_labelled(names: Iterable[str], samples: Mapping[str, int]) -> dict[str, str]:
    """Which of the videos in `samples` each of `names` means; one that means none is an error."""
    wanted = list(names)
    found = match_videos(wanted, samples)
    if lost := [name for name in wanted if name not in found]:
        known = unknown("video", lost[0], samples)
        raise AnnotationError(
            f"a video that is not here: {known} Is it one of another task?", video=lost[0]
        )
    return found


def _numbers(name: str, given: Any, rows: int) -> Labels:
    numbers = np.asarray(given)
    if numbers.shape != (rows,) or numbers.dtype.kind not in "iu" or (numbers < OPEN).any():
        raise OptionError(
            f"{name}: {numbers.dtype} labels of shape {numbers.shape} ({np.ravel(numbers)[:3]} ...) for {rows} rows of "
            "features; give a whole number for each: steps are counted from 0, -1 is background and -2 is open."
        )
    return numbers.astype(np.int64)


def usual_order(annotations: Annotations) -> list[str]:
    """The steps by when they usually come: as in the recipe, else by the median of their middles,
    as a share of the video.

    >>> from stepcut.timeline import Segment
    >>> one = Annotation(end=9.0, segments=(Segment(0, 2, "pour"), Segment(2, 9, "stir")))
    >>> usual_order(Annotations(videos={"a": one}))
    ['pour', 'stir']
    """
    middles = [
        (one.step, (one.start + one.end) / 2 / max(video.end, 1e-9))
        for video in annotations.videos.values()
        for one in video.segments
    ]
    middles += [
        (step, (place + 0.5) / len(video.transcript))
        for video in annotations.videos.values()
        for place, step in enumerate(video.transcript)
    ]
    places = grouped(middles)
    others = sorted(places, key=lambda name: float(np.median(places[name])))
    return list(dict.fromkeys((*(one.name for one in annotations.recipe), *others)))


def find_alike(names: Sequence[str]) -> tuple[str, str] | None:
    """Two names that differ by spaces, underscores and capitals at most, if there are such.

    >>> find_alike(["stir", "pour", "Stir "])
    ('stir', 'Stir ')
    """
    seen: dict[str, str] = {}
    for name in names:
        if plain(name) in seen:
            return seen[plain(name)], name
        seen[plain(name)] = name
    return None


def _spell(new: Annotations, known: Sequence[str]) -> Annotations:
    """The `new` annotations with steps spelled as those that are `known`; transcripts as the labels
    beside them."""
    new = new.renamed(spell(new.steps, known))
    labelled = [one.step for video in new.videos.values() for one in video.segments]
    vocabulary = list(dict.fromkeys((*known, *labelled)))
    spoken = [step for one in new.videos.values() for step in one.transcript]
    return new.renamed(spell(spoken, vocabulary))


def nameless(number: int) -> str:
    """Name step `number` that was taught together with named ones.

    >>> nameless(4)
    'step 5 (no name yet)'
    """
    return f"{unnamed(number)} (no name yet)"


def first_lesson(
    videos: Videos,
    labels: Read | None,
    transcripts: Transcripts | None,
    recipe: Sequence[RecipeStep],
    count: int | None,
    names: Sequence[str] | None,
    origin: Origin | None = None,
) -> Lesson:
    """What `learn` is asked for by annotations: their names are steps, or `names` where they are
    numbers.

    Where there are to be more steps (`count`) than are annotated, the others have no name yet.
    """
    numbers = count_numbers(videos, labels, transcripts)
    if labels is not None and numbers is None and names is not None:
        raise OptionError("names were given beside labels that name the steps; leave names out.")
    steps = list(names or (unnamed(n) for n in range(max(numbers, count or 0) if numbers else 0)))
    new = collect(videos, labels, transcripts, recipe, steps, origin)
    return lesson(videos, {}, steps, Annotations(), new, count, names is not None or bool(numbers))


def count_numbers(
    videos: Videos, labels: Read | None, transcripts: Transcripts | None
) -> int | None:
    """One more than the highest step number in `labels` and `transcripts`; None where they name the
    steps."""
    arrays = [np.asarray(one) for one in (labels or {}).values() if not isinstance(one, Timeline)]
    spoken = [step for one in (transcripts or {}).values() for step in one]
    numbers = [int(step) for step in spoken if not isinstance(step, str)]
    numbers += [int(one.max(initial=-1)) for one in arrays if one.dtype.kind in "iu"]
    if not arrays and (labels or len(numbers) < len(spoken) or not spoken):
        return None
    if (highest := max(numbers, default=-1)) >= (most := sum(videos.samples.values())):
        raise OptionError(  # a mark of something else, such as 65535
            f"a label is {highest}, but all videos together have {most} rows of features; steps are counted "
            "from 0, -1 is background and -2 is open."
        )
    return 1 + highest


def lesson(
    videos: Videos,
    shown: Mapping[str, Labels],
    steps: Sequence[str],
    before: Annotations,
    new: Annotations | None,
    count: int | None = None,
    fixed: bool = False,
    taught: bool = False,
) -> Lesson:
    """What a procedure is taught: `new` annotations over those `before`.

    shown   the steps of every row of every video as they are shown, (T,)
    steps   their names
    count   how many steps there are to be, where not those that are named
    fixed   whether the new annotations are of these steps, such as their numbers, and name no
            others
    taught  whether the procedure has learned from annotations already
    """
    named = [name for name in steps if fixed or not is_unnamed(name)]
    old = [name for name in steps if name in before.steps]
    if new is not None:
        new = _spell(new, named)
        before = before.renamed(_placeholders(old, new.steps))
        labelled = {one.step for video in new.videos.values() for one in video.segments}
        _refuse_unknown(new, [*steps, *labelled] if named else [], labelled)
    together = before if new is None else new.over(before)
    if new is None or fixed:
        if not (together.annotated or together.recipe):
            raise OptionError(
                "there is nothing to learn from: all labels are open (-2), or no stretch of a video was corrected or "
                "confirmed. Correct some in stepcut view, or give labels."
            )
        return _whole(together, steps, videos, count, quiet=new is None)
    spoken = set(new.steps)
    if taught and spoken and not spoken & set(old):
        raise AnnotationError(
            f"none of the labelled steps ({', '.join(sorted(spoken)[:5])}) is one that this procedure was taught "
            f"({', '.join(old[:5])}). Are these the labels of another task?"
        )
    names = usual_order(together)
    room = None if count is None else max(count - len(names), 0)
    stay = [
        name
        for name in _shown_elsewhere(shown, steps, together, videos)
        if name in named and name not in names
    ]
    names += stay[:room] if spoken & set(steps) else []
    return _whole(together, names, videos, count)


def _placeholders(old: Sequence[str], new: Sequence[str]) -> dict[str, str]:
    """Other names for steps that are called by their number, where a person gives such a name to
    another step."""
    taken = {plain(name) for name in new}
    return {
        name: unnamed(number)
        for number, name in enumerate(old)
        if is_unnamed(name) and plain(name) in taken and name not in new
    }


def _refuse_unknown(new: Annotations, known: Sequence[str], labelled: Collection[str]) -> None:
    """Refuse a transcript that names a step that is not `known`, or is nearly one of those
    `labelled` beside it."""
    choices = known or labelled
    for video, one in new.videos.items():
        for step in one.transcript:
            if step not in choices:
                told = unknown("step", step, choices)
                if known or "did you mean" in str(told):
                    raise AnnotationError(f"{video}: the transcript: {told}", video=video)


def _shown_elsewhere(
    shown: Mapping[str, Labels], steps: Sequence[str], together: Annotations, videos: Videos
) -> list[str]:
    """The steps that are shown for longer than `LITTLE` where nothing is labelled."""
    count = np.zeros(len(steps) + 1, dtype=np.int64)  # the last is background
    for name, labels in shown.items():
        said = together.videos.get(name, Annotation(end=0.0))
        np.add.at(count, labels[said.is_open(len(labels), videos.rate)], 1)
    return [name for name, n in zip(steps, count, strict=False) if n / float(videos.rate) > LITTLE]


def _whole(
    annotations: Annotations,
    names: Sequence[str],
    videos: Videos,
    count: int | None,
    quiet: bool = False,
) -> Lesson:
    """The lesson of `annotations`, if it can be one; what is little evidence is reported, unless it
    is `quiet`."""
    total = len(names) if count is None else count
    if len(names) > total:
        named = ", ".join([*names[:5], *["..."] * (len(names) > 5)])
        raise OptionError(
            f"the labels name {len(names)} steps ({named}), but steps={total}; give at least as many."
        )
    if alike := find_alike(names):
        where = [
            next((n for n, one in annotations.videos.items() if name in one.steps), "the procedure")
            for name in alike
        ]
        raise AnnotationError(
            f"the step names {alike[0]!r} ({where[0]}) and {alike[1]!r} ({where[1]}) differ by spaces, "
            "underscores or capitals. Write them alike where they are one step, or give them names that differ."
        )
    if not annotations.annotated and not annotations.recipe:
        raise OptionError(
            "labels were given, but all of them are open (-2); label a video, or leave labels out."
        )
    if not total:
        raise OptionError(
            "no step is labelled in these labels, and steps are learned from them; label one at least."
        )
    for video, one in annotations.videos.items():
        one.check(video)
    constraints = annotations.constraints(videos.samples, videos.rate, names)
    if not quiet:
        _report_little(annotations, videos.rate)
    labels = [
        None if one is None else _labels_of(one, rows)
        for one, rows in zip(constraints, videos.samples.values(), strict=True)
    ]
    whole = [*names, *("" for _ in range(total - len(names)))]
    return Lesson(annotations, whole, constraints, labels)


def _labels_of(constraint: Constraint, rows: int) -> Labels | None:
    """The labels of a `constraint` of so many `rows`, with its clicks as labels of one row; None
    where it has none."""
    if constraint.labels is None and not constraint.clicks:
        return None
    labels = np.full(rows, OPEN) if constraint.labels is None else constraint.labels.copy()
    for row, step in constraint.clicks:
        labels[row] = step
    return labels


def _report_little(annotations: Annotations, rate: Fraction) -> None:
    """Report the steps that are annotated by one click or by a second of labels, and in no
    transcript."""
    seconds: dict[str, float] = {}
    clicks: dict[str, int] = {}
    for video in annotations.videos.values():
        for one in video.segments:
            seconds[one.step] = seconds.get(one.step, 0.0) + one.duration
            clicks[one.step] = clicks.get(one.step, 0) + (one.duration == 0)
    listed = {step for one in annotations.videos.values() for step in one.transcript}
    listed |= {one.name for one in annotations.recipe}
    for step in seconds.keys() - listed:
        if seconds[step] <= max(LITTLE, 1 / float(rate)) and clicks[step] < 2:
            how = f"for {seconds[step]:g} s" if seconds[step] else "by one click"
            warn_once(
                f"step {step!r} is annotated {how} in all videos together, which is little evidence. Annotate it in "
                "another video, too."
            )
