"""Check: what a video misses, repeats, does out of order, too quickly or slowly, and what in it matches no step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from scipy.special import ndtr

from stepcut.checking.calibrate import Expectations
from stepcut.checking.evidence import KINDS, Sign, find_untimely, likeness
from stepcut.checking.observe import Floats, Observed, observe
from stepcut.order.orders import Labels, counted, name_of
from stepcut.timeline import clock

NOTABLE = 0.05
"""In a video that is called wrong, a sign with a smaller chance than this is worth a line; the strongest always is."""
DIM, CLEAR = 0.01, 0.25
"""A step in the cut that is less clear than in this share of the videos that do it is doubtful; so is one that is not
in the cut and yet clearer than in that share of them."""


@dataclass(frozen=True)
class Finding:
    """One deviation: what, when (seconds), which step, how sure, and why, in words."""

    kind: str
    """missed, misordered, extra, unusual or unknown."""
    start: float
    end: float
    step: int | None
    name: str
    confidence: float
    reason: str

    def to_json(self) -> dict[str, Any]:
        """A JSON-able object."""
        return {
            "kind": self.kind,
            "start": round(self.start, 3),
            "end": round(self.end, 3),
            "step": self.step,
            "name": self.name,
            "confidence": round(self.confidence, 3),
            "reason": self.reason,
        }

    def __str__(self) -> str:
        return f"{clock(self.start)}  {self.kind:<10}  {self.reason} ({self.confidence:.0%} sure)"


@dataclass(frozen=True)
class StepSeen:
    """One step of the procedure in one video."""

    step: int
    name: str
    seen: str
    """`seen`, `not seen`, or `doubtful` (the cut and the looks of the frames disagree)."""
    times: tuple[tuple[float, float], ...]
    """When it was done, (start, end) in seconds."""
    share_of_videos: float
    """How many of the videos learned from do it, from 0 to 1."""

    def to_json(self) -> dict[str, Any]:
        """A JSON-able object."""
        times = [[round(start, 3), round(end, 3)] for start, end in self.times]
        return {**asdict(self), "times": times, "share_of_videos": round(self.share_of_videos, 4)}

    def __str__(self) -> str:
        when = ", ".join(f"{clock(start)} to {clock(end)}" for start, end in self.times) or "–"
        return f"{self.seen:<9} {self.name}  {when}  ({self.share_of_videos:.0%} of the videos do it)"


@dataclass(frozen=True)
class Report:
    """What `check` found in one video; `ok` when nothing goes beyond what normal videos show."""

    video: str
    seconds: float
    findings: list[Finding]
    """The reasons, the strongest first."""
    score: float
    """All evidence in one number, from 0 to 2: above 1 is an alarm."""
    steps: list[StepSeen]
    """Every step of the procedure, whether or not anything is wrong with it."""
    task_distance: float
    """How far the video is from this task; above 1 it shows another one."""
    false_alarms: float
    """The share of normal videos that may be called wrong, as asked for when the procedure was learned."""
    promised: float = 0.0
    """The share that the limit is set for; more than was asked for where the videos were too few to tell."""
    learned: int = 0
    """How many videos the procedure was learned from."""
    critical: tuple[str, ...] = ()
    """Critical steps that were not seen: an alarm whatever the score."""

    @property
    def ok(self) -> bool:
        """Whether the video is as normal videos are."""
        return self.score <= 1 and not self.other_task and not self.critical

    @property
    def other_task(self) -> bool:
        """Whether the video does not show the task that was learned."""
        return self.task_distance > 1

    @property
    def exit_code(self) -> int:
        """0 fine, 1 deviations, 3 another task."""
        return 3 if self.other_task else 0 if self.ok else 1

    @property
    def missed(self) -> list[Finding]:
        """Steps that were not done."""
        return self._of("missed")

    @property
    def extra(self) -> list[Finding]:
        """Steps done more often than in the videos that were learned from."""
        return self._of("extra")

    @property
    def misordered(self) -> list[Finding]:
        """Steps done before something that must precede them."""
        return self._of("misordered")

    @property
    def unusual(self) -> list[Finding]:
        """Steps that took unusually short or long; also the whole video, with no step named."""
        return self._of("unusual")

    @property
    def unknown(self) -> list[Finding]:
        """Stretches that match no known step."""
        return self._of("unknown")

    @property
    def summary(self) -> str:
        """One sentence."""
        name = self.video or "this video"
        if self.other_task:
            return f"{name}: this is not the task that was learned."
        unseen = [step.name for step in self.steps if step.seen != "seen" and step.share_of_videos > 0.5]
        if self.ok:
            within = f"; not clearly seen: {', '.join(unseen)}" if unseen else ""
            return f"{name}: fine, within what normal videos show{within}."
        counts = [f"{len(self._of(kind))} {kind}" for kind in KINDS if self._of(kind)]
        return f"{name}: {', '.join(counts)}."

    @property
    def note(self) -> str:
        """What limits the report: that fewer false alarms were asked for than so few videos can promise; or nothing."""
        if self.promised <= self.false_alarms:
            return ""
        return (
            f"With {counted(self.learned)} the rate of false alarms cannot be set below {self.promised:.0%} "
            f"({self.false_alarms:.0%} was asked for); learn from more videos."
        )

    def to_json(self) -> dict[str, Any]:
        """A JSON-able object: what `stepcut check --json` prints."""
        return {
            "video": self.video,
            "seconds": round(self.seconds, 3),
            "ok": self.ok,
            "score": round(self.score, 4),
            "summary": self.summary,
            "other_task": self.other_task,
            "task_distance": round(self.task_distance, 4),
            "false_alarms": self.false_alarms,
            "promised": round(self.promised, 4),
            "note": self.note,
            "steps": [step.to_json() for step in self.steps],
            **{kind: [finding.to_json() for finding in self._of(kind)] for kind in KINDS},
        }

    def __repr__(self) -> str:
        return f"<Report {self.summary}>"

    def __str__(self) -> str:
        note = [f"  ({self.note})"] if self.note else []
        return "\n".join([self.summary, *(f"  {part}" for part in (*self.findings, *self.steps)), *note])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{clock(f.start)}</td><td>{f.kind}</td><td>{escape(f.reason)}</td><td>{f.confidence:.0%}</td></tr>"
            for f in self.findings
        )
        head = "<tr><th>time</th><th>what</th><th>why</th><th>sure</th></tr>"
        table = f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>" if rows else ""
        steps = "".join(f"<li>{escape(str(step))}</li>" for step in self.steps)
        note = f"<p>{self.note}</p>" if self.note else ""
        return f"<p><b>{'✓' if self.ok else '✗'}</b> {escape(self.summary)}</p>{table}<ul>{steps}</ul>{note}"

    def _of(self, kind: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.kind == kind]


def check_labels(
    labels: Labels,
    rate: float,
    expectations: Expectations,
    memberships: Floats | None = None,
    novelty: Floats | None = None,
    names: Sequence[str] = (),
    video: str = "",
    embedding: Floats | None = None,
) -> Report:
    """Compare the cut of one video with what is expected.

    labels        the step of each row, (T,), -1 for none
    rate          rows per second
    expectations  what is usual, from `learn_expectations`
    memberships   (T, K); without them a step that is not in the cut is never doubtful
    novelty       (T,); without it nothing is said of unknown stretches
    names         the names of the steps, by number
    video         the name of the video
    embedding     (T, p); without it another task is not told
    """
    shown = observe(labels, rate, memberships, novelty, embedding)
    signs = expectations.signs(shown)
    worth = expectations.worths(shown, signs)
    score, distance = expectations.score(worth), expectations.task.distance(shown)
    steps = _steps(shown, expectations, names)
    critical = tuple(one.name for one in steps if one.step in expectations.severity.critical and one.seen == "not seen")
    loud: list[Sign] = []
    if score > 1 or critical or distance > 1:
        exchanged = any(sign.kind == "misordered" and sign.chance < NOTABLE for sign in signs)
        if not exchanged and worth["timing"] == max(worth.values()):
            chance, free = float(ndtr(-worth["timing"])), expectations.severity.free
            signs += find_untimely(shown, expectations.usual, chance, free)
        ranked = sorted(signs, key=lambda sign: (-_worth(sign, worth), sign.chance))
        always = [s for s in ranked if s.kind == "missed" and s.step in expectations.severity.critical]
        loud = [s for s in ranked if s.chance < NOTABLE or s in always] or ranked[:1]
    return Report(
        video=video,
        seconds=shown.seconds,
        findings=[_finding(sign, shown, expectations, names) for sign in loud],
        score=score,
        steps=steps,
        task_distance=distance,
        false_alarms=expectations.false_alarms,
        promised=expectations.promised,
        learned=expectations.usual.graph.videos,
        critical=critical,
    )


def _worth(sign: Sign, worth: Mapping[str, float]) -> float:
    """What the way of straying that a sign belongs to adds to the total."""
    if sign.kind == "misordered" and not sign.others:
        return worth["timing"]
    return worth["length" if sign.kind == "unusual" and sign.step is None and sign.how == "short" else sign.kind]


def _steps(shown: Observed, expectations: Expectations, names: Sequence[str]) -> list[StepSeen]:
    usual, found = expectations.usual, []
    for step in usual.graph.steps:
        times = tuple((one.start, one.end) for one in shown.occurrences if one.step == step)
        alike = likeness(shown, step, usual)
        seen = "seen" if times else "not seen"
        if shown.peaks is not None and (alike < DIM if times else alike > CLEAR):
            seen = "doubtful"
        share = usual.graph.occurs[step] / usual.graph.videos
        found.append(StepSeen(step, name_of(step, names), seen, times, share))
    return found


def _finding(sign: Sign, shown: Observed, expectations: Expectations, names: Sequence[str]) -> Finding:
    name = "" if sign.step is None else name_of(sign.step, names)
    reason = _reason(sign, shown, expectations, name, names)
    return Finding(sign.kind, sign.start, sign.end, sign.step, name, 1 - sign.chance, reason)


def _reason(sign: Sign, shown: Observed, expectations: Expectations, name: str, names: Sequence[str]) -> str:
    usual = expectations.usual
    graph = usual.graph
    if sign.kind == "unknown":
        return f"{sign.end - sign.start:.0f} s match no known step"
    if sign.step is None:
        middle = _seconds(math.exp(usual.length.middle))
        return f"the video took {_seconds(sign.measure)}, unusually {sign.how}; {middle} is usual"
    if sign.kind == "missed":
        reason = f"{name} was not done; {graph.occurs[sign.step]} of {counted(graph.videos)} do it"
        later = [d.step for d in shown.occurrences if d.start == sign.start and d.step in graph.after(sign.step)]
        return f"{reason}, before {name_of(later[0], names)}" if later else reason
    if sign.kind == "misordered":
        if not sign.others:
            when, usually = sign.measure, usual.times[sign.step]
            return f"{name} was done {sign.how}, at {when:.0%} of the video; {usually:.0%} is usual"
        others = " and ".join(name_of(step, names) for step in sign.others)
        kept, together = _support(expectations, sign)
        said = f"({kept} of {counted(together)} keep to this)"
        if sign.how == "early":
            return f"{name} was done before {others}, which must precede it {said}"
        return f"{name} was done only after {others}, which it must precede {said}"
    if sign.kind == "extra":
        fewer = sum(times < sign.measure for times in graph.times[sign.step])
        return (
            f"{name} was done {sign.measure:.0f} times; {fewer} of {counted(graph.occurs[sign.step])} do it less often"
        )
    middle = _seconds(math.exp(usual.paces[sign.step].middle))
    return f"{name} took {_seconds(sign.measure)}, unusually {sign.how}; {middle} is usual"


def _support(expectations: Expectations, sign: Sign) -> tuple[int, int]:
    """How many videos keep the least kept of the relations, of those that do both steps."""
    first, step = expectations.usual.graph.first, sign.step or 0
    pairs = [(other, step) if sign.how == "early" else (step, other) for other in sign.others]
    kept, swapped = min((first.get((a, b), 0), first.get((b, a), 0)) for a, b in pairs)
    return kept, kept + swapped


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
