"""stepcut check: say what a video misses, repeats or does out of order."""

from __future__ import annotations

import argparse
import json

from stepcut.cli.common import add_engine, add_progress, open_engine, progress_hook, tell_failures
from stepcut.cli.feature_options import add_device, add_trust

EXAMPLES = """examples:
  stepcut check sandwich.proc new.mp4             in words; exit code 0 fine, 1 deviations, 2 error, 3 another task
  stepcut check sandwich.proc new.mp4 --json      for machines
  stepcut check sandwich.proc shift/*.mp4 --json --workers 4   many videos, a line for each
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of `stepcut check`."""
    parser.add_argument("procedure", help="a folder made by stepcut learn")
    parser.add_argument("video", nargs="+", help="videos, or files with their features")
    parser.add_argument("--json", action="store_true", help="print each report as one JSON object")
    add_device(parser)
    add_trust(parser)
    add_engine(parser)
    add_progress(parser)


def run(args: argparse.Namespace) -> int:
    """Check the videos, print the reports; 1 when one deviates, 2 when one cannot be checked, 3 for another task."""
    from stepcut.procedure.many_videos import for_each_video

    with open_engine(args) as engine:
        answers = for_each_video(
            "check", args.procedure, args.video, engine, args.device, progress_hook(args), args.trust
        )
    failed = tell_failures(answers)
    reports = [answer for answer in answers if not isinstance(answer, Exception)]
    for report in reports:
        print(json.dumps(report.to_json(), ensure_ascii=False) if args.json else report)
    return 2 if failed else max((report.exit_code for report in reports), default=0)
