"""The check of a recording that is not over yet: the current step, the next ones, alarms.

The current step is the most probable one given the past. It counts as done after a quarter of its
usual duration, and may raise an alarm after half: of `check`, with its probabilities and words.
A reading of all frames so far must show the same: it looks back, so errors of the moment raise
none. Memory is bounded: a few numbers per step, and the rows of a few usual videos.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stepcut.checking.check import (
    Sign,
    check_labels,
    duration,
    explain,
    misordered,
    missed,
    repeated,
)
from stepcut.checking.expectations import Expectations
from stepcut.checking.gate import ELSEWHERE, Camera, look_at, project
from stepcut.checking.report import Finding, Report
from stepcut.checking.rules import broken_rules
from stepcut.checking.usual import Floats, swap_chances
from stepcut.errors import FeatureError
from stepcut.features.features import check_rows
from stepcut.methods.inputs import Array
from stepcut.methods.method import Online, Reading
from stepcut.order.graph import END, next_weights
from stepcut.order.learn import Occurrence, find_occurrences
from stepcut.order.orders import counted, name_of, number_of
from stepcut.settings import check_number
from stepcut.timeline import BACKGROUND, clock

# shares of its usual duration: a step counts as done, and may raise an alarm
ENOUGH, FIRM = 0.25, 0.5
FILL = 4  # how often one row is repeated at most to fill a gap in a slow source
OVERLOOKED = 0.05  # least readiness of a step: the probability of an error about what is done
LONGEST, MEMORY = 4, 2**27  # usual videos, and bytes, of which rows are kept


@dataclass(frozen=True)
class Alert:
    """A deviation to report now.

    Examples
    --------
    >>> Alert("source", "the camera is lost").confidence
    1.0
    """

    kind: str
    """missed, misordered, extra, unusual, unknown, rule or input, as in a check; or source."""
    reason: str
    step: int | None = None
    confidence: float = 1.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"confidence": round(self.confidence, 3)}


@dataclass(frozen=True)
class State:
    """The progress at `time`, in seconds.

    Examples
    --------
    >>> state = proc.guide().push(0.0, new[0])
    >>> state.step, state.done
    (0, ())
    """

    time: float
    step: int
    """The current step; -1 for background."""
    name: str
    confidence: float
    done: tuple[int, ...]
    """Steps done so far, by when they were last done. May include the current step."""
    next: tuple[tuple[int, float], ...]
    """Possible next steps with probabilities, highest first; the rest to 1 means "none"."""
    alerts: tuple[Alert, ...] = ()
    """New alerts only; each is reported once."""
    skipped: int = 0
    """Samples skipped so far because the machine is slower than the source."""
    names: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """One line of `stepcut guide`, with the names of steps."""
        return {
            "time": round(self.time, 3),
            "step": self.step,
            "name": self.name,
            "confidence": round(self.confidence, 3),
            "done": [{"step": step, "name": name_of(step, self.names)} for step in self.done],
            "next": [
                {"step": step, "name": name_of(step, self.names), "probability": round(chance, 3)}
                for step, chance in self.next
            ],
            "alerts": [alert.to_json() for alert in self.alerts],
            "skipped": self.skipped,
        }


class Guide:
    """Takes feature rows one by one and returns a `State` for each. `proc.guide()` makes one.

    start  makes the online object of a method; `reset` calls it again
    rate   rows per second
    steps  names of the steps
    read   reads the rows so far as a check does
    shape  shape of a row; by default any shape is accepted

    Examples
    --------
    >>> guide = proc.guide()
    >>> for number, row in enumerate(new):
    ...     state = guide.push(number / guide.rate, row)
    >>> state.name, state.done
    ('add jam', (0, 2))
    >>> guide.end().alerts[-1].reason
    'spread butter was not seen (probability 0 %); 6 of 6 videos do it, before add jam'
    >>> guide.reset()
    >>> guide.correct("spread butter")
    >>> guide.push(0.0, new[0]).name
    'spread butter'
    """

    def __init__(
        self,
        start: Callable[[], Online],
        rate: float,
        expectations: Expectations,
        steps: Sequence[str],
        read: Callable[[Array], Reading],
        shape: Sequence[int] | None = None,
    ) -> None:
        self.start, self.rate, self.expectations = start, rate, expectations
        self.graph = expectations.graph.renamed(steps)
        self.steps, self.read, self.shape = tuple(steps), read, shape and tuple(shape)
        usual = expectations.usual
        paces = {s: math.exp(p.middle) / usual.usual_times(s) for s, p in usual.paces.items()}
        typical = float(np.median(list(paces.values()))) if paces else 30.0
        # Usual seconds per occurrence; the median for steps without training examples.
        self.usual = np.array([paces.get(step, typical) for step in range(len(self.steps))])
        self.room = max(2, round(math.exp(usual.length.middle) * rate))  # rows of a usual video
        self.reset()

    def reset(self) -> None:
        """Start again from the beginning."""
        self.online = self.start()
        self.rows: deque[Array] = deque()  # the newest ones
        self.pushed = 0
        # (predicted step, corrected step) until the method predicts another; -1 at the start.
        self.corrected: tuple[int, int] | None = None
        self.time = self.blind_until = -math.inf
        self.done: list[int] = []
        # Per step: seconds since it last became the current one, when that was, seconds in all.
        self.spent, self.began, self.seconds = np.zeros((3, len(self.steps)))
        self.counts = np.zeros(len(self.steps), dtype=np.int64)
        self.first: dict[int, Occurrence] = {}  # first firm occurrence of each step
        self.parts: list[Occurrence] = []  # firm occurrences, if there are rules
        self.now = self.last = BACKGROUND
        self.reported: set[tuple[str, int | None]] = set()
        # Alarms that looking back did not confirm, and after how many rows.
        self.doubted: dict[tuple[str, int | None], int] = {}

    def push(
        self, time: float, row: Array, skipped: int = 0, alerts: Sequence[Alert] = ()
    ) -> State:
        """Process the feature `row` of the frame at `time`, in seconds, which must increase.
        `skipped` and `alerts` are messages of the source, passed on with the state.
        """
        check_number("time", time, self.time, above=True)
        # A copy: the caller may reuse the array.
        row = check_rows([row], f"the row at {time:g} s")[0]
        if self.shape not in (None, row.shape):
            why = f"a row has shape {row.shape}; this procedure was learned from {self.shape}."
            raise FeatureError(why, setting="row", value=row.shape, allowed=self.shape)
        passed = 1 / self.rate if math.isinf(self.time) else time - self.time
        # The method counts time in rows, so a row that follows a gap is repeated.
        for _ in range(min(max(round(passed * self.rate), 1), FILL)):
            probabilities = self.online.push(row)
        self.time, self.pushed = time, self.pushed + 1
        belief = self._belief(np.asarray(probabilities, dtype=np.float64))
        # All steps share the probability of background; it is the current one if it is larger. A
        # method that softens probabilities says it by a label.
        lowest = float(belief.min()) if len(belief) > 1 else 0.0
        label = getattr(self.online, "label", None)
        idle = belief.max() - lowest < len(belief) * lowest if label is None else label < 0
        idle = idle and self.corrected is None
        self.now = BACKGROUND if idle else int(np.argmax(belief))
        self.rows.append(row)
        if len(self.rows) > max(2, min(LONGEST * self.room, MEMORY // row.nbytes)):
            self.rows.popleft()
        # A gap in the stream is not time spent.
        fresh = [*alerts, *self._count_time(min(passed, FILL / self.rate)), *self._other_task()]
        if self.pushed % max(self.room // 20, 1) == 0:
            fresh += self._blind()
        return self._state(
            len(belief) * lowest if idle else float(belief[self.now]), fresh, skipped
        )

    def end(self) -> State:
        """Check the whole video. The alerts name the critical steps, and the steps that every
        reference video does, that were not seen.
        """
        if not self.rows:
            return self._state(1.0, [])
        report, alerts = self._check(len(self.rows)), self._blind(ended=True)
        for one in report.missed:
            if one.name in report.alarms and one.step not in self.done:
                alerts += self._once("missed", one.reason, one.step, one.confidence)
        whole = self.pushed == len(self.rows)
        return self._state(1.0, alerts + self._broken(report.findings if whole else None, True))

    def correct(self, step: int | str) -> None:
        """Set the current step, by number or name, until the method predicts another one."""
        number = number_of(step, self.steps)
        self.corrected = (self.corrected[0] if self.corrected else self.last, number)
        self.now = self.last = number
        self.spent[number], self.began[number] = 0.0, max(self.time, 0.0)

    def finish(self) -> None:
        """Mark the current step as done, or the last one during background."""
        if self.last != BACKGROUND:
            self._count_done(self.last)
            self.spent[self.last] = max(self.spent[self.last], FIRM * self.usual[self.last])

    @property
    def expected_alarms(self) -> float:
        """False alarms to expect in a normal video: the sum of the chances that can raise one."""
        usual, rare = self.expectations.usual, self._rare
        chances = [usual.missing(step) for step in usual.occurs]
        chances += [usual.repeated(step, 1 + max(usual.repeats[step])) for step in usual.occurs]
        chances += [0.99 * rare] * len(usual.paces)  # too long
        return sum(chance for chance in chances if chance < rare)

    @property
    def note(self) -> str:
        """False alarms to expect, and alarms that so few reference videos cannot support."""
        never, number = self.expectations.usual.never, self.graph.videos
        rate = f"Expect about {self.expected_alarms:.2g} false alarms per normal video."
        kinds = {"missing": never["missed"], "repeated": never["extra"]}
        mute = " or ".join(kind for kind, chance in kinds.items() if chance >= self._rare)
        if not mute:
            return rate
        few = f"{counted(number)} {'is' if number == 1 else 'are'} too few for an alarm about a"
        advice = "" if self.expectations.severity.critical else ", or mark a step critical"
        return f"{rate} {few} {mute} step. Learn from more{advice}."

    # ---------- the current step

    def _state(self, share: float, alerts: list[Alert], skipped: int = 0) -> State:
        name = "background" if self.now == BACKGROUND else self.graph.name(self.now)
        seen = self.time, self.now, name, share, tuple(self.done), tuple(self._upcoming())
        return State(*seen, tuple(alerts), skipped, self.steps)

    def _belief(self, probabilities: Floats) -> Floats:
        belief = np.maximum(probabilities, 1e-6)
        belief /= belief.sum()
        if self.corrected is not None:
            best, (seen, corrected) = int(np.argmax(belief)), self.corrected
            seen = best if seen < 0 else seen  # a correction before the first row
            self.corrected = (seen, corrected) if best in (seen, corrected) else None
            if self.corrected:
                belief[[seen, corrected]] = np.sort(belief[[seen, corrected]])
        return belief

    def _upcoming(self) -> list[tuple[int, float]]:
        done = {step: int(self.counts[step]) for step in self.done}
        current = [] if self.last == BACKGROUND else [self.last]
        if current != self.done[-1:]:  # it counts as done, even if it is not yet
            done |= {step: done.get(step, 0) + 1 for step in current}
        weights = next_weights(self.graph, done, current, least=OVERLOOKED)
        total = sum(weight for step, weight in weights.items() if step not in current)
        likely = [(s, w / total) for s, w in weights.items() if s not in (*current, END) and w > 0]
        return sorted(likely, key=lambda pair: (-pair[1], pair[0]))

    # ---------- done steps and alarms

    def _count_time(self, passed: float) -> list[Alert]:
        step, usual = self.now, self.expectations.usual
        if step == BACKGROUND:
            return []
        if step != self.last:
            self.last, self.spent[step], self.began[step] = step, 0.0, self.time
        before = self.spent[step]
        self.spent[step] += passed
        self.seconds[step] += passed
        enough, firm = (
            before < share * self.usual[step] <= self.spent[step] for share in (ENOUGH, FIRM)
        )
        if enough:
            self._count_done(step)
        part = Occurrence(step, float(self.began[step]), self.time, float(self.spent[step]))
        signs = self._firm(part) if firm else []
        if step in usual.paces:
            longer = duration(usual.paces[step], float(self.seconds[step]), part, step)
            signs += [longer] if longer.how == "long" else []
        if self.parts and self.parts[-1].step == step:
            spent = self.parts[-1].spent + passed
            self.parts[-1] = self.parts[-1]._replace(end=self.time, spent=spent)
        elif firm and self.expectations.rules:
            self.parts.append(part)
        return [alert for sign in signs for alert in self._alarm(sign)] + self._broken()

    def _count_done(self, step: int) -> None:
        if self.done[-1:] != [step]:
            self.counts[step] += 1
        self.done = [*(other for other in self.done if other != step), step]

    def _firm(self, part: Occurrence) -> list[Sign]:
        """What a check finds now that this step was clearly done."""
        usual, severity = self.expectations.usual, self.expectations.severity
        chances, step = swap_chances(self.graph.first), part.step
        self.first.setdefault(step, part)
        swapped = misordered(self.first, chances, severity, self.graph)
        signs = [sign for sign in swapped if step in (sign.step, *sign.others)]
        if self.counts[step] > 1 and step in usual.repeats:
            signs.append(repeated(step, [part] * int(self.counts[step]), usual))
        due = self.graph.before(step) if step in self.graph.steps else set[int]()
        absent = (due & usual.occurs.keys()) - {step, *self.done}
        if step in severity.free:
            return signs
        for other in sorted(absent - severity.free - severity.optional):
            sign = missed(other, 0.0, part.start, usual)
            # It may still be done, out of order.
            chance = max(sign.chance, chances.get((other, step), 1.0))
            signs.append(sign._replace(chance=chance, others=(step,)))
        return signs

    def _alarm(self, sign: Sign) -> list[Alert]:
        """Raise an alarm if the sign is rare in normal videos, or a critical step is due."""
        key, critical = (sign.kind, sign.step), self.expectations.severity.critical
        always = sign.kind == "missed" and sign.step in critical
        if (sign.chance >= self._rare and not always) or key in self.reported:
            return []
        # A step that stays too long is asked for at every row.
        if sign.kind == "unusual" and self.pushed < self.doubted.get(key, 0) + self.room // 20:
            return []
        if not self._confirmed(sign):
            self.doubted[key] = self.pushed
            return []
        reason = explain(sign, self.expectations, self.steps)
        return self._once(sign.kind, reason, sign.step, 1 - sign.chance)

    def _confirmed(self, sign: Sign) -> bool:
        """Whether a reading of all rows so far shows the same; True if rows are missing."""
        if len(self.rows) < self.pushed:
            return True
        parts = find_occurrences(self.read(np.stack(self.rows)).labels, self.rate)
        first = {part.step: part.start for part in reversed(parts)}
        spent = {step: sum(part.spent for part in parts if part.step == step) for step in first}
        done = {step for step, seconds in spent.items() if seconds >= ENOUGH * self.usual[step]}
        step = BACKGROUND if sign.step is None else sign.step
        if sign.kind == "missed":
            return step not in done and done.issuperset(sign.others)
        if step not in first:
            return False
        if sign.kind == "extra":
            return sum(part.step == step for part in parts) > 1
        if sign.kind == "unusual":
            longer = duration(self.expectations.usual.paces[step], spent[step], parts[-1])
            return longer.how == "long" and longer.chance < self._rare
        early = [first[step] < first[other] for other in sign.others if other in first]
        return (sign.how == "early") in early

    def _once(
        self, kind: str, reason: str, step: int | None = None, sure: float = 1.0, of: str = ""
    ) -> list[Alert]:
        """An alert, if none of this kind, or `of` this cause, was raised about the step."""
        key = (of or kind, step)
        if key in self.reported:
            return []
        self.reported.add(key)
        return [Alert(kind, reason, step, sure)]

    def _broken(
        self, findings: Sequence[Finding] | None = None, ended: bool = False
    ) -> list[Alert]:
        if findings is None:
            rules = self.expectations.rules
            findings = broken_rules(rules, self.parts, self.steps, self.time, ended)
        alerts = []
        for one in findings:
            if one.kind == "rule":
                cause = one.reason.partition(";")[0]
                alerts += self._once("rule", one.reason, one.step, one.confidence, cause)
        return alerts

    @property
    def _rare(self) -> float:
        """Probability below which an event raises an alarm: the rate, divided among the steps."""
        return self.expectations.false_alarms / max(len(self.graph.steps), 1)

    def _other_task(self) -> list[Alert]:
        """Report if the newest rows, as many as a usual video has, show another task."""
        late = self.pushed - self.room
        if late < 0 or late % max(self.room // 10, 1) or ("unknown", None) in self.reported:
            return []
        if not self.expectations.task or not self._check(self.room).other_task:
            return []
        return self._once("unknown", "this is not the task that was learned", None, 0.99)

    def _camera(self, newest: int) -> Camera | None:
        inputs, rows = self.expectations.inputs, list(self.rows)[-newest:]
        if inputs is None:
            return None
        return look_at(project(np.stack(rows)), self.rate, len(rows) / self.rate, inputs)

    def _blind(self, ended: bool = False) -> list[Alert]:
        """Each stretch in which the camera sees nothing; at the end, another scene."""
        camera, alerts = self._camera(len(self.rows)), []
        gone = (self.pushed - len(self.rows)) / self.rate  # seconds whose rows are not kept
        for one in camera.findings if camera else ():
            if one.reason == ELSEWHERE:
                alerts += self._once("input", one.reason) if ended else []
                continue
            if gone + one.start > self.blind_until:
                alerts.append(Alert("input", f"{one.reason} from {clock(gone + one.start)}"))
            self.blind_until = max(self.blind_until, gone + one.end)
        return alerts

    def _check(self, newest: int) -> Report:
        read = self.read(np.stack(list(self.rows)[-newest:]))
        return check_labels(
            read.labels,
            self.rate,
            self.expectations,
            read.probabilities,
            read.novelty,
            self.steps,
            embedding=read.embedding,
            camera=self._camera(newest),
        )
