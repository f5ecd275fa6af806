"""stepcut check: say what a video misses, repeats or does out of order."""

import argparse
import json

from stepcut.checking.report import Report
from stepcut.cli import say
from stepcut.cli.common import ask_procedure
from stepcut.errors import in_words
from stepcut.procedure.procedure import read_outline


def run(args: argparse.Namespace) -> int:
    """Check the videos, print each report when it is there.

    1 when one deviates, 2 when one cannot be checked, 3 for another task.
    """
    if note := read_outline(args.procedure).untaught:
        say(note)

    def tell(_: str, report: Report) -> None:
        # What concerns all of them is said once, at the end.
        text = str(report).removesuffix(f"\n  ({report.note})")
        print(json.dumps(report.to_json(), ensure_ascii=False) if args.json else text, flush=True)

    def tell_failed(name: str, error: Exception) -> None:
        if args.json:
            print(
                json.dumps({"video": name, "error": in_words(error)}, ensure_ascii=False),
                flush=True,
            )

    reports, failed = ask_procedure(args, "check", args.video, tell, tell_failed)
    for note in dict.fromkeys(
        report.note for _, report in reports if report.note and not args.json
    ):
        print(note)
    return 2 if failed else max((report.exit_code for _, report in reports), default=0)
