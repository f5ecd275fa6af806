"""Times to plan with: seconds per step and recording with their error, run chart, stacked bars.

A segment with a confidence is predicted and unchecked; one without was annotated by a person.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from stepcut.annotations import STEP_CLASSES
from stepcut.colours import BACKGROUND_COLOUR, colour, ink
from stepcut.errors import OptionError, StepcutError, choose, wrong
from stepcut.features.video.container import probe
from stepcut.files import AnyPath, write_bytes
from stepcut.files.names import Fragment
from stepcut.settings import check_number
from stepcut.tables import FIXED, Cell, Table, check_table, drawn_with, to_sheets
from stepcut.timeline import Segment, Timeline

# group -> recording -> timeline; a single group may be called ""
Groups = Mapping[str, Mapping[str, Timeline]]
# 80 % of the true seconds of a step were between these multiples of the predicted ones, without
# and with three labelled videos: on OpenPack and six recipes of CaptainCook4D
TRUE_SHARES = {False: (0.3, 1.7), True: (0.6, 1.6)}
WHOLE, IDLE = "(whole)", "(no step)"
BY = ("recording", "shift", "day")
SHIFTS = (6, 14, 22)  # the hours at which they start
LIMITS = 2.66  # 3 / 1.128, of the mean moving range of an individuals chart
LONGEST, LETTERS = 18, 92  # letters of a name, and of the longest bar
FEW = 8  # points whose control limits say little
CLASS_COLOURS = dict(zip(STEP_CLASSES, ("#44aa66", "#e8b33c", "#cc5555"), strict=True))
DATED = re.compile(
    r"(20\d\d)[-_.]?([01]\d)[-_.]?([0-3]\d)(?:[-_T ]{0,3}([0-2]\d)[-_.h:]?([0-5]\d)"
    r"(?:[-_.m:]?([0-5]\d))?)?(?!\d)"
)


def is_unchecked(segment: Segment) -> bool:
    return segment.confidence is not None


def only_confirmed(groups: Groups) -> dict[str, dict[str, Timeline]]:
    kept = {
        group: {
            name: replace(timeline, segments=tuple(s for s in timeline if not is_unchecked(s)))
            for name, timeline in videos.items()
            if not all(map(is_unchecked, timeline)) or not len(timeline)
        }
        for group, videos in groups.items()
    }
    if not any(kept.values()):
        fix = "Label videos in stepcut view, or count all segments without --confirmed-only."
        what = f"no segment is confirmed by a person. {fix}"
        raise OptionError(what, setting="confirmed_only", value=True)
    return kept


def true_range(segments: Iterable[Segment], labelled: bool) -> tuple[float, float]:
    """80 % interval of the true seconds of a step."""
    seconds = {False: 0.0, True: 0.0}
    for segment in segments:
        seconds[is_unchecked(segment)] += segment.duration
    low, high = TRUE_SHARES[labelled]
    return seconds[False] + low * seconds[True], seconds[False] + high * seconds[True]


def error_note(labelled: bool) -> str:
    low, high = TRUE_SHARES[labelled]
    learned = "with a few labels" if labelled else "without labels"
    return (
        f"Figures from unchecked segments: on recorded tasks learned {learned}, 80 % of the true "
        f"seconds of a step were {low:g} to {high:g} times the measured ones (from, to); counts "
        "and shares have similar errors. Correct the segments in stepcut view, or use "
        "--confirmed-only."
    )


@lru_cache(maxsize=4096)  # opening a file takes a while
def began(name: str, path: str | None = None) -> datetime | None:
    """When a recording began: by a date in its name, or as the camera wrote into its file.

    A part of a file begins later than the file.

    >>> began("box_20260331_060500"), began("GX010042")
    (datetime.datetime(2026, 3, 31, 6, 5), None)
    """
    later = timedelta(seconds=Fragment.of(name).start)
    with suppress(ValueError):
        if found := DATED.search(name):
            year, month, day, hour, minute, second = (int(part or 0) for part in found.groups())
            return datetime(year, month, day, hour, minute, second) + later
    if path is not None:
        with suppress(StepcutError, OSError, ValueError):
            written = datetime.fromisoformat(probe(path).created)
            return written.astimezone().replace(tzinfo=None) + later
    return None


class Spent(NamedTuple):
    """Seconds of a step in one recording, the 80 % interval of the true ones, those confirmed."""

    times: int | None
    seconds: float
    low: float
    high: float
    confirmed: float | None


class Point(NamedTuple):
    """A point of the run chart: a recording, or the mean of those of a shift or day."""

    name: str
    recordings: int
    seconds: float
    low: float
    high: float
    confirmed: float | None  # percent


class Chart(NamedTuple):
    points: list[Point]
    mean: tuple[float, float, float]  # with its 80 % interval
    limits: tuple[float, float] | None

    def outside(self, point: Point) -> bool:
        low, high = self.limits or (0.0, np.inf)
        return not low <= point.seconds <= high


@dataclass(frozen=True)
class Times:
    """The times of recordings; each of them is one cycle, and its length the time of the cycle.

    >>> tea = Timeline([Segment(0, 2, "pour"), Segment(4, 8, "stir")], duration=10)
    >>> times = Times({"": {"a": tea, "b": replace(tea, duration=12)}})
    >>> times.notes[0]
    'Bottleneck: stir, the longest step of 2 of 2 recordings.'
    >>> times.per_step.column("step"), times.per_step.column("median s")
    (['pour', 'stir', '(no step)', '(whole)'], [2.0, 4.0, 5.0, 11.0])
    """

    groups: Groups
    names: Sequence[str] | None = None
    """The steps; by default those of the timelines."""
    classes: Mapping[str, str] = field(default_factory=dict)
    by: str = "recording"
    takt: float | None = None
    step: str = WHOLE
    """What the run chart shows."""
    paths: Mapping[str, str | None] = field(default_factory=dict)
    """Where the videos are, for their wall-clock times."""
    confirmed_only: bool = False

    def __post_init__(self) -> None:
        if not any(self.groups.values()):
            raise OptionError("no timelines to count. Use label files or a procedure.")
        if self.confirmed_only:
            object.__setattr__(self, "groups", only_confirmed(self.groups))
        choose("by", self.by, dict.fromkeys(BY))
        choose("step", self.step, dict.fromkeys((*self.steps, WHOLE)))
        if self.takt is not None:
            check_number("takt", self.takt, 0, 1e6, above=True)

    @cached_property
    def steps(self) -> list[str]:
        found = (step for _, _, timeline in self._all for step in timeline.steps)
        return list(dict.fromkeys(found if self.names is None else self.names))

    @cached_property
    def _all(self) -> list[tuple[str, str, Timeline]]:
        return [(group, name, t) for group, some in self.groups.items() for name, t in some.items()]

    @cached_property
    def _rows(self) -> list[str]:
        known = all(timeline.duration is not None for _, _, timeline in self._all)
        idle = [IDLE] if known and not self.confirmed_only else []
        return [*self.steps, *idle, WHOLE]

    @cached_property
    def labelled(self) -> bool:
        """Whether a person confirmed any segment."""
        return not all(is_unchecked(one) for _, _, timeline in self._all for one in timeline)

    @cached_property
    def confirmed(self) -> float | None:
        """Percent of the seconds in segments that a person confirmed."""
        spent = [self.spent(timeline, step) for _, _, timeline in self._all for step in self.steps]
        total = sum(one.seconds for one in spent)
        return 100 * sum(one.confirmed or 0 for one in spent) / total if total else None

    def spent(self, timeline: Timeline, step: str) -> Spent:
        if step in (WHOLE, IDLE):
            gaps = timeline.crop(0, timeline.end).gaps()
            seconds = float(timeline.end if step == WHOLE else sum(b - a for a, b in gaps))
            return Spent(None, seconds, seconds, seconds, None)
        done = [one for one in timeline if one.step == step]
        sure = sum(one.duration for one in done if not is_unchecked(one))
        low, high = true_range(done, self.labelled)
        return Spent(len(done), float(sum(one.duration for one in done)), low, high, sure)

    # ---------- tables

    @cached_property
    def per_step(self) -> Table:
        """Per group and step; `from` and `to` are an 80 % interval of the median."""
        rows: list[list[Cell]] = []
        for group, videos in self.groups.items():
            length = sum(timeline.end for timeline in videos.values())
            for step in self._rows:
                spent = [self.spent(timeline, step) for timeline in videos.values()]
                done = [one for one in spent if one.seconds or one.times]
                counts = [one.times for one in done if one.times is not None]
                total = sum(one.seconds for one in done)
                kind = [self.classes.get(step)] if self.classes else []
                count = None if step in (IDLE, WHOLE) else sum(counts)
                share = 100 * total / length if length else None
                figures = [*_quartiles(done), share, _confirmed(done)]
                rows.append([*self._lead(group), step, *kind, len(done), count, *figures])
        heads = ["median s", "from s", "to s", "Q1 s", "Q3 s", "SD s", "share %", "confirmed %"]
        about = ["step", *(["class"] if self.classes else []), "recordings", "count"]
        return Table([*self._lead("group"), *about, *heads], rows, notes=self.notes)

    @cached_property
    def per_recording(self) -> Table:
        """Per group, recording and step; `from` and `to` are an 80 % interval of the seconds."""
        rows: list[list[Cell]] = []
        for group, name, timeline in self._all:
            for step in self._rows:
                one = self.spent(timeline, step)
                share = 100 * one.seconds / timeline.end if timeline.end else None
                mine = [step, one.times, *one[1:4], share, _confirmed([one])]
                rows.append([*self._lead(group), name, *mine])
        figures = ["count", "total s", "from s", "to s", "share %", "confirmed %"]
        return Table([*self._lead("group"), "recording", "step", *figures], rows)

    def _lead(self, group: str) -> list[str]:
        return [group] if any(self.groups) else []

    @cached_property
    def run(self) -> Chart:
        """Recordings, shifts or days, by wall-clock time if known, or in the order of the files."""
        points = []
        for name, some in self._ordered.items():
            spent = [self.spent(timeline, self.step) for timeline in some]
            done = [one for one in spent if one.seconds]
            if done:
                middle, low, high = np.mean([one[1:4] for one in done], axis=0).tolist()
                points.append(Point(name, len(done), middle, low, high, _confirmed(done)))
        if not points:
            raise wrong("step", self.step, "is in no recording. Choose another one.")
        seconds = [point.seconds for point in points]
        mean, ranges = float(np.mean(seconds)), np.abs(np.diff(seconds))
        apart = LIMITS * float(ranges.mean()) if len(ranges) else 0.0
        limits = (max(mean - apart, 0.0), mean + apart) if len(ranges) else None
        return Chart(points, _mean([point[2:5] for point in points]), limits)

    @cached_property
    def began(self) -> dict[tuple[str, str], datetime]:
        found = {(g, name): began(name, self.paths.get(name)) for g, name, _ in self._all}
        return {key: when for key, when in found.items() if when is not None}

    @cached_property
    def _ordered(self) -> dict[str, list[Timeline]]:
        several, known = len(self.groups) > 1, len(self.began) == len(self._all)
        if self.by != "recording" and not known:
            name = next(name for g, name, _ in self._all if (g, name) not in self.began)
            what = "has no wall-clock time in its name (such as 2026-03-31_0605) or its file. "
            raise wrong("by", self.by, f"is not possible: {name} {what}Use --by recording.")
        found: dict[str, list[Timeline]] = {}
        ordered = sorted(self._all, key=lambda one: self.began[one[:2]]) if known else self._all
        for group, name, timeline in ordered:
            label = f"{group}: {name}" if several else name
            if self.by != "recording":
                when = self.began[group, name]
                label = f"{when:%Y-%m-%d}" if self.by == "day" else _shift(when)
            found.setdefault(label, []).append(timeline)
        return found

    @cached_property
    def stacks(self) -> dict[str, list[tuple[str, float, float, float]]]:
        """Mean seconds of each step, with an 80 % interval, per group, shift, day, or in all."""
        parts = {group: [*some.values()] for group, some in self.groups.items() if some}
        if len(parts) == 1 and self.by == "recording":
            parts = {next(iter(parts)) or "all": [timeline for _, _, timeline in self._all]}
        elif len(parts) == 1:
            parts = self._ordered
        return {
            name: [
                (step, *_mean([self.spent(t, step)[1:4] for t in some])) for step in self._rows[:-1]
            ]
            for name, some in parts.items()
        }

    @cached_property
    def bottleneck(self) -> str | None:
        """The step with the longest median."""
        medians = {
            step: float(np.median(done))
            for step in self.steps
            if (done := [s for _, _, t in self._all if (s := self.spent(t, step).seconds)])
        }
        return max(medians, key=medians.__getitem__) if medians else None

    @cached_property
    def notes(self) -> list[str]:
        notes = []
        if slow := self.bottleneck:
            spent = [[self.spent(t, step).seconds for step in self.steps] for _, _, t in self._all]
            longest = sum(self.steps[int(np.argmax(one))] == slow for one in spent)
            what = f"the longest step of {longest} of {len(spent)} recordings"
            notes.append(f"Bottleneck: {slow}, {what}.")
        chart, shown = self.run, "Recordings" if self.step == WHOLE else self.step
        mean, low, high = chart.mean
        text = f"{shown}: {mean:.1f} s"
        if chart.limits:
            text = f"{shown}: mean {mean:.1f} s (80 % interval {low:.1f} to {high:.1f})"
            text += "; control limits {:.1f} to {:.1f} s".format(*chart.limits)
            out = [point.name for point in chart.points if chart.outside(point)]
            text += f"; outside: {', '.join(out[:8]) or 'none'}"
        notes.append(f"{text}.")
        if len(chart.points) == 1:
            notes.append(f"One {self.by} only: it has no spread and no control limits.")
        elif len(chart.points) < FEW:
            notes.append(f"Control limits from {len(chart.points)} points are uncertain.")
        if self.takt is not None:
            above = [point.name for point in chart.points if point.seconds > self.takt]
            which = f": {', '.join(above[:8])}" if above else ""
            notes.append(
                f"Above the takt of {self.takt:g} s: {len(above)} of {len(chart.points)}{which}."
            )
        if self.confirmed is not None and self.confirmed < 100:
            notes.append(f"A person confirmed {self.confirmed:.0f} % of the time of the steps.")
            notes.append(error_note(self.labelled))
        if any(timeline.duration is None for _, _, timeline in self._all):
            notes.append("A video of unknown length is assumed to end with its last label.")
        return notes

    # ---------- files

    def save(self, path: AnyPath) -> None:
        """Write the table of steps; as .xlsx also recordings, run chart and stacked bars."""
        if check_table(path) != "xlsx":
            self.per_step.save(path)
            return
        chart = self.run
        low, high = chart.limits or (None, None)
        lines = [
            [*point, chart.mean[0], low, high, self.takt, int(chart.outside(point))]
            for point in chart.points
        ]
        head = [self.by, "recordings", "seconds", "from s", "to s", "confirmed %", "mean s"]
        bars = [
            [group, step, self.classes.get(step), *figures]
            for group, parts in self.stacks.items()
            for step, *figures in parts
        ]
        each, steps = self.per_recording, self.per_step
        sheets: dict[str, Sequence[Sequence[Any]]] = {
            "steps": [steps.columns, *steps.rows],
            "recordings": [each.columns, *each.rows],
            "run chart": [[*head, "lower s", "upper s", "takt s", "outside"], *lines],
            "stacked bars": [["group", "step", "class", "mean s", "from s", "to s"], *bars],
            "about": [[note] for note in self.notes],
        }
        write_bytes(path, to_sheets(sheets))

    def to_json(self) -> dict[str, Any]:
        run = self.run
        return {
            "columns": self.per_step.columns,
            "rows": self.per_step.rows,
            "points": [{**one._asdict(), "outside": run.outside(one)} for one in run.points],
            "mean": run.mean[0],
            "limits": run.limits,
            "takt": self.takt,
            "stacks": self.stacks,
            "bottleneck": self.bottleneck,
            "notes": self.notes,
        }

    @drawn_with(FIXED)
    def draw(self) -> Any:
        """Draw the run chart above the stacked bars; return the matplotlib figure."""
        from matplotlib.figure import Figure

        stacks, points = self.stacks, self.run.points
        size = (8, 5 + 0.5 * len(stacks))
        figure = Figure(figsize=size, layout="constrained", facecolor="white")
        above, below = figure.subplots(2, height_ratios=(3, 1 + 0.5 * len(stacks)))
        self._draw_run(above, points)
        self._draw_stacks(below)
        return figure

    def _draw_run(self, ax: Any, points: Sequence[Point]) -> None:
        chart, places = self.run, range(len(points))
        values = [point.seconds for point in points]
        errors = [[p.seconds - p.low for p in points], [p.high - p.seconds for p in points]]
        ax.errorbar(places, values, errors, color="#4477aa", ecolor="#bbccdd", marker="o", ms=4)
        out = [place for place in places if chart.outside(points[place])]
        ax.plot(out, [values[place] for place in out], "o", ms=8, mfc="none", color="#cc3311")
        lines = [("mean", chart.mean[0], "#555555", "-")]
        lines += [("limit", limit, "#cc3311", "--") for limit in chart.limits or ()]
        lines += [("takt", self.takt, "#117733", "-.")] if self.takt is not None else []
        for name, value, paint, style in lines:
            ax.axhline(value, color=paint, ls=style, lw=1)
            # the takt may be near another line
            at, apart = ((0, (4, 3)), (1, (4, -3)))[name != "takt"]
            where: Any = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points"}
            text = f"{name} {value:.1f}"
            ax.annotate(text, (at, value), apart, color=paint, fontsize=8, **where)
        every = max(1, len(points) // 12)
        names = [point.name[-LONGEST:] for point in points[::every]]
        ax.set_xticks(places[::every], names, rotation=30, ha="right", fontsize=8)
        of = "" if self.step == WHOLE else f"{self.step}, "
        ax.set(ylabel="seconds", title=f"{of}seconds per {self.by}")

    def _draw_stacks(self, ax: Any) -> None:
        paints = {step: colour(number) for number, step in enumerate(self.steps)}
        if self.classes:
            paints = {s: CLASS_COLOURS.get(self.classes.get(s, ""), "#999999") for s in self.steps}
        longest = max(sum(mean for _, mean, *_ in parts) for parts in self.stacks.values())
        for row, parts in enumerate(self.stacks.values()):
            left = 0.0
            for step, mean, *_ in parts:
                paint = paints.get(step, BACKGROUND_COLOUR)
                ax.barh(row, mean, left=left, height=0.7, color=paint, edgecolor="white")
                most = int(LETTERS * mean / longest)
                name = step if len(step) <= most else f"{step[: most - 1]}…"
                style: Any = {"ha": "center", "va": "center", "fontsize": 7, "color": ink(paint)}
                if most > 3:
                    ax.text(left + mean / 2, row, f"{name}\n{mean:.1f}", **style)
                left += mean
        if self.takt is not None and self.step == WHOLE:
            ax.axvline(self.takt, color="#117733", ls="-.", lw=1)
        ax.set_yticks(range(len(self.stacks)), [name[-LONGEST:] for name in self.stacks])
        ax.invert_yaxis()
        ax.set(xlabel="mean seconds per recording")
        if self.classes:
            marks = [ax.barh(0, 0, color=paint) for paint in CLASS_COLOURS.values()]
            ax.figure.legend(marks, [*CLASS_COLOURS], loc="outside lower center", ncols=3)


def _quartiles(done: Sequence[Spent]) -> list[Cell]:
    """Median with its 80 % interval, quartiles and standard deviation over recordings."""
    if not done:
        return [None] * 6
    seconds = [one.seconds for one in done]
    first, middle, third = np.percentile(seconds, (25, 50, 75)).tolist()
    deviation = float(np.std(seconds, ddof=1)) if len(done) > 1 else None
    ends: list[Cell] = [None, None]  # one recording says nothing of others
    if len(done) > 1 or done[0].low < done[0].high:
        ends = [*median_range(done)]
    return [middle, *ends, first, third, deviation]


def median_range(done: Sequence[Spent]) -> tuple[float, float]:
    """At least 80 % interval: order statistics, of the lower and upper bounds of recordings."""
    from scipy.special import bdtr  # of the binomial distribution

    rank = next(k for k in range(1, len(done) + 1) if bdtr(k, len(done), 0.5) >= 0.1)
    return sorted(one.low for one in done)[rank - 1], sorted(one.high for one in done)[-rank]


def _mean(figures: Sequence[Sequence[float]]) -> tuple[float, float, float]:
    """Mean of (measured, low, high) with its 80 % interval over recordings."""
    from scipy.special import stdtrit  # Student's t

    mean, low, high = np.mean(figures, axis=0).tolist()
    if len(figures) == 1:
        return mean, low, high
    error = np.std([one[0] for one in figures], ddof=1) / np.sqrt(len(figures))
    apart = float(stdtrit(len(figures) - 1, 0.9) * error)
    return mean, max(low - apart, 0.0), high + apart


def _confirmed(done: Sequence[Spent]) -> float | None:
    total = sum(one.seconds for one in done)
    sure = [one.confirmed for one in done if one.confirmed is not None]
    return 100 * sum(sure) / total if sure and total else None


def _shift(when: datetime) -> str:
    """
    >>> _shift(datetime(2026, 3, 31, 5, 59)), _shift(datetime(2026, 3, 31, 6, 5))
    ('2026-03-30 22:00', '2026-03-31 06:00')
    """
    starts = [hour for hour in SHIFTS if hour <= when.hour]
    day = when if starts else when - timedelta(days=1)
    return f"{day:%Y-%m-%d} {(starts or SHIFTS)[-1]:02d}:00"
