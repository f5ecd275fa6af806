"""stepcut check: say what a video misses, repeats or does out of order."""

from __future__ import annotations

import argparse
import json

from stepcut.cli.common import add_common

EXAMPLES = """examples:
  stepcut check sandwich.proc new.mp4             in words; exit code 0 fine, 1 deviations, 2 error
  stepcut check sandwich.proc new.mp4 --json      for machines
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of `stepcut check`."""
    parser.add_argument("procedure", help="a folder made by stepcut learn")
    parser.add_argument("video", help="a video, or a file with its features")
    parser.add_argument("--json", action="store_true", help="print the report as one JSON object")
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Check the video, print the report; 1 when it deviates."""
    from stepcut.folder import load

    report = load(args.procedure).check(args.video)
    print(json.dumps(report.to_json(), ensure_ascii=False) if args.json else report)
    return 0 if report.ok else 1
