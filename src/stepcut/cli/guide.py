"""stepcut guide: follow a video, camera or stream; the step now and what comes next."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

from stepcut.cli import say
from stepcut.features.backbones import load_backbone
from stepcut.features.find import FEATURE_SUFFIXES
from stepcut.features.spec import need_spec
from stepcut.guidance.guide import State
from stepcut.guidance.screen import Screen
from stepcut.guidance.sources import follow_pictures, follow_rows, hide_password, is_live
from stepcut.procedure.procedure import Procedure, load


def run(args: argparse.Namespace) -> int:
    """Follow the source to its end, or until Ctrl-C."""
    screen = Screen(hide_password(args.source)) if args.view else None
    if screen is not None:
        # What the source has to say is on the screen already; printed as well, it would tear the view.
        logging.getLogger("stepcut").addHandler(logging.NullHandler())
    waits = {"patience": args.patience, "stall": args.stall}
    procedure = load(args.procedure, trust=args.trust)
    if procedure.untaught:
        say(procedure.untaught)
    states = follow(procedure, args.source, args.realtime, args.device, **waits)
    try:
        for state in states:
            text = json.dumps(state.to_json(), ensure_ascii=False) + "\n" if screen is None else screen.draw(state)
            sys.stdout.write(text)
            sys.stdout.flush()
    except KeyboardInterrupt:
        pass  # a live source has no other end
    finally:
        if screen is not None:
            sys.stdout.write(screen.close())
            sys.stdout.flush()
    return 0


def follow(
    procedure: Procedure, source: str, realtime: bool = False, device: str = "auto", **waits: float
) -> Iterator[State]:
    """The states of a procedure's guide on a feature file, a video, a camera or an address."""
    guide = procedure.guide()
    if not is_live(source) and Path(source).suffix.lower() in FEATURE_SUFFIXES:
        return follow_rows(guide, procedure.features(source).rows)
    backbone = load_backbone(need_spec(procedure.spec), device)
    return follow_pictures(guide, source, procedure.rate, backbone, realtime, **waits)
