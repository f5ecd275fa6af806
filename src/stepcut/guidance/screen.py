"""A small live view of the guide for a terminal: plain text, redrawn in place."""

from __future__ import annotations

import shutil

from stepcut.guidance.guide import Alert, State
from stepcut.order.orders import name_of
from stepcut.timeline import clock

HOME = "\x1b[H"
"""Go to the upper left corner."""
CLEAR = "\x1b[2J"
REST_OF_LINE = "\x1b[K"
REST_OF_SCREEN = "\x1b[J"
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"

BAR = 24
KEPT = 4
"""How many of the newest alerts stay on the screen."""
SHOWN = 0.005
"""What is less probable than this rounds to 0 % and is not shown."""


class Screen:
    """Draws states one over the other under a `title`; keeps the newest alerts in sight."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.alerts: list[tuple[float, Alert]] = []
        self._fresh = True

    def draw(self, state: State) -> str:
        """What to write to the terminal to show this state."""
        self.alerts = [*self.alerts, *((state.time, alert) for alert in state.alerts)][-KEPT:]
        start = HIDE_CURSOR + CLEAR + HOME if self._fresh else HOME
        self._fresh = False
        wide, high = shutil.get_terminal_size()
        # A line that wraps, or one too many, would push the others out of place.
        lines = [_cut(line, wide) for line in self.lines(state)][: high - 1]
        return start + "".join(f"{line}{REST_OF_LINE}\n" for line in lines) + REST_OF_SCREEN

    def close(self) -> str:
        """What to write at the end: the last view stays, the cursor comes back under it."""
        return SHOW_CURSOR

    def lines(self, state: State) -> list[str]:
        """The view of a `state` as plain lines."""
        lines = [f"{clock(state.time)}  {self.title}", "", f"  now   {_bar(state.confidence)}  {state.name}", ""]
        likely = [(step, chance) for step, chance in state.next[:3] if chance >= SHOWN]
        for place, (step, chance) in enumerate(likely):
            lines.append(f"  {'' if place else 'next':<5} {_bar(chance)}  {name_of(step, state.names)}")
        if not likely:
            lines.append("  next  nothing is left to do")
        done = ", ".join(name_of(step, state.names) for step in state.done)
        lines += ["", f"  done  {done or '–'}"]
        if state.skipped:
            samples = "sample" if state.skipped == 1 else "samples"
            lines.append(f"        {state.skipped} {samples} skipped to keep up")
        lines += ["", *(f"  ! {clock(time)}  {alert.reason}" for time, alert in reversed(self.alerts))]
        return lines


def _bar(share: float) -> str:
    """`██████░░░░ 60 %`."""
    full = round(share * BAR)
    return "█" * full + "░" * (BAR - full) + f" {share:4.0%}"


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: max(width - 1, 0)] + "…"
