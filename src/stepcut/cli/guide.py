"""stepcut guide: follow a video, camera or stream; the step now and what comes next."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from stepcut.cli.feature_options import add_device, add_trust
from stepcut.features.spec import need_spec

if TYPE_CHECKING:
    from stepcut.guidance.guide import State
    from stepcut.procedure.procedure import Procedure

FEATURES = (".npy", ".npz", ".safetensors")

EXAMPLES = """examples:
  stepcut guide sandwich.proc new.mp4                     a JSON line per sample: time, step, done, next, alerts
  stepcut guide sandwich.proc camera --view               the first camera, shown live in the terminal
  stepcut guide sandwich.proc rtsp://10.0.0.5/live        a network camera; reconnects when it drops
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of `stepcut guide`."""
    parser.add_argument("procedure", help="a folder made by stepcut learn")
    parser.add_argument("source", help="a video or feature file, camera, camera:1, or an address (rtsp://, http://)")
    parser.add_argument("--view", action="store_true", help="draw it in the terminal instead of printing JSON lines")
    parser.add_argument("--realtime", action="store_true", help="play a file at its own pace, as a camera would")
    parser.add_argument(
        "--patience", type=float, default=30.0, metavar="S", help="seconds to wait for the first frame (default 30)"
    )
    parser.add_argument(
        "--stall",
        type=float,
        default=10.0,
        metavar="S",
        help="seconds without a frame that count as a stall (default 10)",
    )
    add_device(parser)
    add_trust(parser)


def run(args: argparse.Namespace) -> int:
    """Follow the source to its end, or until Ctrl-C."""
    from stepcut.guidance.screen import Screen
    from stepcut.guidance.sources import hide_password
    from stepcut.procedure.procedure import load

    screen = Screen(hide_password(args.source)) if args.view else None
    if screen is not None:
        # What the source has to say is on the screen already; printed as well, it would tear the view.
        logging.getLogger("stepcut").addHandler(logging.NullHandler())
    waits = {"patience": args.patience, "stall": args.stall}
    states = follow(load(args.procedure, trust=args.trust), args.source, args.realtime, args.device, **waits)
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
    from stepcut.features.backbones import load_backbone
    from stepcut.guidance.follow import follow_pictures, follow_rows
    from stepcut.guidance.sources import is_live

    guide = procedure.guide()
    if not is_live(source) and Path(source).suffix.lower() in FEATURES:
        return follow_rows(guide, procedure.features(source).rows)
    backbone = load_backbone(need_spec(procedure.spec), device)
    return follow_pictures(guide, source, procedure.rate, backbone, realtime, **waits)
