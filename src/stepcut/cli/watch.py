"""`stepcut watch`: check each new video of a folder as it arrives."""

from __future__ import annotations

import argparse
import json
import signal
import time
from pathlib import Path
from typing import Any

from stepcut.cli import say
from stepcut.errors import OptionError
from stepcut.procedure.procedure import load
from stepcut.procedure.watching import Watch, post


def run(args: argparse.Namespace) -> int:
    """Look, check, tell; 2 when a video could not be checked, 1 when one deviates, else 0."""
    if args.webhook is not None and not args.webhook.startswith(("http://", "https://")):
        raise OptionError(f"--webhook {args.webhook!r} is no web address; it begins with http:// or https://.")
    procedure = load(args.procedure, trust=args.trust)
    if procedure.untaught:
        say(procedure.untaught)

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
