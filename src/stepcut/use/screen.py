"""A small live view of the guide for a terminal: plain text, redrawn in place."""

from __future__ import annotations

from stepcut.order.orders import name_of
from stepcut.timeline import clock
from stepcut.use.guide import Alert, State

HOME = "\x1b[H"
"""Go to the upper left corner."""
CLEAR = "\x1b[2J"
REST_OF_LINE = "\x1b[K"
REST_OF_SCREEN = "\x1b[J"

BAR = 24
KEPT = 4
"""How many of the newest alerts stay on the screen."""


class Screen:
    """Draws states one over the other; keeps the newest alerts in sight."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.alerts: list[tuple[float, Alert]] = []
        self._fresh = True

    def draw(self, state: State) -> str:
        """What to write to the terminal to show this state."""
        self.alerts = [*self.alerts, *((state.time, alert) for alert in state.alerts)][-KEPT:]
        start = CLEAR + HOME if self._fresh else HOME
        self._fresh = False
        return start + "".join(f"{line}{REST_OF_LINE}\n" for line in self.lines(state)) + REST_OF_SCREEN

    def lines(self, state: State) -> list[str]:
        """The view as plain lines."""
        lines = [f"{self.title}   {clock(state.time)}", "", f"  now   {_bar(state.confidence)}  {state.name}", ""]
        for label, (step, chance) in zip(["next", "", ""], state.next, strict=False):
            lines.append(f"  {label:<5} {_bar(chance)}  {name_of(step, state.names)}")
        done = ", ".join(name_of(step, state.names) for step in state.done)
        lines += ["", f"  done  {done or '–'}"]
        if state.skipped:
            lines.append(f"        {state.skipped} samples skipped to keep up")
        lines += ["", *(f"  ! {clock(time)}  {alert.reason}" for time, alert in self.alerts)]
        return lines


def _bar(share: float) -> str:
    """`██████░░░░ 60 %`."""
    full = round(share * BAR)
    return "█" * full + "░" * (BAR - full) + f" {share:4.0%}"
