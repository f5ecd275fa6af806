"""`stepcut clips`: every segment as a clip and a picture, and where the time goes."""

from __future__ import annotations

import argparse
from pathlib import Path

from stepcut.cli.common import add_progress, progress_hook, say
from stepcut.errors import OptionError, unknown
from stepcut.progress import Stage

EXAMPLES = """examples:
  stepcut clips sandwich.proc -o clips/                     a folder per step, a clip and a picture per segment
  stepcut clips sandwich.proc -o clips/ --contact-sheet     and a sheet of the pictures of each step
  stepcut clips sandwich.proc -o clips/ --step 'add jam'    one step, and a movie of it in all videos at once
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of `stepcut clips`."""
    parser.add_argument("procedure", help="a folder made by stepcut learn")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="the folder to write")
    parser.add_argument("--step", metavar="NAME", help="only this step; also writes grid.mp4, all videos side by side")
    parser.add_argument("--contact-sheet", action="store_true", help="a sheet with the pictures of each step")
    add_progress(parser)


def run(args: argparse.Namespace) -> int:
    """Cut, and tell what could not be cut: 2 if there was such a video."""
    from stepcut.procedure.procedure import load
    from stepcut.show.clips import write_clips

    procedure = load(args.procedure)
    if args.step is not None and args.step not in procedure.steps:
        raise OptionError(unknown("step", args.step, procedure.steps))
    timelines = procedure.timelines
    total = sum(args.step in (None, segment.step) for timeline in timelines.values() for segment in timeline)
    clips, failed = 0, 0
    with Stage(progress_hook(args), "clips", total=total, unit="clips") as stage:
        found = write_clips(timelines, procedure.videos, Path(args.output), args.step, args.contact_sheet)
        for video, clip in found:
            if isinstance(clip, Exception):
                failed += 1
                say(str(clip))
            else:
                clips += 1
                stage.advance(item=video)
    print(f"{clips} clips in {args.output}; where the time goes: {Path(args.output) / 'time-budget.csv'}")
    return 2 if failed else 0
