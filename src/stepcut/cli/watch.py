"""`stepcut watch`: check each new video of a folder as it arrives."""

from __future__ import annotations

import argparse
import json
import signal
import time
from pathlib import Path
from typing import Any

from stepcut.cli.common import say
from stepcut.cli.feature_options import add_device
from stepcut.errors import OptionError

EXAMPLES = """examples:
  stepcut watch arriving/ -p sandwich.proc                          a JSON line for each video, until Ctrl-C
  stepcut watch arriving/ -p sandwich.proc --once                   what is there now; exit code as of check
  stepcut watch arriving/ -p s.proc --webhook https://example.org/hook   and tell somebody else
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of `stepcut watch`."""
    parser.add_argument("folder", help="where videos arrive")
    parser.add_argument("-p", "--procedure", required=True, metavar="P", help="a folder made by stepcut learn")
    parser.add_argument("--once", action="store_true", help="check what is there, then end")
    parser.add_argument(
        "--every", type=float, default=2.0, metavar="S", help="seconds between two looks at the folder (default 2)"
    )
    parser.add_argument(
        "--settle", type=float, default=5.0, metavar="S", help="seconds for which a video must not grow (default 5)"
    )
    parser.add_argument("--journal", metavar="FILE", help="where finished videos are written down (default: in FOLDER)")
    parser.add_argument("--webhook", metavar="URL", help="also post each line there; nothing is sent without this")
    add_device(parser)


def run(args: argparse.Namespace) -> int:
    """Look, check, tell; 2 when a video could not be checked, 1 when one deviates, else 0."""
    from stepcut.procedure.procedure import load
    from stepcut.procedure.watching import Watch, post

    if args.webhook is not None and not args.webhook.startswith(("http://", "https://")):
        raise OptionError(f"--webhook {args.webhook!r} is no web address; it begins with http:// or https://.")
    procedure = load(args.procedure)

    def check(path: Path) -> dict[str, Any]:
        found: dict[str, Any] = procedure.check(path, args.device).to_json()
        return found

    journal = Path(args.journal) if args.journal else None
    watch, worst = Watch(Path(args.folder), check, args.settle, journal), 0
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        while True:
            for record in watch.poll():
                worst = max(worst, 2 if "error" in record else 0 if record["ok"] else 1)
                print(json.dumps(record, ensure_ascii=False), flush=True)
                trouble = post(args.webhook, record) if args.webhook else ""
                if trouble:
                    say(trouble)
            if args.once and not watch.waiting():
                return worst
            time.sleep(args.every)
    except KeyboardInterrupt:  # the only end of a watch
        return worst
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
