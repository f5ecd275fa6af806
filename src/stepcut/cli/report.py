"""stepcut report: a procedure as one HTML file."""

from __future__ import annotations

import argparse

from stepcut.cli.common import add_progress, progress_hook
from stepcut.progress import Stage

EXAMPLES = """examples:
  stepcut report sandwich.proc -o report.html
  stepcut report sandwich.proc -o report.html --truth annotations/    with scores
  stepcut report sandwich.proc -o report.html --check new.mp4         with the check of a new video
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of `stepcut report`."""
    parser.add_argument("procedure", help="a folder made by stepcut learn")
    parser.add_argument("-o", "--output", default="report.html", help="the file to write (default report.html)")
    parser.add_argument("--truth", help="a folder of true timelines: adds the scores")
    parser.add_argument(
        "--check", action="append", default=[], metavar="VIDEO", help="a video to check; may be repeated"
    )
    parser.add_argument("--pictures", type=int, default=4, help="how many pictures of each step (default 4)")
    parser.add_argument("--title", default="", help="the heading of the page")
    add_progress(parser)


def run(args: argparse.Namespace) -> int:
    """Check the videos that were asked for, then write the page."""
    from stepcut.procedure.procedure import load
    from stepcut.show.report import write_report

    procedure, checks = load(args.procedure), []
    if args.check:
        with Stage(progress_hook(args), "check", total=len(args.check), unit="videos") as stage:
            for video in args.check:
                checks.append(procedure.check(video))
                stage.advance(item=video)
    write_report(procedure, args.output, args.truth, checks, args.pictures, args.title)
    print(f"the report is in {args.output}")
    return 0
