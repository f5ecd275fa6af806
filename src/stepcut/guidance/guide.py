"""Guide: follow somebody frame by frame: the current step, what is done, what comes next. It sees
the past only.

The current step is the most probable one of the newest frame, by probabilities from the past alone.
A step counts as done once it was the current one for a quarter of its usual time. It may raise
alarms after half of its usual time, so that a short mistake of the cut raises none. Memory does not
grow: kept are the current step, a clock and a count per step, the window of the method's online
object, and as many of the newest rows as a usual video has.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.checking.expectations import Expectations
from stepcut.checking.observe import observe
from stepcut.checking.task import RARE
from stepcut.errors import FeatureError, OptionError, check_kind
from stepcut.methods.inputs import Array
from stepcut.methods.method import Online
from stepcut.order.orders import counted, name_of, number_of
from stepcut.order.relations import END, next_weights

ENOUGH = 0.25
"""The share of a step's usual time after which it counts as done."""
FILL = 4
"""How often one row is given to the method at most, to fill a gap in a source that is slow or was
skipped."""
OVERLOOKED = 0.05
"""The least readiness of any step: the chance that what was seen as done was not done, or the
reverse."""
FIRM = 0.5
"""The share of a step's usual time after which it may raise an alarm."""
ALARM = 0.1
"""The share of normal videos in which an alarm may be false: each kind of each step gets its part
of it."""
MEMORY = 2**27
"""Bytes that the newest rows may take. Whether they show this task is not told where a usual video
has more."""


@dataclass(frozen=True)
class Alert:
    """Something that should be said now."""

    kind: str
    """misordered, extra, long, unknown, or source (the stream itself)."""
    reason: str
    step: int | None = None
    confidence: float = 1.0

    def to_json(self) -> dict[str, Any]:
        """A JSON-able object."""
        return {
            "kind": self.kind,
            "step": self.step,
            "confidence": round(self.confidence, 3),
            "reason": self.reason,
        }


@dataclass(frozen=True)
class State:
    """Where somebody is at `time`, in seconds."""

    time: float
    step: int
    name: str
    confidence: float
    done: tuple[int, ...]
    """Steps done so far, by when they were last done; the current step is among them once it took
    long enough."""
    next: tuple[tuple[int, float], ...]
    """What may come after the current step, the most probable first; what is missing to 1 is
    "nothing"."""
    alerts: tuple[Alert, ...] = ()
    """New ones only: each is said once."""
    skipped: int = 0
    """Samples of the source that were passed over so far because the machine was slower than the
    source."""
    names: tuple[str, ...] = field(default=(), repr=False)

    def to_json(self) -> dict[str, Any]:
        """A JSON-able object: one line of `stepcut guide`."""
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
    """Takes feature rows one by one, gives a `State` for each. `proc.guide()` makes one."""

    def __init__(
        self,
        start: Callable[[], Online],
        rate: float,
        expectations: Expectations,
        steps: Sequence[str],
        embed: Callable[[Array], Array] | None = None,
        shape: Sequence[int] | None = None,
    ) -> None:
        """A guide that has seen nothing yet.

        start         makes the online object of a method; called anew by `reset`
        rate          rows per second
        expectations  what is usual
        steps         the names of the steps
        embed         from rows (T, d) to their embedding (T, p); without it nothing is called
                      unknown
        shape         of a row; without it rows of any shape are taken
        """
        self.start, self.rate, self.expectations = start, rate, expectations
        self.graph = expectations.usual.graph.renamed(steps)
        self.steps, self.embed, self.shape = tuple(steps), embed, shape and tuple(shape)
        self.callback: Callable[[State], None] | None = None  # called with every state
        paces = expectations.usual.paces.items()
        usual = {step: math.exp(pace.middle) / self.graph.usual_times(step) for step, pace in paces}
        typical = float(np.median(list(usual.values()))) if usual else 30.0
        # Seconds that a step usually takes each time, for steps that no training video does the
        # typical length.
        self.usual = np.array([usual.get(step, typical) for step in range(len(self.steps))])
        self.reset()

    def reset(self) -> None:
        """Forget everything: somebody starts anew."""
        self.online = self.start()
        usual = math.exp(self.expectations.usual.length.middle)
        self.rows: deque[Array] = deque(maxlen=max(2, round(usual * self.rate)))
        self.pushed = 0
        self.corrected: tuple[int, int] | None = None
        """(the step that the method saw, -1 before the first row, the step that a person says it
        is), until the method sees another."""
        self.time = -math.inf
        self.done: list[int] = []
        self.spent = np.zeros(len(self.steps))
        """Seconds that each step was the most believed, since it last became so."""
        self.counts = np.zeros(len(self.steps), dtype=np.int64)
        self.now = -1
        self.said: set[tuple[str, int | None]] = set()

    def push(
        self, time: float, row: Array, skipped: int = 0, alerts: Sequence[Alert] = ()
    ) -> State:
        """Take the feature row of the frame at `time` (seconds, growing); give the state then.

        `skipped` and `alerts` are what the source has to say; they are passed on with the state.
        """
        check_kind("time", time, Real, "seconds")
        try:
            finite = math.isfinite(time)
        except OverflowError:  # a whole number that no float holds
            finite = False
        if not finite or time <= self.time:
            raise OptionError(
                f"time={time!r} s after {self.time:g} s; times must be finite and grow."
            )
        row = np.array(row)  # a copy: whoever gave it may use the array again for the next one
        if self.shape not in (None, row.shape):
            raise FeatureError(
                f"a row has shape {row.shape}; this procedure was learned from {self.shape}."
            )
        if row.dtype.kind not in "fiu" or not np.isfinite(row).all():
            raise FeatureError(
                f"the feature row at {time:g} s holds a number that is not finite (NaN or infinity)."
            )
        passed = 1 / self.rate if math.isinf(self.time) else time - self.time
        # The method counts time in rows: a row that stands for a gap in the source is given as
        # often as it lasts.
        for _ in range(min(max(round(passed * self.rate), 1), FILL)):
            probabilities = self.online.push(row)
        belief = self._belief(np.asarray(probabilities, dtype=np.float64))
        self.time = time
        fresh = [*alerts, *self._count_time(int(np.argmax(belief)), passed), *self._unknown(row)]
        state = State(
            time=time,
            step=self.now,
            name=self.graph.name(self.now),
            confidence=float(belief[self.now]),
            done=tuple(self.done),
            next=tuple(self._upcoming()),
            alerts=tuple(fresh),
            skipped=skipped,
            names=self.steps,
        )
        if self.callback is not None:
            self.callback(state)
        return state

    def correct(self, step: int | str) -> None:
        """A person says which step this is, by number or name; the guide goes on from there.

        It holds until the method sees another step than the one that it takes this for.
        """
        number = number_of(step, self.steps)
        self.corrected = (self.corrected[0] if self.corrected else self.now, number)
        self.now = number
        self.spent[number] = 0.0

    def finish(self) -> None:
        """A person says that the current step is done."""
        if self.now >= 0:
            self._count_done(self.now)
            self.spent[self.now] = max(self.spent[self.now], FIRM * self.usual[self.now])

    def _belief(self, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """The share of every step; what a person corrected stands in the place of what the method
        sees."""
        belief = np.maximum(probabilities, 1e-6)
        belief /= belief.sum()
        if self.corrected is not None:
            best = int(np.argmax(belief))
            seen, said = self.corrected
            seen = best if seen < 0 else seen  # before the first row it took this for nothing
            self.corrected = (seen, said)
            if best in (seen, said):
                belief[seen], belief[said] = (
                    min(belief[seen], belief[said]),
                    max(belief[seen], belief[said]),
                )
            else:
                self.corrected = None
        return belief

    # ------------------------------------------------------------------ what is done, and what is
    # worth saying

    def _count_time(self, step: int, passed: float) -> list[Alert]:
        """Count the time of the current step; gives what has just become worth saying."""
        if step != self.now:
            self.now = step
            self.spent[step] = 0.0
        before = self.spent[step]
        self.spent[step] += min(passed, FILL / self.rate)  # a gap in the stream is not time spent
        if before < ENOUGH * self.usual[step] <= self.spent[step]:
            self._count_done(step)
        firm = before < FIRM * self.usual[step] <= self.spent[step] and step in self.graph.steps
        alerts = [*self._out_of_order(step), *self._again(step)] if firm else []
        pace = self.expectations.usual.paces.get(step)
        chance = 1.0 if pace is None else 1 - pace.less(self.spent[step])
        reason = f"{self.graph.name(step)} has taken {self.spent[step]:.0f} s; {self.usual[step]:.0f} s is usual"
        return [*alerts, *self._alarm("long", step, chance, reason)]

    def _count_done(self, step: int) -> None:
        if not self.done or self.done[-1] != step:
            self.counts[step] += 1
        self.done = [*(other for other in self.done if other != step), step]

    def _again(self, step: int) -> list[Alert]:
        times = int(self.counts[step])
        if times < 2:
            return []
        chance = self.expectations.usual.repeated(step, times)
        most = max(self.graph.times[step])
        reason = f"{self.graph.name(step)} is done {times} times by now; nobody did it more often than {most}"
        return self._alarm("extra", step, chance, reason)

    def _out_of_order(self, step: int) -> list[Alert]:
        """What must precede a step and was not seen, where hardly any video does without, or where
        it is critical."""
        usual, severity = self.expectations.usual, self.expectations.severity
        if step in severity.free:
            return []
        missing = (
            self.graph.before(step)
            - set(self.done)
            - severity.free
            - severity.optional
            - {self.now}
        )
        critical = missing & severity.critical
        near = sorted(critical | {s for s in missing if not (self.graph.after(s) & missing)})
        chance = min((max(usual.swapped(s, step), usual.missing(s)) for s in near), default=1.0)
        reason = f"{' and '.join(map(self.graph.name, near))} must precede {self.graph.name(step)} and was not seen"
        return self._alarm("misordered", step, chance, reason, always=bool(critical))

    def _unknown(self, row: Array) -> list[Alert]:
        """Whether the newest rows, as many as a usual video has, show another task; looked at every
        tenth of them."""
        room = self.rows.maxlen or 2
        if self.embed is None or room * row.nbytes > MEMORY:
            return []
        self.rows.append(row)
        self.pushed += 1
        if self.pushed < room or (self.pushed - room) % max(room // 10, 1):
            return []
        shown = observe(np.full(room, -1), self.rate, embedding=self.embed(np.stack(self.rows)))
        if self.expectations.task.distance(shown) <= 1:
            return []
        reason = "I do not know this: it is not the task that was learned"
        return self._alarm("unknown", None, RARE, reason, always=True)

    @property
    def note(self) -> str:
        """What it cannot raise an alarm about, having learned from so few videos; empty where there
        is nothing."""
        never = self.expectations.usual.never
        kinds = {
            "a step left out or done too late": max(never["missed"], never["misordered"]),
            "a step done once more": never["extra"],
        }
        mute = ", or about ".join(kind for kind, chance in kinds.items() if chance >= self._rare())
        known = f"{counted(self.graph.videos)} {'is' if self.graph.videos == 1 else 'are'}"
        few = f"{known} too few for an alarm about {mute}, when at most one normal video in ten may raise a false one"
        return f"{few}. Learn from more, or mark a step critical to be told." if mute else ""

    def _rare(self) -> float:
        """The chance below which something is worth an alarm: `ALARM`, shared by three kinds of
        alarm and all steps."""
        return ALARM / (3 * max(len(self.graph.steps), 1))

    def _alarm(
        self, kind: str, step: int | None, chance: float, reason: str, always: bool = False
    ) -> list[Alert]:
        """An alarm about what has this `chance` in normal videos: where that is rare, or `always`,
        and only once."""
        if (chance >= self._rare() and not always) or (kind, step) in self.said:
            return []
        self.said.add((kind, step))
        return [Alert(kind, reason, step, 1 - chance)]

    def _upcoming(self) -> list[tuple[int, float]]:
        """What may come after the current step."""
        done = [step for step in self.done for _ in range(self.counts[step])]
        done += (
            [] if self.done[-1:] == [self.now] else [self.now]
        )  # as if it were over: it may not count as done yet
        weights = next_weights(self.graph, done, ordered=True, least=OVERLOOKED)
        total = sum(weight for step, weight in weights.items() if step != self.now)
        likely = [(s, w / total) for s, w in weights.items() if s not in (self.now, END) and w > 0]
        return sorted(likely, key=lambda pair: (-pair[1], pair[0]))
