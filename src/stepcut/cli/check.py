"""`stepcut check`: report what a video misses, repeats or does out of order."""

import argparse
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stepcut.checking.report import EXIT_CODES, Report
from stepcut.checking.rules import read_sentences
from stepcut.cli import say
from stepcut.cli.common import ask_procedure
from stepcut.errors import OptionError, in_words
from stepcut.procedure.loading import read_outline
from stepcut.settings import check_number

OPERATIONAL = 5
"""Exit code of `watch` if the disk, the journal or the webhook fails."""
WORSE = (0, 4, 1, 3, 2)
"""Exit codes, from fine to most urgent."""


def chosen_limits(args: argparse.Namespace) -> dict[str, Any]:
    """Return --alarm-at, --min-detection, --for and --rules; refuse wrong values at once."""
    if args.alarm_at is not None:
        check_number("--alarm-at", args.alarm_at, 0, 1, above=True)
    if args.min_detection is not None:
        check_number("--min-detection", args.min_detection, 0, 1)
    found = {"alarm_at": args.alarm_at, "min_detection": args.min_detection}
    if args.rules is not None:
        if not Path(args.rules).is_file():
            raise OptionError(f"{args.rules}: this file of rules does not exist.", path=args.rules)
        found["rules"] = read_sentences(Path(args.rules))
    return found | {"must_find": args.for_}


def worst(codes: Iterable[int]) -> int:
    return max(codes, key=WORSE.index, default=0)


def run(args: argparse.Namespace) -> int:
    """Check the videos and print each report as soon as it is ready.

    Returns 1 if a video deviates, 2 if one cannot be checked, 3 for another task, 4 if one is
    inconclusive.
    """
    if note := read_outline(args.procedure).untaught:
        say(note)

    def show(_: str, report: Report) -> None:
        # A note that concerns all videos is printed once, at the end.
        text = str(report).removesuffix(f"\n  ({report.note})")
        print(json.dumps(report.to_json(), ensure_ascii=False) if args.json else text, flush=True)

    def show_failed(name: str, error: Exception) -> None:
        if args.json:
            failed = {"video": name, "verdict": "error", "error": in_words(error)}
            print(json.dumps(failed, ensure_ascii=False), flush=True)

    limits = chosen_limits(args)
    reports, failed = ask_procedure(args, "check", args.video, show, show_failed, **limits)
    for note in dict.fromkeys(
        report.note for _, report in reports if report.note and not args.json
    ):
        print(note)
    codes = [report.exit_code for _, report in reports]
    return worst([*codes, EXIT_CODES["error"]] if failed else codes)
