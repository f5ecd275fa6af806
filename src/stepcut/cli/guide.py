"""`stepcut guide`: follow a video, camera or stream; show the current step and the next ones."""

import argparse
import json
import logging
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from stepcut.cli import say
from stepcut.cli.check import OPERATIONAL
from stepcut.cli.webhook import Sender, check_webhook
from stepcut.features.backbones import load_backbone
from stepcut.features.find import FEATURE_SUFFIXES
from stepcut.features.spec import need_spec
from stepcut.features.video.live import Outage, hide_password, is_live, is_pipe
from stepcut.files.cache import wall_clock
from stepcut.guidance.follow import follow_pictures
from stepcut.guidance.guide import Alert, State
from stepcut.order.orders import name_of
from stepcut.procedure.loading import load
from stepcut.procedure.procedure import Procedure
from stepcut.timeline import clock

HOME, CLEAR = "\x1b[H", "\x1b[2J"
REST_OF_LINE = "\x1b[K"
REST_OF_SCREEN = "\x1b[J"
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"

BAR = 24
KEPT = 4
"""Number of the newest alerts that stay on the screen."""
SHOWN = 0.005
"""Smaller probabilities round to 0 % and are not shown."""


def run(args: argparse.Namespace) -> int:
    """Follow the source to its end, or until Ctrl-C."""
    if args.webhook is not None:
        check_webhook(args.webhook)
    title = hide_password(args.source)
    screen = Screen(title) if args.view else None
    if screen is not None:
        # The view already shows messages of the source; printing them would break its layout.
        logging.getLogger("stepcut").addHandler(logging.NullHandler())

    def lost(outage: Outage) -> None:
        text = json.dumps(outage.to_json()) + "\n" if screen is None else screen.wait(outage)
        print(text, end="", flush=True)

    waits = {"patience": args.patience, "stall": args.stall, "lost": lost}
    procedure = load(args.procedure, trust=args.trust)
    if procedure.untaught:
        say(procedure.untaught)
    if note := procedure.guide().note:
        say(note)
    states = follow(procedure, args.source, args.realtime, args.device, **waits)
    sender = None
    with ExitStack() as stack:
        if args.webhook is not None:
            sender = stack.enter_context(Sender(args.webhook, say))
        if screen is not None:  # the last view stays above the cursor
            stack.callback(print, SHOW_CURSOR, end="", flush=True)
        try:
            for state in states:
                record = state.to_json()
                line = json.dumps(record, ensure_ascii=False) + "\n"
                print(line if screen is None else screen.draw(state), end="", flush=True)
                if sender and state.alerts:
                    place = {"source": title, "procedure": args.procedure}
                    sender.add({"clock": wall_clock(), **place, **record})
        except KeyboardInterrupt:
            pass  # the normal end of a live source
    return OPERATIONAL if sender and sender.lost else 0


def follow(
    procedure: Procedure, source: str, realtime: bool = False, device: str = "auto", **waits: Any
) -> Iterator[State]:
    """Yield the guide's states for a feature file, a video, a pipe, a camera or an address."""
    guide = procedure.guide()
    live = is_live(source) or is_pipe(source)
    if not live and Path(source).suffix.lower() in FEATURE_SUFFIXES:
        rows = procedure.features(source).rows
        states: Iterator[State] = (
            guide.push(number / guide.rate, row) for number, row in enumerate(rows)
        )
    else:
        backbone = load_backbone(need_spec(procedure.spec), device)
        states = follow_pictures(guide, source, procedure.rate, backbone, realtime, **waits)
    yield from states
    last = guide.end()
    yield from [last] if last.alerts else []


class Screen:
    """A live view for a terminal, redrawn in place under a `title`."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.alerts: list[tuple[float, Alert]] = []
        self.state: State | None = None
        self._fresh = True

    def draw(self, state: State) -> str:
        self.state = state
        self.alerts = [*self.alerts, *((state.time, alert) for alert in state.alerts)][-KEPT:]
        return self._show(self.lines(state))

    def wait(self, outage: Outage) -> str:
        """Return the terminal output during an outage: the reason and the last state."""
        waiting = f"  no frames for {outage.waited:.0f} s ({outage.reason}); waiting"
        last = [self.title] if self.state is None else self.lines(self.state)
        return self._show([last[0], waiting, *last[1:]])

    def _show(self, lines: list[str]) -> str:
        start = HIDE_CURSOR + CLEAR + HOME if self._fresh else HOME
        self._fresh = False
        wide, high = shutil.get_terminal_size()
        # A line that wraps, or one too many, would shift the others.
        lines = [_cut(line, wide) for line in lines][: high - 1]
        return start + "".join(f"{line}{REST_OF_LINE}\n" for line in lines) + REST_OF_SCREEN

    def lines(self, state: State) -> list[str]:
        now = f"  now   {_bar(state.confidence)}  {state.name}"
        lines = [f"{clock(state.time)}  {self.title}", "", now, ""]
        likely = [(step, chance) for step, chance in state.next[:3] if chance >= SHOWN]
        for place, (step, chance) in enumerate(likely):
            head = "" if place else "next"
            lines.append(f"  {head:<5} {_bar(chance)}  {name_of(step, state.names)}")
        if not likely:
            lines.append("  next  all steps are done")
        done = ", ".join(name_of(step, state.names) for step in state.done)
        lines += ["", f"  done  {done or '–'}"]
        if state.skipped:
            samples = "sample" if state.skipped == 1 else "samples"
            lines.append(f"        {state.skipped} {samples} skipped to keep up")
        alerts = (f"  ! {clock(time)}  {alert.reason}" for time, alert in reversed(self.alerts))
        return [*lines, "", *alerts]


def _bar(share: float) -> str:
    """Draw `██████░░░░ 60 %`."""
    full = round(share * BAR)
    return "█" * full + "░" * (BAR - full) + f" {share:4.0%}"


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: max(width - 1, 0)] + "…"
