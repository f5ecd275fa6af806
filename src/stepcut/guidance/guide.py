"""Guide: follow a person frame by frame: the current step, the steps done, and the next ones.

The current step is the most probable one of the newest frame, given the past only. A step counts
as done once it was current for a quarter of its usual duration. It may raise alarms after half of
its usual duration, so that short errors of the segmentation raise none. Memory is bounded: it
holds the current step, a time and a count per step, the window of the online method, and as many
rows as a usual video has.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.checking.expectations import Expectations
from stepcut.checking.observe import observe
from stepcut.checking.task import RARE
from stepcut.checks import check_number
from stepcut.errors import FeatureError
from stepcut.methods.inputs import Array
from stepcut.methods.method import Online
from stepcut.order.orders import counted, name_of, number_of
from stepcut.order.relations import END, next_weights

ENOUGH = 0.25
"""Share of its usual duration after which a step counts as done."""
FILL = 4
"""How often one row is repeated at most to fill a gap in a slow source."""
OVERLOOKED = 0.05
"""Minimum readiness of a step: the probability of an error about what is done."""
FIRM = 0.5
"""Share of its usual duration after which a step may raise an alarm."""
ALARM = 0.1
"""Share of normal videos that may raise a false alarm, divided among all kinds and steps."""
MEMORY = 2**27
"""Bytes for the newest rows. If a usual video has more, an unknown task is not detected."""


@dataclass(frozen=True)
class Alert:
    """A deviation to report now.

    Examples
    --------
    >>> Alert("source", "the camera is lost").confidence
    1.0
    """

    kind: str
    """misordered, extra, long, unknown, or source (the stream itself)."""
    reason: str
    step: int | None = None
    confidence: float = 1.0

    def to_json(self) -> dict[str, Any]:
        """Return the alert as JSON values."""
        return {
            "kind": self.kind,
            "step": self.step,
            "confidence": round(self.confidence, 3),
            "reason": self.reason,
        }


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
    names: tuple[str, ...] = field(default=(), repr=False)

    def to_json(self) -> dict[str, Any]:
        """Return the state as JSON values, with the names of steps: one line of `stepcut guide`."""
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

    Parameters
    ----------
    start
        Makes the online object of a method; `reset` calls it again.
    rate
        Rows per second.
    expectations
        Statistics of the reference videos.
    steps
        Names of the steps.
    embed
        Embeds rows (T, d) as (T, p). Without it, an unknown task is not detected.
    shape
        Shape of a row; by default any shape is accepted.

    Examples
    --------
    >>> guide = proc.guide()
    >>> for number, row in enumerate(new):
    ...     state = guide.push(number / guide.rate, row)
    >>> state.name, state.done
    ('add jam', (0, 2))
    """

    def __init__(
        self,
        start: Callable[[], Online],
        rate: float,
        expectations: Expectations,
        steps: Sequence[str],
        embed: Callable[[Array], Array] | None = None,
        shape: Sequence[int] | None = None,
    ) -> None:
        self.start, self.rate, self.expectations = start, rate, expectations
        self.graph = expectations.usual.graph.renamed(steps)
        self.steps, self.embed, self.shape = tuple(steps), embed, shape and tuple(shape)
        self.callback: Callable[[State], None] | None = None  # called with every state
        paces = expectations.usual.paces.items()
        usual = {step: math.exp(pace.middle) / self.graph.usual_times(step) for step, pace in paces}
        typical = float(np.median(list(usual.values()))) if usual else 30.0
        # Usual seconds per occurrence; the median for steps without training examples.
        self.usual = np.array([usual.get(step, typical) for step in range(len(self.steps))])
        self.reset()

    def reset(self) -> None:
        """Start again from the beginning.

        Examples
        --------
        >>> guide = proc.guide()
        >>> state = guide.push(0.0, new[0])
        >>> guide.reset()
        >>> guide.done
        []
        """
        self.online = self.start()
        usual = math.exp(self.expectations.usual.length.middle)
        self.rows: deque[Array] = deque(maxlen=max(2, round(usual * self.rate)))
        self.pushed = 0
        self.corrected: tuple[int, int] | None = None
        """(predicted step, corrected step) until the method predicts another; -1 at the start."""
        self.time = -math.inf
        self.done: list[int] = []
        self.spent = np.zeros(len(self.steps))
        """Seconds since each step last became the current one."""
        self.counts = np.zeros(len(self.steps), dtype=np.int64)
        self.now = -1
        self.reported: set[tuple[str, int | None]] = set()

    def push(
        self, time: float, row: Array, skipped: int = 0, alerts: Sequence[Alert] = ()
    ) -> State:
        """Process the feature row of the frame at `time`.

        Parameters
        ----------
        time
            Seconds; must increase.
        row
            Features of the frame.
        skipped, alerts
            Messages of the source, passed on with the state.

        Returns
        -------
        State
            The current step, the completed steps and the possible next steps.

        Raises
        ------
        OptionError
            If `time` is not finite or does not increase.
        FeatureError
            If the row has another shape or is not finite.

        Examples
        --------
        >>> proc.guide().push(0.0, new[0]).name
        'cut bread'
        """
        check_number("time", time, self.time, above=True)
        row = np.array(row)  # a copy, since the caller may reuse the array
        if self.shape not in (None, row.shape):
            raise FeatureError(
                f"a row has shape {row.shape}; this procedure was learned from {self.shape}.",
                setting="row",
                value=row.shape,
                allowed=self.shape,
            )
        if row.dtype.kind not in "fiu" or not np.isfinite(row).all():
            raise FeatureError(
                f"the feature row at {time:g} s contains a value that is not a finite number.",
                setting="row",
                value=row,
            )
        passed = 1 / self.rate if math.isinf(self.time) else time - self.time
        # The method counts time in rows, so a row that follows a gap is repeated.
        for _ in range(min(max(round(passed * self.rate), 1), FILL)):
            probabilities = self.online.push(row)
        belief = self._belief(np.asarray(probabilities, dtype=np.float64))
        self.time = time
        busy = 0.0 if self._is_idle(belief) else passed
        fresh = [*alerts, *self._count_time(int(np.argmax(belief)), busy), *self._unknown(row)]
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
        """Set the current step and continue from there.

        The correction holds until the method predicts a different step.

        Parameters
        ----------
        step
            Number or name of the step.

        Raises
        ------
        OptionError
            The step does not exist.

        Examples
        --------
        >>> guide = proc.guide()
        >>> guide.correct("spread butter")
        >>> guide.push(0.0, new[0]).name
        'spread butter'
        """
        number = number_of(step, self.steps)
        self.corrected = (self.corrected[0] if self.corrected else self.now, number)
        self.now = number
        self.spent[number] = 0.0

    def finish(self) -> None:
        """Mark the current step as done.

        Examples
        --------
        >>> guide = proc.guide()
        >>> state = guide.push(0.0, new[0])
        >>> guide.finish()
        >>> guide.done
        [0]
        """
        if self.now >= 0:
            self._count_done(self.now)
            self.spent[self.now] = max(self.spent[self.now], FIRM * self.usual[self.now])

    def _belief(self, probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
        """Normalise the step probabilities and apply a correction."""
        belief = np.maximum(probabilities, 1e-6)
        belief /= belief.sum()
        if self.corrected is not None:
            best = int(np.argmax(belief))
            seen, corrected = self.corrected
            seen = best if seen < 0 else seen  # a correction before the first row
            self.corrected = (seen, corrected)
            if best in (seen, corrected):
                belief[seen], belief[corrected] = (
                    min(belief[seen], belief[corrected]),
                    max(belief[seen], belief[corrected]),
                )
            else:
                self.corrected = None
        return belief

    def _is_idle(self, belief: NDArray[np.float64]) -> bool:
        """Whether background is more likely than any step: all steps share its probability."""
        if len(belief) == 1 or self.corrected is not None:
            return False
        return bool(belief.max() - belief.min() < len(belief) * belief.min())

    # ------------------------------------------------------------------ done steps and alerts

    def _count_time(self, step: int, passed: float) -> list[Alert]:
        """Count the time of the current step; return new alerts."""
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
        name, spent, usual = self.graph.name(step), self.spent[step], self.usual[step]
        reason = f"{name} has taken {spent:.0f} s; {usual:.0f} s is usual"
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
        name = self.graph.name(step)
        reason = f"{name} was done {times} times; no reference video has more than {most}"
        return self._alarm("extra", step, chance, reason)

    def _out_of_order(self, step: int) -> list[Alert]:
        """Report steps that must precede `step` but were not seen, if that is rare or critical."""
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
        names = " and ".join(map(self.graph.name, near))
        reason = f"{names} must precede {self.graph.name(step)} and was not seen"
        return self._alarm("misordered", step, chance, reason, always=bool(critical))

    def _unknown(self, row: Array) -> list[Alert]:
        """Report if the newest rows, as many as a usual video has, show another task."""
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
        reason = "this is not the task that was learned"
        return self._alarm("unknown", None, RARE, reason, always=True)

    @property
    def note(self) -> str:
        """Alarms that so few reference videos cannot support; empty if there are none."""
        never = self.expectations.usual.never
        kinds = {
            "a missing or late step": max(never["missed"], never["misordered"]),
            "a repeated step": never["extra"],
        }
        mute = ", or about ".join(kind for kind, chance in kinds.items() if chance >= self._rare())
        videos = f"{counted(self.graph.videos)} {'is' if self.graph.videos == 1 else 'are'}"
        few = f"{videos} too few for an alarm about {mute} at {ALARM:.0%} false alarms"
        advice = "" if self.expectations.severity.critical else ", or mark a step critical"
        return f"{few}. Learn from more{advice}." if mute else ""

    def _rare(self) -> float:
        """Return the probability below which an event raises an alarm."""
        return ALARM / (3 * max(len(self.graph.steps), 1))

    def _alarm(
        self, kind: str, step: int | None, chance: float, reason: str, always: bool = False
    ) -> list[Alert]:
        """Raise an alarm once if its `chance` in normal videos is rare, or `always`."""
        if (chance >= self._rare() and not always) or (kind, step) in self.reported:
            return []
        self.reported.add((kind, step))
        return [Alert(kind, reason, step, 1 - chance)]

    def _upcoming(self) -> list[tuple[int, float]]:
        done = {step: int(self.counts[step]) for step in self.done}
        # Count the current step as done, even if it is not yet.
        if self.done[-1:] != [self.now]:
            done[self.now] = done.get(self.now, 0) + 1
        weights = next_weights(self.graph, done, [self.now], least=OVERLOOKED)
        total = sum(weight for step, weight in weights.items() if step != self.now)
        likely = [(s, w / total) for s, w in weights.items() if s not in (self.now, END) and w > 0]
        return sorted(likely, key=lambda pair: (-pair[1], pair[0]))
