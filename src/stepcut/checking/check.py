"""Check: what a video misses, repeats, does out of order, too quickly or slowly, and what in it matches no step."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from stepcut.checking.calibrate import Expectations
from stepcut.checking.evidence import KINDS, Floats, Seen, Sign, look
from stepcut.order.orders import Labels, counted, name_of
from stepcut.timeline import clock

MINOR = math.log(2)
"""Within a kind that alarms, a sign below this surprise (seen in half of all videos) is not worth a line."""


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
class Report:
    """What `check` found in one video; `ok` when nothing goes beyond what normal videos show."""

    video: str
    seconds: float
    findings: list[Finding]
    score: float
    """The greatest excess of any kind over its limit: above 1 is an alarm."""
    excess: dict[str, float]
    """The same for each kind."""
    strange: float
    """The share of the video that matches no known step."""
    false_alarms: float
    """The share of normal videos that may be called wrong, as asked for when the procedure was learned."""
    promised: float = 0.0
    """The share that the limits are set for; more than was asked for where the videos were too few to tell."""
    learned: int = 0
    """How many videos the procedure was learned from."""

    @property
    def ok(self) -> bool:
        """Whether the video is as normal videos are."""
        return self.score <= 1

    @property
    def missed(self) -> list[Finding]:
        """Steps that were not done."""
        return self._of("missed")

    @property
    def extra(self) -> list[Finding]:
        """Steps done more often than in any video that was learned from."""
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
        if self.ok:
            return f"{name}: fine, within what normal videos show."
        counts = [f"{len(self._of(kind))} {kind}" for kind in KINDS if self._of(kind)]
        if self.strange > 0.5:
            return (
                f"{name}: {self.strange:.0%} of it matches no known step; it seems to show another task. "
                f"({', '.join(counts)})"
            )
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
            "strange": round(self.strange, 4),
            "false_alarms": self.false_alarms,
            "promised": round(self.promised, 4),
            "note": self.note,
            **{kind: [finding.to_json() for finding in self._of(kind)] for kind in KINDS},
        }

    def __repr__(self) -> str:
        return f"<Report {self.summary}>"

    def __str__(self) -> str:
        note = [f"  ({self.note})"] if self.note else []
        return "\n".join([self.summary, *(f"  {finding}" for finding in self.findings), *note])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{clock(f.start)}</td><td>{f.kind}</td><td>{escape(f.reason)}</td><td>{f.confidence:.0%}</td></tr>"
            for f in self.findings
        )
        head = "<tr><th>time</th><th>what</th><th>why</th><th>sure</th></tr>"
        table = f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>" if rows else ""
        note = f"<p>{self.note}</p>" if self.note else ""
        return f"<p><b>{'✓' if self.ok else '✗'}</b> {escape(self.summary)}</p>{table}{note}"

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
) -> Report:
    """Compare the cut of one video with what is expected: labels (T,), `rate` of them a second.

    `memberships` (T, K) and `novelty` (T,) come from the method; without them nothing is said of unknown stretches.
    """
    seen = look(labels, rate, memberships, novelty)
    signs = expectations.signs(seen)
    excess = expectations.excess(signs)
    loud = [sign for sign in signs if excess[sign.kind] > 1 and sign.surprise >= _least(sign, signs, expectations)]
    findings = [_finding(sign, seen, expectations, names) for sign in loud]
    strange = sum(sign.end - sign.start for sign in signs if sign.kind == "unknown") / max(seen.seconds, 1e-9)
    return Report(
        video=video,
        seconds=seen.seconds,
        findings=sorted(findings, key=lambda f: (f.start, KINDS.index(f.kind), f.step or 0)),
        score=max(excess.values()),
        excess=excess,
        strange=strange,
        false_alarms=expectations.false_alarms,
        promised=expectations.promised,
        learned=expectations.usual.graph.videos,
    )


def _least(sign: Sign, signs: Sequence[Sign], expectations: Expectations) -> float:
    """The least surprise worth a line: a duration must be beyond its limit by itself, the others add up."""
    if sign.kind == "unusual":
        return expectations.limits["unusual"]
    largest = max(other.surprise for other in signs if other.kind == sign.kind)
    return min(largest, 1.0 if sign.kind == "unknown" else MINOR)


def _finding(sign: Sign, seen: Seen, expectations: Expectations, names: Sequence[str]) -> Finding:
    name = "" if sign.step is None else name_of(sign.step, names)
    # Rare in nats is sure in per cent; an unknown stretch is as sure as it is longer than allowed.
    sure = 1 - math.exp(-sign.surprise)
    if sign.kind == "unknown":
        sure = sign.surprise / (sign.surprise + expectations.limits["unknown"])
    reason = _reason(sign, seen, expectations, name, names)
    return Finding(sign.kind, sign.start, sign.end, sign.step, name, sure, reason)


def _reason(sign: Sign, seen: Seen, expectations: Expectations, name: str, names: Sequence[str]) -> str:
    usual = expectations.usual
    graph = usual.graph
    if sign.kind == "unknown":
        return f"{sign.end - sign.start:.0f} s match no known step"
    if sign.step is None:
        middle = _seconds(math.exp(usual.length.middle))
        return f"the video took {_seconds(sign.measure)}, unusually {sign.how}; {middle} is usual"
    if sign.kind == "missed":
        reason = f"{name} was not done; {graph.occurs[sign.step]} of {counted(graph.videos)} do it"
        later = [d.step for d in seen.occurrences if d.start == sign.start and d.step in graph.after(sign.step)]
        return f"{reason}, before {name_of(later[0], names)}" if later else reason
    if sign.kind == "misordered":
        others = " and ".join(name_of(step, names) for step in sign.others)
        kept, together = _support(expectations, sign)
        said = f"({kept} of {counted(together)} keep to this)"
        if sign.how == "early":
            return f"{name} was done before {others}, which must precede it {said}"
        return f"{name} was done only after {others}, which it must precede {said}"
    if sign.kind == "extra":
        most = max(graph.times.get(sign.step, (1,)))
        return (
            f"{name} was done {sign.measure:.0f} times; no video does it more than {most} time{'s' if most > 1 else ''}"
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
