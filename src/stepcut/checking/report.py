"""Report: what a check found in one video, for people, programs and notebooks."""

from dataclasses import asdict, dataclass
from html import escape
from typing import Any

from stepcut.checking.evidence import KINDS
from stepcut.order.orders import counted
from stepcut.tables import data_frame
from stepcut.timeline import clock


@dataclass(frozen=True)
class Finding:
    """One deviation: what, when (seconds; for a missed step, when it was due), which step, how sure, and why."""

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
            name: round(value, 3) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }

    def __str__(self) -> str:
        when = f"{clock(self.start)} to {clock(self.end)}"
        return f"{when}  {self.kind:<10}  {self.reason} ({self.confidence:.0%} sure)"


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
    """In how many of the videos learned from it is found, 0 to 1; without labels each is cut as if it were new."""

    def to_json(self) -> dict[str, Any]:
        """A JSON-able object."""
        times = [[round(start, 3), round(end, 3)] for start, end in self.times]
        return {**asdict(self), "times": times, "share_of_videos": round(self.share_of_videos, 4)}

    def __str__(self) -> str:
        return self._line(self.name)

    def _repr_html_(self) -> str:
        return self._line(
            f"<bdi>{escape(self.name)}</bdi>"
        )  # by itself: it may be written from right to left

    def _line(self, name: str) -> str:
        when = ", ".join(f"{clock(start)} to {clock(end)}" for start, end in self.times) or "–"
        return f"{self.seen:<9} {name}  {when}  (found in {self.share_of_videos:.0%} of the videos)"


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
    """How many of the videos that the procedure was learned from count as normal: what is promised rests on these."""
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
        """Steps that were not done, or less often than is usual."""
        return self._of("missed")

    @property
    def extra(self) -> list[Finding]:
        """Steps done more often than in the videos that were learned from."""
        return self._of("extra")

    @property
    def misordered(self) -> list[Finding]:
        """Steps done before what must precede them, after what they must precede, or far from their usual time."""
        return self._of("misordered")

    @property
    def unusual(self) -> list[Finding]:
        """Steps that took unusually short or long; the whole video, or where it is least like others, with no step."""
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
        unseen = [
            step.name for step in self.steps if step.seen != "seen" and step.share_of_videos > 0.5
        ]
        if self.ok:
            within = f"; not clearly seen: {', '.join(unseen)}" if unseen else ""
            return f"{name}: fine, within what normal videos show{within}."
        counts = [f"{len(self._of(kind))} {kind}" for kind in KINDS if self._of(kind)]
        return f"{name}: {', '.join(counts)}."

    @property
    def note(self) -> str:
        """What limits the report: that fewer false alarms were asked for than so few videos can promise; or nothing."""
        if round(self.promised, 2) <= self.false_alarms:
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

    def to_pandas(self) -> Any:
        """A pandas DataFrame with a row per step: video, step, seen, times, seconds, share_of_videos, findings."""
        columns = ("video", "step", "seen", "times", "seconds", "share_of_videos", "findings")
        rows = []
        for one in self.steps:
            kinds = ", ".join(finding.kind for finding in self.findings if finding.step == one.step)
            seconds = sum(end - start for start, end in one.times)
            rows.append(
                (
                    self.video,
                    one.name,
                    one.seen,
                    len(one.times),
                    seconds,
                    one.share_of_videos,
                    kinds,
                )
            )
        return data_frame(columns, rows)

    def __repr__(self) -> str:
        return f"<Report {self.summary}>"

    def __str__(self) -> str:
        note = [f"  ({self.note})"] if self.note else []
        return "\n".join(
            [self.summary, *(f"  {part}" for part in (*self.findings, *self.steps)), *note]
        )

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{clock(f.start)}</td><td>{f.kind}</td><td>{escape(f.reason)}</td><td>{f.confidence:.0%}</td></tr>"
            for f in self.findings
        )
        head = "<tr><th>time</th><th>what</th><th>why</th><th>sure</th></tr>"
        table = f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>" if rows else ""
        steps = "".join(f"<li>{step._repr_html_()}</li>" for step in self.steps)
        note = f"<p>{self.note}</p>" if self.note else ""
        return f"<p><b>{'✓' if self.ok else '✗'}</b> {escape(self.summary)}</p>{table}<ul>{steps}</ul>{note}"

    def _of(self, kind: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.kind == kind]
