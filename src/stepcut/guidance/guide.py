"""Guide: follow a person frame by frame: the current step, the steps done, and the next ones.

The current step is the most probable one of the newest frame, given the past only; background is
no step. A step counts as done once it was current for a quarter of its usual duration. The alarms
are those of `check` that a part of a video can raise, with the same probabilities, limits and
words: a step out of order, repeated, or too long; at the end, a step that was not seen. They wait
for half of the usual duration of a step, so that short errors of the segmentation raise none.
Memory is bounded: a few numbers per step, the window of the online method, and as many rows as a
usual video has.
"""

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.checking.check import explain
from stepcut.checking.evidence import Sign, duration, misordered, missed, repeated, unmet
from stepcut.checking.expectations import Expectations
from stepcut.checking.observe import observe
from stepcut.checking.usual import swap_chances
from stepcut.checks import check_number
from stepcut.errors import FeatureError
from stepcut.methods.inputs import Array
from stepcut.methods.method import Online
from stepcut.order.learn import Occurrence
from stepcut.order.orders import counted, name_of, number_of
from stepcut.order.relations import END, next_weights
from stepcut.timeline import BACKGROUND

ENOUGH = 0.25
"""Share of its usual duration after which a step counts as done."""
FILL = 4
"""How often one row is repeated at most to fill a gap in a slow source."""
OVERLOOKED = 0.05
"""Minimum readiness of a step: the probability of an error about what is done."""
FIRM = 0.5
"""Share of its usual duration after which a step may raise an alarm."""
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
    """misordered, extra, unusual, unknown or missed, as in a check; or source (the stream)."""
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
        self.graph = expectations.graph.renamed(steps)
        self.steps, self.embed, self.shape = tuple(steps), embed, shape and tuple(shape)
        self.callback: Callable[[State], None] | None = None  # called with every state
        usual = expectations.usual
        paces = {s: math.exp(p.middle) / usual.usual_times(s) for s, p in usual.paces.items()}
        typical = float(np.median(list(paces.values()))) if paces else 30.0
        # Usual seconds per occurrence; the median for steps without training examples.
        self.usual = np.array([paces.get(step, typical) for step in range(len(self.steps))])
        self.reset()

    def reset(self) -> None:
        """Start again from the beginning."""
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
        self.began = np.zeros(len(self.steps))
        """When each step last became the current one."""
        self.seconds = np.zeros(len(self.steps))
        """Seconds spent on each step in all."""
        self.counts = np.zeros(len(self.steps), dtype=np.int64)
        self.first: dict[int, Occurrence] = {}
        """First firm occurrence of each step."""
        self.shown = np.zeros(len(self.steps))
        """Evidence for each step so far, as in a check."""
        self.now = self.last = BACKGROUND
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
        idle = self._is_idle(belief)
        step = BACKGROUND if idle else int(np.argmax(belief))
        spent = min(passed, FILL / self.rate)  # a gap in the stream is not time spent
        excess = belief - (belief.min() if len(belief) > 1 else 0.0)
        self.shown += excess**2 * spent
        fresh = [*alerts, *self._count_time(step, spent), *self._unknown(row)]
        share = float(len(belief) * belief.min()) if idle else float(belief[step])
        return self._state(share, tuple(fresh), skipped)

    def end(self) -> State:
        """Report what is still missing at the end of the video.

        Returns
        -------
        State
            The last state. Its alerts name the critical steps, and the steps that every reference
            video does, that were not seen.

        Examples
        --------
        >>> guide = proc.guide()
        >>> state = guide.push(0.0, new[0])
        >>> [(alert.kind, alert.step) for alert in guide.end().alerts]
        [('missed', 0), ('missed', 1), ('missed', 2)]
        """
        usual = self.expectations.usual
        likely = usual.presence.probabilities(np.log1p(self.shown))
        alerts = []
        for step in range(len(self.steps)):
            share = float(likely[step]) if step < len(likely) else float(step in self.done)
            if step not in self.done and 1 - share >= self.expectations.alarm_limit(step):
                known = step in usual.occurs
                sign = missed(step, share, self.time, usual) if known else None
                sign = sign or Sign("missed", share, 0.0, self.time, step, measure=share)
                alerts += self._alarm(sign, always=True)
        return self._state(1.0, tuple(alerts))

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
        self.corrected = (self.corrected[0] if self.corrected else self.last, number)
        self.now = self.last = number
        self.spent[number], self.began[number] = 0.0, max(self.time, 0.0)

    def finish(self) -> None:
        """Mark the current step as done, or the last one during background."""
        if self.last != BACKGROUND:
            self._count_done(self.last)
            self.spent[self.last] = max(self.spent[self.last], FIRM * self.usual[self.last])

    def _state(self, share: float, alerts: tuple[Alert, ...], skipped: int = 0) -> State:
        name = "background" if self.now == BACKGROUND else self.graph.name(self.now)
        next_steps = tuple(self._upcoming())
        made = State(
            self.time,
            self.now,
            name,
            share,
            tuple(self.done),
            next_steps,
            alerts,
            skipped,
            self.steps,
        )
        if self.callback is not None:
            self.callback(made)
        return made

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
        self.now = step
        if step == BACKGROUND:
            return []
        if step != self.last:
            self.last, self.spent[step], self.began[step] = step, 0.0, self.time
        before = self.spent[step]
        self.spent[step] += passed
        self.seconds[step] += passed
        if before < ENOUGH * self.usual[step] <= self.spent[step]:
            self._count_done(step)
        if not before < FIRM * self.usual[step] <= self.spent[step]:
            return self._too_long(step)
        return [*self._firm(step), *self._too_long(step)]

    def _count_done(self, step: int) -> None:
        if not self.done or self.done[-1] != step:
            self.counts[step] += 1
        self.done = [*(other for other in self.done if other != step), step]

    def _part(self, step: int) -> Occurrence:
        """The current occurrence of a step."""
        return Occurrence(step, float(self.began[step]), self.time, float(self.spent[step]))

    def _firm(self, step: int) -> list[Alert]:
        """What `check` would find now that this step was clearly done."""
        usual, severity = self.expectations.usual, self.expectations.severity
        part = self._part(step)
        self.first.setdefault(step, part)
        waited = unmet(part, self.done, self.graph, usual, severity)
        critical = any(set(sign.others) & severity.critical for sign in waited)
        alerts = [alert for sign in waited for alert in self._alarm(sign, always=critical)]
        chances = swap_chances(self.graph.first)
        swapped = misordered(self.first, chances, severity, self.graph)
        swapped = [sign for sign in swapped if sign.step == step]
        alerts += [alert for sign in swapped for alert in self._alarm(sign)]
        times = int(self.counts[step])
        if times > 1 and step in usual.repeats:
            alerts += self._alarm(repeated(step, [part] * times, usual))
        return alerts

    def _too_long(self, step: int) -> list[Alert]:
        pace = self.expectations.usual.paces.get(step)
        if pace is None:
            return []
        sign = duration(pace, float(self.seconds[step]), self._part(step), step)
        return self._alarm(sign) if sign.how == "long" else []

    def _unknown(self, row: Array) -> list[Alert]:
        """Report if the newest rows, as many as a usual video has, show another task."""
        room, task = self.rows.maxlen or 2, self.expectations.task
        if self.embed is None or task is None or room * row.nbytes > MEMORY:
            return []
        self.rows.append(row)
        self.pushed += 1
        if self.pushed < room or (self.pushed - room) % max(room // 10, 1):
            return []
        none = np.full(room, BACKGROUND)
        shown = observe(none, self.rate, embedding=self.embed(np.stack(self.rows)))
        if ("unknown", None) in self.reported or task.distance(shown) <= 1:
            return []
        self.reported.add(("unknown", None))
        return [Alert("unknown", "this is not the task that was learned", None, 0.99)]

    @property
    def expected_alarms(self) -> float:
        """False alarms to expect in a normal video: the sum of the chances that can raise one."""
        usual, rare = self.expectations.usual, self._rare()
        chances = [usual.missing(step) for step in usual.occurs]
        chances += [usual.repeated(step, 1 + max(usual.repeats[step])) for step in usual.occurs]
        chances += [0.99 * rare] * len(usual.paces)  # too long
        return sum(chance for chance in chances if chance < rare)

    @property
    def note(self) -> str:
        """False alarms to expect, and alarms that so few reference videos cannot support."""
        never, number = self.expectations.usual.never, self.graph.videos
        rate = f"Expect about {self.expected_alarms:.2g} false alarms per normal video."
        kinds = {"missing or late": never["missed"], "repeated": never["extra"]}
        mute = " or ".join(kind for kind, chance in kinds.items() if chance >= self._rare())
        if not mute:
            return rate
        few = f"{counted(number)} {'is' if number == 1 else 'are'} too few for an alarm about a"
        advice = "" if self.expectations.severity.critical else ", or mark a step critical"
        return f"{rate} {few} {mute} step. Learn from more{advice}."

    def _rare(self) -> float:
        """Probability below which an event raises an alarm: the rate, divided among the steps."""
        return self.expectations.false_alarms / max(len(self.graph.steps), 1)

    def _alarm(self, sign: Sign, always: bool = False) -> list[Alert]:
        """Raise an alarm once if it is rare in normal videos, or `always`."""
        key = (sign.kind, sign.step)
        if (sign.chance >= self._rare() and not always) or key in self.reported:
            return []
        self.reported.add(key)
        reason = explain(sign, self.expectations, self.steps)
        return [Alert(sign.kind, reason, sign.step, 1 - sign.chance)]

    def _upcoming(self) -> list[tuple[int, float]]:
        done = {step: int(self.counts[step]) for step in self.done}
        current = [] if self.last == BACKGROUND else [self.last]
        # Count the current step as done, even if it is not yet.
        for step in current:
            if self.done[-1:] != [step]:
                done[step] = done.get(step, 0) + 1
        weights = next_weights(self.graph, done, current, least=OVERLOOKED)
        total = sum(weight for step, weight in weights.items() if step not in current)
        likely = [(s, w / total) for s, w in weights.items() if s not in (*current, END) and w > 0]
        return sorted(likely, key=lambda pair: (-pair[1], pair[0]))
