"""The report of a check, as text, JSON, HTML and a pandas table."""

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from html import escape
from typing import Any

from stepcut.files.names import Fragment
from stepcut.tables import Cell, Table, data_frame
from stepcut.timeline import clock

# `input`: the video cannot be judged
KINDS = ("missed", "misordered", "extra", "unusual", "unknown", "rule", "input")
# How copies of reference videos are altered to measure detection rates
FAULTS = {
    "step": "missing step",
    "half": "missing half",
    "exchange": "exchanged steps",
    "slow": "half speed",
    "frozen": "frozen picture",
}
# of `stepcut check`, by verdict
EXIT_CODES = {"fine": 0, "deviations": 1, "error": 2, "another task": 3, "inconclusive": 4}
SEEN, UNSEEN = 0.75, 0.25  # steps at or above are seen, below not seen
NEVER = 2.0
MIN_DETECTION = 0.5
Accepted = tuple[str, int | None, str]  # kind, step, and the video if there is no step


@dataclass(frozen=True)
class Finding:
    """One deviation. For a missed step, `start` and `end` give the time at which it was due.

    Examples
    --------
    >>> proc.check(new).findings[0].kind
    'missed'
    """

    kind: str
    """missed, misordered, extra, unusual, unknown, rule or input."""
    start: float
    end: float
    step: int | None
    name: str
    confidence: float
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return all fields as JSON values."""
        times = {key: round(getattr(self, key), 3) for key in ("start", "end", "confidence")}
        return asdict(self) | times

    def __str__(self) -> str:
        when = f"{clock(self.start)} to {clock(self.end)}"
        return f"{when}  {self.kind:<10}  {self.reason} (confidence {self.confidence:.0%})"


@dataclass(frozen=True)
class StepSeen:
    """One step of the procedure in one video.

    Examples
    --------
    >>> proc.check(new).steps[0].seen
    'not seen'
    """

    step: int
    name: str
    probability: float
    """Calibrated probability that the step was done, at prior odds of 1."""
    times: tuple[tuple[float, float], ...]
    """Segments of the step, (start, end) in seconds."""
    share_of_videos: float
    """Share of the training videos that show the step, 0 to 1."""
    alarm_at: float = NEVER
    """Probability of being missing at which the step raises an alarm by itself; above 1, never."""

    @property
    def seen(self) -> str:
        """The probability in words: `seen`, `not sure` or `not seen`."""
        return word_for(self.probability)

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON values, with `seen`."""
        return {
            "step": self.step,
            "name": self.name,
            "probability": round(self.probability, 4),
            "seen": self.seen,
            "times": [[round(start, 3), round(end, 3)] for start, end in self.times],
            "share_of_videos": round(self.share_of_videos, 4),
        }

    def __str__(self) -> str:
        return self._line(self.name)

    def _line(self, name: str) -> str:
        when = ", ".join(f"{clock(start)} to {clock(end)}" for start, end in self.times) or "–"
        return f"{self.seen:<8} {self.probability:>4.0%}  {name}  {when}"


@dataclass(frozen=True)
class Report:
    """Result of checking one video; `ok` is true only for the verdict `fine`.

    Examples
    --------
    >>> report = proc.check(new)
    >>> report.ok, report.exit_code
    (False, 1)
    >>> [(step.name, step.seen) for step in report.steps]
    [('spread butter', 'not seen'), ('cut bread', 'seen'), ('add jam', 'seen')]
    """

    video: str
    seconds: float
    findings: list[Finding]
    """Deviations, strongest first."""
    score: float
    """All evidence in one number from 0 to 2; above 1 is an alarm."""
    steps: list[StepSeen]
    """Every step of the procedure, least likely first."""
    task_distance: float
    """Distance from the learned task; above 1, the video shows another task."""
    false_alarms: float
    """Share of normal videos that may raise an alarm, as set when the procedure was learned."""
    promised: float = 0.0
    """False-alarm rate of the limit; above `false_alarms` with too few videos."""
    alarms: tuple[str, ...] = ()
    """Steps that raise an alarm by themselves: invariant or critical, or beyond `alarm_at`."""
    detection: Mapping[str, float] = field(default_factory=dict)
    """Expected detection rate of each kind of fault, such as `missing step`."""
    invariant: tuple[str, ...] = ()
    """Steps that every reference video shows."""
    must_find: str = "step"
    """The fault whose detection rate decides whether a video can be fine."""
    min_detection: float = MIN_DETECTION
    """Below this detection rate, a video without deviations is inconclusive; 0 switches it off."""
    remedy: str = ""
    """What would make the check conclusive."""
    note: str = ""
    """Warnings: too few videos for the false-alarm rate, videos set aside, what cannot be seen."""

    @property
    def missed(self) -> list[Finding]:
        """Steps that are missing, or done less often than usual."""
        return self._of("missed")

    @property
    def extra(self) -> list[Finding]:
        """Steps that are done more often than in the training videos."""
        return self._of("extra")

    @property
    def misordered(self) -> list[Finding]:
        """Steps that are done in the wrong order, or far from their usual time."""
        return self._of("misordered")

    @property
    def unusual(self) -> list[Finding]:
        """Steps, parts or a whole video of unusual duration or appearance."""
        return self._of("unusual")

    @property
    def unknown(self) -> list[Finding]:
        """Parts of the video that match no step."""
        return self._of("unknown")

    @property
    def unseen(self) -> list[str]:
        """Steps of most videos that were not seen, whether that raises an alarm or not."""
        return [s.name for s in self.steps if s.seen == "not seen" and s.share_of_videos > 0.5]

    @property
    def other_task(self) -> bool:
        """Whether the video shows another task."""
        return self.task_distance > 1

    @property
    def deviates(self) -> bool:
        """Whether a deviation was found."""
        return self.score > 1 or self.other_task or bool(self.alarms) or bool(self._of("rule"))

    @property
    def verdict(self) -> str:
        """`fine`, `inconclusive`, `deviations` or `another task`."""
        if self.deviates:
            return "another task" if self.other_task else "deviations"
        return "inconclusive" if self._doubt else "fine"

    @property
    def ok(self) -> bool:
        """Whether the video is fine: no deviation was found, and the check would have found one."""
        return self.verdict == "fine"

    @property
    def inconclusive(self) -> bool:
        """Whether no deviation was found, but the check is blind or did not see a step."""
        return self.verdict == "inconclusive"

    @property
    def exit_code(self) -> int:
        """Exit code of `stepcut check`, from `EXIT_CODES`."""
        return EXIT_CODES[self.verdict]

    @property
    def _blind(self) -> bool:
        rate = self.detection.get(FAULTS[self.must_find], -1.0)
        return self.min_detection > 0 and rate < self.min_detection

    @property
    def _doubt(self) -> str:
        if camera := self._of("input"):
            return f"{camera[0].reason} from {clock(camera[0].start)}{self._unseen}"
        lacking = ", ".join(
            one.name
            for one in self.steps
            if one.name in self.invariant and one.seen == "not seen" and one.alarm_at <= 1
        )
        if lacking:
            return f"{lacking} not seen, which every reference video shows"
        if not self._blind:
            return ""
        fault = FAULTS[self.must_find]
        return (
            f"only {self.detection.get(fault, 0.0):.0%} of such faults ({fault}) would be found, "
            f"{self.min_detection:.0%} are needed{self._unseen}"
        )

    @property
    def _unseen(self) -> str:
        return f"; not seen: {', '.join(self.unseen)}" if self.unseen else ""

    @property
    def power(self) -> str:
        """The detection rates in one sentence."""
        step, *others = FAULTS.values()
        if step not in self.detection:
            return "The detection rate is unknown: the procedure was learned from too few videos."
        rates = [f"{kind} {self.detection[kind]:.0%}" for kind in others if kind in self.detection]
        more = f" ({', '.join(rates)})" if rates else ""
        return f"A missing step would be found in {self.detection[step]:.0%} of cases{more}."

    @property
    def outcome(self) -> str:
        """What to say of a video without deviations."""
        if self._doubt:
            return f"inconclusive, {self._doubt}"
        return f"no deviation found{self._unseen}"

    @property
    def summary(self) -> str:
        """One or two sentences."""
        name = self.video or "this video"
        if self.other_task:
            return f"{name}: this is not the task that was learned."
        if not self.deviates:
            remedy = f" To make it conclusive: {self.remedy}." if self._blind else ""
            return f"{name}: {self.outcome}. {self.power}{remedy}"
        counts = [f"{len(self._of(kind))} {kind}" for kind in KINDS if self._of(kind)]
        return f"{name}: {', '.join(counts)}."

    def in_file(self) -> "Report":
        """Return the report of a part of a file in the time of the file."""
        later = Fragment.of(self.video).start
        if not later:
            return self
        findings = [
            replace(one, start=one.start + later, end=one.end + later) for one in self.findings
        ]
        steps = [
            replace(step, times=tuple((start + later, end + later) for start, end in step.times))
            for step in self.steps
        ]
        return replace(self, findings=findings, steps=steps)

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values, as `stepcut check --json` prints it."""
        names = "video verdict ok summary other_task false_alarms note min_detection power"
        figures = {"seconds": 3, "score": 4, "task_distance": 4, "promised": 4}
        return {
            **{name: getattr(self, name) for name in names.split()},
            **{name: round(getattr(self, name), digits) for name, digits in figures.items()},
            "detection": {kind: round(share, 4) for kind, share in self.detection.items()},
            "conclusive": not self._doubt,
            "remedy": self.remedy if self._blind else "",
            "steps": [step.to_json() for step in self.steps],
            **{kind: [finding.to_json() for finding in self._of(kind)] for kind in KINDS},
        }

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame with one row per step, least likely first."""
        columns = "video step probability seen times seconds share_of_videos findings"
        rows = []
        for one in self.steps:
            kinds = ", ".join(finding.kind for finding in self.findings if finding.step == one.step)
            seconds = sum(end - start for start, end in one.times)
            seen = one.name, one.probability, one.seen, len(one.times), seconds
            rows.append((self.video, *seen, one.share_of_videos, kinds))
        return data_frame(columns.split(), rows)

    def __repr__(self) -> str:
        return f"<Report {self.summary}>"

    def __str__(self) -> str:
        parts = [*self.findings, *self.steps, *self._notes(f"({self.note})")]
        return "\n".join([self.summary, *(f"  {part}" for part in parts)])

    def _notes(self, note: str) -> list[str]:
        """The summary of videos without deviations has the power already."""
        return [*([self.power] if self.deviates else []), *([note] if self.note else [])]

    def _repr_html_(self) -> str:
        found: list[list[Cell]] = [
            [clock(one.start), one.kind, one.reason, f"{one.confidence:.0%}"]
            for one in self.findings
        ]
        columns = ["time", "what", "why", "confidence"]
        table = Table(columns, found)._repr_html_() if found else ""
        # Names may be right-to-left.
        lines = [step._line(f"<bdi>{escape(step.name)}</bdi>") for step in self.steps]
        steps = "".join(f"<li>{line}</li>" for line in lines)
        note = "".join(f"<p>{text}</p>" for text in self._notes(self.note))
        mark = "✓" if self.ok else "✗" if self.deviates else "?"
        return f"<p><b>{mark}</b> {escape(self.summary)}</p>{table}<ul>{steps}</ul>{note}"

    def _of(self, kind: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.kind == kind]


def word_for(probability: float) -> str:
    return "seen" if probability >= SEEN else "not seen" if probability < UNSEEN else "not sure"


def is_accepted(accepted: Collection[Accepted], kind: str, step: int | None, video: str) -> bool:
    return (kind, step, "" if step is not None else video) in accepted


def without_accepted(report: Report, accepted: Collection[Accepted]) -> Report:
    """Remove accepted findings; if none is left, the report does not deviate."""

    def fine(kind: str, step: int | None) -> bool:
        return is_accepted(accepted, kind, step, report.video)

    left = [finding for finding in report.findings if not fine(finding.kind, finding.step)]
    if len(left) == len(report.findings):
        return report
    deviates = any(finding.kind not in ("rule", "input") for finding in left)
    accepted_steps = {step.name for step in report.steps if fine("missed", step.step)}
    return replace(
        report,
        findings=left,
        score=report.score if deviates else min(report.score, 1.0),
        alarms=tuple(name for name in report.alarms if any(one.name == name for one in left)),
        invariant=tuple(name for name in report.invariant if name not in accepted_steps),
    )
