"""`stepcut convert`: a timeline file of any format into any other, one file or a whole folder."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from stepcut.cli.common import read_timelines, say
from stepcut.errors import OptionError

EXAMPLES = """examples:
  stepcut convert sandwich.eaf sandwich.json           the suffixes say what it is
  stepcut convert sandwich.proc eaf/ --to elan         what was learned, for annotators to correct
  stepcut convert truth/ tasks.json --to label-studio --rate 30    a folder into one file
  stepcut convert tasks.json eaf/ --to elan            and one file into a folder
  stepcut convert study.boris study.csv                what was coded in BORIS
  stepcut convert sandwich.proc log.xes                for process mining
  stepcut convert mine.csv mine.json --columns start=t0,end=t1,step=label

formats: json, csv, tsv, elan, boris, boris-events, label-studio, textgrid, xes, egoprocel, activitynet, mstcn, vtt,
srt, fiftyone, audacity
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the words of the command."""
    parser.add_argument("source", metavar="IN", help="a label file, a folder of them, or a learned procedure")
    parser.add_argument("target", metavar="OUT", help="the file to write; with --to, also a folder (a file per video)")
    parser.add_argument("--from", dest="source_format", metavar="FORMAT", help="what IN is, where it is not plain")
    parser.add_argument("--to", dest="target_format", metavar="FORMAT", help="what OUT is to be, instead of by suffix")
    parser.add_argument("--rate", help="frames per second, for formats that count frames: 30, 29.97, 30000/1001")
    parser.add_argument("--annotator", help="whose labels to read, where a file has several people's")
    parser.add_argument("--video", help="which video to take, where IN has several")
    parser.add_argument("--columns", metavar="OURS=THEIRS,...", help="what a table calls start, end, step, video ...")
    parser.add_argument(
        "--spreadsheet-safe", action="store_true", help="tables: no name is taken for a formula by a spreadsheet"
    )
    parser.add_argument("--quiet", action="store_true", help="do not say what was written and what it lost")


def run(args: argparse.Namespace) -> int:
    """Read everything in IN and write it to OUT; what the format cannot hold is said on standard error."""
    from stepcut.errors import unknown
    from stepcut.formats import FORMATS, losses, write, write_folder
    from stepcut.formats.kinds import format_to_write

    found = read_timelines(args.source, args.source_format, args.rate, args.annotator, args.columns)
    if args.video is not None:
        if args.video not in found:
            raise OptionError(unknown("video", args.video, found))
        found = {args.video: found[args.video]}
    target = Path(args.target)
    into_folder = args.target.endswith(("/", "\\")) or target.is_dir() or not target.suffix
    if into_folder and args.target_format is None:
        raise OptionError(
            f"{target}: a folder has no suffix to tell the format by. Add --to, one of {', '.join(FORMATS)}."
        )
    name = args.target_format or format_to_write(target)
    if into_folder:
        write_folder(target, found, name, args.rate, spreadsheet=args.spreadsheet_safe)
    else:
        write(target, list(found.values()), name, args.rate, spreadsheet=args.spreadsheet_safe)
    if not args.quiet:
        for loss in losses(list(found.values()), name, args.rate):
            say(f"{name}: {loss}.")
        count = f"{len(found)} video{'s' if len(found) > 1 else ''}"
        print(f"{count} written to {target} as {FORMATS[name].title}.", file=sys.stderr)
    return 0
