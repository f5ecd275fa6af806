"""What users pass to `learn` and `teach`: labels, transcripts and a recipe.

`read_given` reads them before any video; then they are checked and merged with earlier ones.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepcut.annotations import (
    NO_STEP,
    PYTHON,
    Annotation,
    Annotations,
    Origin,
    RecipeStep,
    refuse_contradictions,
    refused,
    settle,
)
from stepcut.errors import AnnotationError, OptionError, as_items, unknown, wrong
from stepcut.features.features import Features
from stepcut.files.names import Fragment, match_videos, plain, spell
from stepcut.formats import read_folder, read_transcripts
from stepcut.formats.common import decode
from stepcut.methods.constraints import OPEN
from stepcut.methods.inputs import Labels
from stepcut.order.orders import find_alike, grouped
from stepcut.procedure import lengths
from stepcut.progress import warn_once
from stepcut.timeline import Segment, Timeline, is_unnamed, runs, unnamed

Read = Mapping[str, Timeline | NDArray[Any]]
"""By video; arrays (T,) have step numbers."""
LabelSource = str | os.PathLike[str] | Read
Transcripts = Mapping[str, Sequence[str | int]]
TranscriptSource = Transcripts | str | os.PathLike[str]
Recipe = str | os.PathLike[str] | Sequence[str]
SHORTEST, LONGEST = 1e-9, 1e9
"""Allowed seconds of a step in a recipe, apart from 0, which means unknown."""
LITTLE = 1.0


@dataclass(frozen=True)
class Videos:
    samples: Mapping[str, int]
    ends: Mapping[str, float]
    rate: Fraction

    @classmethod
    def of(cls, features: Sequence[Features]) -> "Videos":
        samples = {one.name: len(one.rows) for one in features}
        return cls(samples, {one.name: one.end for one in features}, features[0].rate)


@dataclass(frozen=True)
class Given:
    """What a user passed, not yet compared with any video."""

    labels: Read
    transcripts: Transcripts
    recipe: list[RecipeStep]
    origin: Origin

    def __bool__(self) -> bool:
        return bool(self.labels or self.transcripts or self.recipe)


# ---------- as users pass them


def read_given(
    labels: LabelSource | None,
    transcripts: TranscriptSource | None,
    recipe: Recipe | None,
    origin: Origin | None = None,
) -> Given:
    orders: Transcripts = {}
    if isinstance(transcripts, str | os.PathLike):
        orders = read_transcripts(transcripts)
    elif transcripts:
        orders = transcripts
    origin = origin or origin_of(transcripts if labels is None else labels)
    return Given(read_labels(labels), orders, read_recipe(recipe), origin)


def read_labels(labels: LabelSource | None) -> Read:
    if labels is None:
        return {}
    if isinstance(labels, str | os.PathLike):
        return read_folder(labels, confirmed=True)
    if not isinstance(labels, Mapping) or not labels:
        why = "give a folder of label files, or a dict of timelines or arrays by video."
        raise wrong("labels", labels, f"is not allowed; {why}")
    if len({isinstance(one, Timeline) for one in labels.values()}) > 1:
        raise OptionError(
            "labels mix timelines and arrays; give all of one kind.", setting="labels"
        )
    return {str(name): one for name, one in labels.items()}


def read_recipe(recipe: Recipe | None) -> list[RecipeStep]:
    """Read lines such as "toast it; 1:30; optional; any time"."""
    if recipe is None:
        return []
    if isinstance(recipe, str | os.PathLike):
        try:
            lines = decode(Path(recipe).read_bytes()).splitlines()
        except OSError as error:
            why = f"cannot be read ({error.strerror}). Give a text file with one step per line."
            raise wrong("recipe", str(recipe), why) from error
    else:
        lines = as_items(
            "recipe", recipe, str, "a text file or a list of lines, each the name of a step"
        )
    steps = [_recipe_step(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not steps:
        raise AnnotationError("the recipe is empty; write one step per line.", setting="recipe")
    if alike := find_alike([step.name for step in steps]):
        raise AnnotationError(
            f"the recipe lists {alike[0]!r} twice; list each step once.",
            setting="recipe",
            value=alike[0],
        )
    return steps


CLOCK = re.compile(r"(?:(\d+):)?(\d+(?:\.\d+)?)\s*(s|sec|seconds|m|min|minutes|h|hours)?")


def _recipe_step(number: int, line: str) -> RecipeStep:
    name, *marks = [part.strip() for part in line.split(";")]
    seconds, flags, problem = None, {"any time": False, "optional": False}, ""
    for mark in marks:
        clock = CLOCK.fullmatch(mark)
        if mark.casefold() in flags:
            flags[mark.casefold()] = True
        elif clock:
            unit = {"m": 60.0, "h": 3600.0}.get((clock[3] or "s")[0], 1.0)
            seconds = float(clock[2]) * unit
            if clock[1]:  # 1:30 and 1:30 min are a minute and a half, 1:30 h are an hour and a half
                seconds = (60 * float(clock[1]) + float(clock[2])) * max(unit / 60, 1.0)
            if seconds and not SHORTEST <= seconds <= LONGEST:
                problem = f"the duration {mark[:40]!r} is out of range; write 40 s, 1:30 or 2 min."
        else:
            problem = f"{mark!r} is not a duration (40 s, 1:30, 2 min), 'optional' or 'any time'."
    if not name:
        problem = "a step has no name; write it before the semicolon."
    if problem:
        raise AnnotationError(f"recipe, line {number}: {problem}", line=number)
    return RecipeStep(name, seconds, flags["any time"], flags["optional"])


def origin_of(source: object, annotator: str | None = None) -> Origin:
    place = os.fspath(source) if isinstance(source, str | os.PathLike) else PYTHON
    return Origin(str(place), annotator or "")


def find_labelled(names: Iterable[str], samples: Mapping[str, int]) -> dict[str, str]:
    wanted = list(names)
    found = match_videos(wanted, samples)
    if lost := [name for name in wanted if name not in found]:
        error = unknown("video", lost[0], samples)
        raise AnnotationError(f"{error} Does it belong to another task?", video=lost[0])
    return found


def in_parts(labels: Read, names: Iterable[str]) -> Read:
    """Divide the labels of whole files among the recordings that are parts of them."""
    parts: dict[str, list[str]] = {}
    for name in names:
        if (whole := Fragment.of(name).whole) != name:
            parts.setdefault(whole, []).append(name)
    divided: dict[str, Timeline | NDArray[Any]] = {}
    wholes = match_videos([name for name in labels if not Fragment.of(name).tail], parts)
    for name, one in labels.items():
        if isinstance(one, Timeline) and name in wholes:
            inside = {part: one.in_part(part) for part in parts[wholes[name]]}
            divided |= {part: each for part, each in inside.items() if each.segments}
        else:
            divided[name] = one
    return divided


def _count_numbers(videos: Videos, given: Given) -> int | None:
    """None if the labels and transcripts use names."""
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


def _collect(
    videos: Videos, given: Given, steps: Sequence[str], known: Sequence[str]
) -> Annotations:
    """`steps` are the names for numbers; names are spelled as in `known`."""

    def name_of(number: int) -> str:
        return steps[number] if number < len(steps) else unnamed(number)

    found: dict[str, Annotation] = {}
    ends: list[lengths.Mismatch] = []
    labels = in_parts(given.labels, videos.samples)
    for name, video in find_labelled(labels, videos.samples).items():
        one, end = labels[name], videos.ends[video]
        if isinstance(one, Timeline):
            found[video] = annotate(one, video, end, float(videos.rate), given.origin)
            if one.intervals and not one.duration:
                ends.append(lengths.Mismatch(video, end, max(each.end for each in one)))
        else:
            rows = _numbers(video, one, videos.samples[video])
            names = [name_of(number) for number in range(1 + max(rows, default=-1))]
            found[video] = annotate_rows(rows, videos.rate, names, end, given.origin)
    if short := lengths.far_too_short(ends):
        warn_once(short)
    timelines = {name: one for name, one in labels.items() if isinstance(one, Timeline)}
    overlaps = {name: pairs for name, one in timelines.items() if (pairs := one.overlapping())}
    for name, pairs in list(overlaps.items())[:1]:
        first, second = pairs[0]
        warn_once(
            f"labels overlap in {len(overlaps)} of {len(timelines)} videos, such as "
            f"{first.step!r} and {second.step!r} at {second.start:g} s in {name}. Where labels "
            "overlap, the one that starts later is used."
        )
    kinds = (str, int, np.integer)
    for name, video in find_labelled(given.transcripts, videos.samples).items():
        listed = as_items("transcripts", given.transcripts[name], kinds, "steps by video")
        if not listed:
            raise refused(video, "the transcript is empty. Give the steps in order.")
        if len(listed) > (most := videos.samples[video]):
            raise refused(
                video,
                f"the transcript has {len(listed)} steps, but the video only {most} rows "
                "of features. Shorten it, or use a higher --fps.",
            )
        named = tuple(one if isinstance(one, str) else name_of(int(one)) for one in listed)
        before = found.get(video, Annotation(end=videos.ends[video], origins=(given.origin,)))
        found[video] = msgspec.structs.replace(before, transcript=named)
    new = Annotations(videos=found, recipe=tuple(given.recipe))
    new = new.renamed(spell(new.steps, known))
    labelled = [one.step for video in new.videos.values() for one in video.segments]
    listed = [step for one in new.videos.values() for step in one.transcript]
    new = new.renamed(spell(listed, list(dict.fromkeys((*known, *labelled)))))
    _refuse_unknown(new, steps if known else [])
    return new


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


def _refuse_unknown(new: Annotations, known: Sequence[str]) -> None:
    """Refuse unknown steps of transcripts, typos of labelled ones, and names that are not text."""
    labelled = [one.step for video in new.videos.values() for one in video.segments]
    choices = list(dict.fromkeys((*known, *labelled)))
    for video, one in new.videos.items():
        for step in one.steps:
            if re.search("[\ud800-\udfff]", step):
                raise refused(
                    video, f"the step name {step!r} contains half a character. Rename the step."
                )
        for step in one.transcript:
            if step not in choices:
                error = unknown("step", step, choices)
                if known or "did you mean" in str(error):
                    raise refused(video, f"the transcript: {error}")


# ---------- labels of one video


def annotate(timeline: Timeline, video: str, end: float, rate: float, origin: Origin) -> Annotation:
    """If all segments are clicks, the rest is open; otherwise it is background, but open around
    a click."""
    slack = max(lengths.SLACK, 1 / rate)
    for one in timeline:
        early = 0.0 if one.is_click else -slack  # a click at -1 may mean that there is none
        if one.start < early or one.end > end + slack:
            where = (
                f"starts at {one.start:.1f} s, before the start of the video"
                if one.start < early
                else f"ends at {one.end:.1f} s, after the end of the video ({end:.1f} s)"
            )
            raise refused(
                video,
                f"the {'click' if one.is_click else 'label'} {one.step!r} {where}. "
                "Do the labels belong to another video?",
            )
    stated = lengths.differ(video, end, timeline.duration) if timeline.duration else None
    if stated is not None and stated.share > lengths.TOLERANCE:
        raise refused(
            video,
            f"the labels are for a video of {timeline.duration:.1f} s, but this one lasts "
            f"{end:.1f} s. Do they belong to another video? With feature files, check --rate: "
            f"{lengths.fitting_rate(Fraction(rate), [stated]):g} fits.",
        )
    # Rounding may put a label outside.
    inside = tuple(
        Segment(max(min(one.start, end), 0.0), min(one.end, end), one.step)
        for one in timeline.without_overlaps()
        if one.is_click or (one.start < end and one.end > 0)
    )
    if lost := [one.step for one in timeline.intervals if one.start >= end]:
        warn_once(f"{video}: the label {lost[0]!r} is after the end of the video, and is not used.")
    whole = not inside or any(not one.is_click for one in inside)
    made = Annotation(end=end, origins=(origin,))
    made = settle(inside, ((0.0, end),) if whole else (), made)
    refuse_contradictions(made, video)
    return made


def annotate_rows(
    labels: Labels, rate: Fraction | float, names: Sequence[str], end: float, origin: Origin
) -> Annotation:
    """Turn `labels` (T,) into an annotation; -1 is background, -2 open."""
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


# ---------- what a method learns from


def first_annotations(
    videos: Videos, given: Given, count: int | None, names: Sequence[str] | None
) -> tuple[Annotations, list[str]]:
    """Return the annotations, and the names of all steps: "" for unnamed ones up to `count`."""
    numbers = _count_numbers(videos, given)
    if given.labels and numbers is None and names is not None:
        raise OptionError("the labels already name the steps; omit names.", setting="names")
    steps = list(names or map(unnamed, range(max(numbers, count or 0) if numbers else 0)))
    new = _collect(videos, given, steps, steps)
    return _checked(new, steps or usual_order(new), videos, count)


def next_annotations(
    videos: Videos,
    given: Given,
    count: int | None,
    *,
    steps: Sequence[str],
    shown: Mapping[str, Labels],
    before: Annotations,
    taught: bool,
) -> tuple[Annotations, list[str]]:
    """Merge annotations with those `before`; `shown` has the numbers of `steps` by row."""
    numbers = None if given.recipe else _count_numbers(videos, given)
    names = [*steps, *map(nameless, range(len(steps), numbers or 0))]
    named = [name for name in names if numbers is not None or not is_unnamed(name)]
    old = [name for name in names if name in before.steps]
    together, new = before, Annotations()
    if given:
        new = _collect(videos, given, names, named)
        taken = {plain(name) for name in new.steps}
        # Unnamed steps get new placeholders if theirs now mean another step.
        placeholders = {
            name: unnamed(number)
            for number, name in enumerate(old)
            if is_unnamed(name) and plain(name) in taken and name not in new.steps
        }
        together = new.over(before.renamed(placeholders))
    if not given or numbers is not None:
        if not (together.annotated or together.recipe):
            raise OptionError(
                "there is nothing to learn from: no part of a video is corrected, confirmed or "
                "labelled; labels of -2 (open) mean that nobody has looked. "
                "Correct some in stepcut view, or give labels.",
                setting="labels",
            )
        return _checked(together, names, videos, count, quiet=not given)
    labelled = set(new.steps)
    known = list(dict.fromkeys((*old, *named)))
    if taught and labelled and len(named) == len(names) and not labelled & set(known):
        raise AnnotationError(
            f"the labelled steps ({', '.join(sorted(labelled)[:5])}) are not steps of this "
            f"procedure ({', '.join(known[:5])}). Do the labels belong to another task?",
            setting="labels",
            value=sorted(labelled),
            allowed=known,
        )
    ordered = usual_order(together)
    if labelled & set(names):  # named steps that the unlabelled part shows stay, up to `count`
        rows = np.zeros(len(names) + 1, dtype=np.int64)  # the last is background
        for name, labels in shown.items():
            annotation = together.videos.get(name, Annotation(end=0.0))
            np.add.at(rows, labels[annotation.is_open(len(labels), videos.rate)], 1)
        lasts = dict(zip(names, rows / float(videos.rate), strict=False))
        stay = [name for name in named if lasts[name] > LITTLE and name not in ordered]
        ordered += stay[: None if count is None else max(count - len(ordered), 0)]
    return _checked(together, ordered, videos, count)


def nameless(number: int) -> str:
    return f"{unnamed(number)} (no name yet)"


def usual_order(annotations: Annotations) -> list[str]:
    """The order of the recipe, then of the median of relative middles."""
    videos = annotations.videos.values()
    middles = [
        (one.step, (one.start + one.end) / 2 / max(video.end, 1e-9))
        for video in videos
        for one in (*video.segments, *video.keyed(0.0))
        if one.step != NO_STEP
    ]
    middles += [
        (step, (place + 0.5) / len(video.transcript))
        for video in videos
        for place, step in enumerate(video.transcript)
    ]
    places = grouped(middles)
    others = sorted(places, key=lambda name: float(np.median(places[name])))
    return list(dict.fromkeys((*(one.name for one in annotations.recipe), *others)))


def _checked(
    annotations: Annotations,
    names: Sequence[str],
    videos: Videos,
    count: int | None,
    quiet: bool = False,
) -> tuple[Annotations, list[str]]:
    total = len(names) if count is None else count
    if len(names) > total:
        named = ", ".join([*names[:5], *["..."] * (len(names) > 5)])
        raise OptionError(
            f"the labels name {len(names)} steps ({named}), but steps={total}; "
            f"give steps={len(names)} or more.",
            setting="steps",
            value=total,
        )
    if alike := find_alike(names):
        where = [
            next((n for n, one in annotations.videos.items() if name in one.steps), "the procedure")
            for name in alike
        ]
        raise AnnotationError(
            f"the step names {alike[0]!r} ({where[0]}) and {alike[1]!r} ({where[1]}) differ only "
            "by spaces, underscores or capitals. Use one spelling for one step.",
            setting="labels",
            value=alike,
        )
    if not annotations.annotated and not annotations.recipe:
        raise OptionError(
            "the labels cover no part of any video: all of them are -2 (open), which means that "
            "nobody has looked. Label a part of a video, or omit labels.",
            setting="labels",
        )
    if not total:
        raise OptionError("the labels contain no step; label at least one.", setting="labels")
    for video, one in annotations.videos.items():
        refuse_contradictions(one, video, annotations.recipe)
    if not quiet:
        _report_little(annotations, videos.rate)
    return annotations, [*names, *("" for _ in range(total - len(names)))]


def _report_little(annotations: Annotations, rate: Fraction) -> None:
    segments = [one for video in annotations.videos.values() for one in video.segments]
    listed = {step for one in annotations.videos.values() for step in one.transcript}
    listed |= {one.name for one in annotations.recipe}
    little: dict[str, list[str]] = {}
    for step, mine in grouped((one.step, one) for one in segments).items():
        lasts, clicks = sum(one.duration for one in mine), sum(one.is_click for one in mine)
        if step not in listed and lasts <= max(LITTLE, 1 / float(rate)) and clicks < 2:
            how = f"for {lasts:g} s" if lasts else "by one click"
            little.setdefault(how, []).append(repr(step))
    for how, steps in little.items():
        many = f"steps {', '.join(steps)} are each" if len(steps) > 1 else f"step {steps[0]} is"
        warn_once(
            f"{many} annotated only {how} in all videos together, which is little evidence. "
            "Annotate another video, too."
        )
