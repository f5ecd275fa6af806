"""What a person says, as a lesson: labels from any format, corrections and earlier lessons, in numbers per row."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import AnnotationError, OptionError, unknown
from stepcut.features.contract import Features
from stepcut.files.names import match_videos, plain, spell
from stepcut.formats import read_folder
from stepcut.methods.constraints import OPEN
from stepcut.methods.inputs import Labels
from stepcut.order.orders import grouped
from stepcut.procedure.record import Record
from stepcut.procedure.words import Words, middles, say_anew, whole_words
from stepcut.timeline import Timeline, is_unnamed, unnamed

Read = Mapping[str, Timeline | NDArray[Any]]
"""Timelines by video, or arrays (T,) of step numbers by video."""
Given = str | os.PathLike[str] | Read
"""What a user may hand over: the same, or label files."""

LEAST = 1.0
"""A step that is labelled for no more seconds than this, in all videos together, has nothing to be learned from."""


@dataclass(frozen=True)
class StepLabels:
    """Labels as step numbers: for some videos (T,), -1 for background, -2 where nobody said anything."""

    rows: dict[str, Labels]
    names: list[str] = field(default_factory=list)
    """The names of the steps, in the order of their numbers, '' for one that has none yet; empty: numbers alone."""
    words: dict[str, Words] = field(default_factory=dict)
    """The same between the rows, for videos that were labelled or corrected in seconds: that is what is shown."""

    @property
    def used(self) -> set[int]:
        """The numbers of the steps that are labelled somewhere."""
        return {
            int(number) for one in self.rows.values() for number in np.unique(one) if number >= 0
        }

    @property
    def count(self) -> int:
        """How many steps the labels speak of."""
        return max(len(self.names), 1 + max(self.used, default=-1))


def read_labels(given: Given) -> Read:
    """The labels that were `given`, timelines or arrays by video; files are read in any format of `stepcut.formats`."""
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


def number_labels(
    given: Read,
    samples: Mapping[str, int],
    rate: Fraction,
    ends: Mapping[str, float],
    order: Sequence[str] | None = None,
) -> StepLabels:
    """Check labels and turn them into step numbers, one per row of features.

    given    timelines or arrays by video, as `read_labels` gives them
    samples  rows of features of every video that may be labelled
    rate     rows per second
    ends     the length of each of those videos, in seconds
    order    the names of the steps in their order, where it is known; left out, the one in which they usually come
    """
    matched = {video: given[name] for name, video in find_labelled(given, samples).items()}
    if all(isinstance(one, Timeline) for one in matched.values()):
        timelines = {name: one for name, one in matched.items() if isinstance(one, Timeline)}
        names = list(order) if order is not None else usual_order(timelines.values())
        if alike := find_alike(names):
            where = [
                next((name for name, t in timelines.items() if one in t.steps), "the procedure")
                for one in alike
            ]
            raise AnnotationError(
                f"the step names {alike[0]!r} ({where[0]}) and {alike[1]!r} ({where[1]}) differ by spaces, "
                "underscores or capitals. Write them alike where they are one step, or give them names that differ."
            )
        rows = {n: _rows(n, t, names, samples[n], rate, ends[n]) for n, t in timelines.items()}
        return StepLabels(rows, names, {n: whole_words(t, ends[n]) for n, t in timelines.items()})
    numbered = StepLabels(
        {name: _numbers(name, one, samples[name]) for name, one in matched.items()}
    )
    if numbered.count > (most := sum(samples.values())):  # a mark of something else, such as 65535
        raise OptionError(
            f"a label is {numbered.count - 1}, but all videos together have {most} rows of features; steps are counted "
            "from 0, -1 is background and -2 is open."
        )
    return numbered


def usual_order(timelines: Iterable[Timeline]) -> list[str]:
    """The steps of `timelines` by when they usually come: the median of their middles, as a share of the video.

    >>> from stepcut.timeline import Segment
    >>> usual_order([Timeline([Segment(0, 2, "pour"), Segment(2, 9, "stir")], duration=9)])
    ['pour', 'stir']
    """
    segments = [(one, max(timeline.end, 1e-9)) for timeline in timelines for one in timeline]
    places = grouped((one.step, (one.start + one.end) / 2 / whole) for one, whole in segments)
    return sorted(places, key=lambda name: float(np.median(places[name])))


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


def refuse_overlaps(name: str, timeline: Timeline) -> None:
    """Refuse the labels of the video `name` where two steps of its `timeline` share time."""
    if pairs := timeline.overlapping():
        one, other = pairs[0]
        raise AnnotationError(
            f"{name}: at {max(one.start, other.start):g} s it is labelled both {one.step!r} and {other.step!r}; one "
            "step at a time can be learned and shown. Shorten one of the two; where all overlap by a frame at most: "
            "stepcut convert LABELS FOLDER --to json --rate 30"
        )


def _rows(
    name: str, timeline: Timeline, names: Sequence[str], rows: int, rate: Fraction, end: float
) -> Labels:
    refuse_overlaps(name, timeline)
    last = max((segment.end for segment in timeline), default=0.0)
    if last > end + max(1.0, 1 / float(rate)):
        raise AnnotationError(
            f"{name}: a label ends at {last:.1f} s, beyond the video ({end:.1f} s). Are these labels of another video?"
        )
    return timeline.labels(middles(rows, rate, max(last, end)), names)


def _numbers(name: str, given: Any, rows: int) -> Labels:
    numbers = np.asarray(given)
    if numbers.shape != (rows,) or numbers.dtype.kind not in "iu" or (numbers < OPEN).any():
        raise OptionError(
            f"{name}: {numbers.dtype} labels of shape {numbers.shape} ({np.ravel(numbers)[:3]} ...) for {rows} rows of "
            "features; give a whole number for each: steps are counted from 0, -1 is background and -2 is open."
        )
    return numbers.astype(np.int64)


def nameless(number: int) -> str:
    """Name step `number` that was taught together with named ones.

    >>> nameless(4)
    'step 5 (no name yet)'
    """
    return f"{unnamed(number)} (no name yet)"


def first_lesson(
    given: Read, features: Sequence[Features], steps: int | None, names: Sequence[str] | None
) -> StepLabels:
    """What `learn` is asked for by labels that were `given`: their names are steps, or `names` where they are numbers.

    Where there are to be more `steps` than are labelled, the others have no name yet.
    """
    rate = features[0].rate
    samples = {one.name: len(one.rows) for one in features}
    labels = number_labels(given, samples, rate, {one.name: one.duration for one in features})
    if labels.names and names is not None:
        raise OptionError("names were given beside labels that name the steps; leave names out.")
    count = labels.count if steps is None else steps
    told = labels.names or list(names or (unnamed(number) for number in range(count)))
    return _whole(replace(labels, names=told), steps, rate)


def lesson(record: Record, given: Given | None, steps: int | None) -> StepLabels:
    """What a procedure is taught: new labels where any are `given`, corrections, and the labels that it was taught
    before, in this order of weight; `steps`: how many there are to be, where not those that are named."""
    shown, timelines_now = record.steps, record.timelines
    before = known_rows(record)
    words = {
        name: Words(timelines_now[name], known)
        for name, known in record.document.known.items()
        if known
    }
    if given is None:
        if not any((one != OPEN).any() for one in before.values()):
            raise OptionError(
                "there is nothing to learn from: no stretch of a video was corrected or confirmed. Correct some in "
                "stepcut view, or give labels."
            )
        return _whole(StepLabels(before, shown, words), steps, record.rate, record.labels)
    new = read_labels(given)
    ends = {name: timeline.end for name, timeline in record.learned_timelines.items()}
    if not all(isinstance(one, Timeline) for one in new.values()):
        fresh = number_labels(new, record.samples, record.rate, ends)
        names = [*shown, *(nameless(number) for number in range(len(shown), fresh.count))]
        for name, rows in fresh.rows.items():
            if name in words:
                words[name] = say_anew(words[name], rows, names, record.rate)
        return _whole(StepLabels(_over(before, fresh.rows), names, words), steps, record.rate)
    timelines = {
        name: one.rename(spell(one.steps, shown))
        for name, one in new.items()
        if isinstance(one, Timeline)
    }
    old_names = [
        name
        for name in shown
        if any(name == one.step for each in words.values() for one in each.spoken())
    ]
    names = usual_order([*timelines.values(), *(timelines_now[name] for name in words)])
    names = [
        name
        for name in names
        if name in old_names or any(name in one.sequence() for one in timelines.values())
    ]
    fresh = number_labels(timelines, record.samples, record.rate, ends, names)
    said = {step for one in timelines.values() for step in one.sequence()}
    if record.given and said and not said & set(old_names):
        raise AnnotationError(
            f"none of the labelled steps ({', '.join(sorted(said)[:5])}) is one that this procedure was taught "
            f"({', '.join(old_names[:5])}). Are these the labels of another task?"
        )
    translate = np.array(
        [*(names.index(step) if step in names else OPEN for step in shown), OPEN, -1]
    )
    together = _over({name: translate[one] for name, one in before.items()}, fresh.rows)
    room = None if steps is None else max(steps - len(names), 0)
    stay = (
        [name for name in _named(record, together) if name not in names][:room]
        if said & set(shown)
        else []
    )
    return _whole(StepLabels(together, [*names, *stay], words | fresh.words), steps, record.rate)


def known_rows(record: Record) -> dict[str, Labels]:
    """What a person said of the rows of each video, in numbers of `record.steps`: labels that it was taught, as
    corrected since, and stretches that were set or confirmed; -2 elsewhere. Videos without any are left out."""
    timelines, known = record.timelines, {}
    place = {step.number: number for number, step in enumerate(record.document.steps)}
    for name, rows in record.samples.items():
        said = np.full(rows, OPEN)
        times = middles(rows, record.rate, timelines[name].end)
        shown = timelines[name].labels(times)
        for start, end in record.document.known.get(name, ()):
            inside = (start <= times) & (times < end)
            said[inside] = shown[inside]
        for click in record.document.clicks.get(name, ()):
            said[min(int(click.time * float(record.rate)), rows - 1)] = place[click.step]
        if (said != OPEN).any():
            known[name] = said
    return known


def _named(record: Record, rows: Mapping[str, Labels]) -> list[str]:
    """The steps to which a person gave a name, and which are shown for long enough where `rows` say nothing."""
    shown = record.labels
    silent = np.concatenate(
        [shown[name][rows[name] == OPEN] if name in rows else shown[name] for name in shown]
    )
    lasts = [
        int((silent == number).sum()) / float(record.rate) for number in range(len(record.steps))
    ]
    long = [name for name, seconds in zip(record.steps, lasts, strict=True) if seconds > LEAST]
    return [name for name in long if not is_unnamed(name)]


def _over(before: Mapping[str, Labels], new: Mapping[str, Labels]) -> dict[str, Labels]:
    """The new labels over those before; where the new ones are open, the others stand."""
    together = dict(before)
    for name, rows in new.items():
        together[name] = np.where(rows == OPEN, before[name], rows) if name in before else rows
    return together


def _whole(
    labels: StepLabels, steps: int | None, rate: Fraction, shown: Mapping[str, Labels] | None = None
) -> StepLabels:
    """The lesson, if there is enough to learn every labelled step from, and room for all of them; where it goes on from
    what is `shown`, steps (T,) by video, they are learned from that, too."""
    names = labels.names
    count = len(names) if steps is None else steps
    if labels.count > count:
        named = ", ".join(names[:5] + ["..."] * (len(names) > 5))
        raise OptionError(
            f"the labels name {labels.count} steps ({named}), but steps={count}; give at least as many."
        )
    all_rows = np.concatenate(list(labels.rows.values()))
    if not (all_rows != OPEN).any():
        raise OptionError(
            "labels were given, but all of them are open (-2); label a video, or leave labels out."
        )
    if not count:
        raise OptionError(
            "no step is labelled in these labels, and steps are learned from them; label one at least."
        )
    said = {one.step for words in labels.words.values() for one in words.spoken()}
    learned = all_rows if shown is None else np.concatenate(list(shown.values()))
    least = max(LEAST, 1 / float(rate))  # more than one row
    for number in sorted(labels.used | {names.index(name) for name in said}):
        seconds = int((learned == number).sum()) / float(rate)
        if seconds <= least:
            raise AnnotationError(
                f"step {names[number]!r} is labelled for {seconds:g} s in all videos together, which is too little to "
                f"learn it from; label more than {least:g} s of it, or leave it out."
            )
    return replace(labels, names=[*names, *("" for _ in range(count - len(names)))])
