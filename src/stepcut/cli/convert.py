"""`stepcut convert`: convert timelines from any format to any other, a file or a folder."""

import argparse
import os
import sys
from pathlib import Path

from stepcut.cli import say
from stepcut.cli.common import chosen_options, label_options, read_timelines
from stepcut.errors import OptionError, unknown
from stepcut.files.atomic import check_place
from stepcut.files.names import match_videos
from stepcut.formats import FORMATS, choose_format, format_to_write, left_out, write, write_folder
from stepcut.order.orders import counted


def run(args: argparse.Namespace) -> int:
    target = _beside(args) if args.target is None else Path(args.target)
    ends = args.target is not None and args.target.endswith(("/", "\\"))
    into_folder = ends or os.path.isdir(target) or not target.suffix
    if into_folder and args.to is None:
        raise OptionError(
            f"{target}: a folder has no suffix that decides the format. "
            f"Add --to, one of {', '.join(FORMATS)}.",
            setting="to",
            allowed=list(FORMATS),
            path=target,
        )
    name = args.to or format_to_write(target)
    check_place(target, into_folder)
    how = {**label_options(args), **chosen_options(args, "annotator")}
    found = read_timelines(args.source, args.from_, **how)
    if args.video is not None:
        chosen = match_videos([args.video], found).get(args.video)
        if chosen is None:
            raise unknown("video", args.video, found)
        found = {chosen: found[chosen]}
    if into_folder:
        write_folder(target, found, name, args.rate, spreadsheet=args.spreadsheet_safe)
    else:
        write(target, found, name, args.rate, spreadsheet=args.spreadsheet_safe)
    if not args.quiet:
        title = FORMATS[name].title
        if lost := left_out(list(found.values()), name):
            say(f"{title} cannot store {', '.join(lost)}.")
        print(f"{counted(len(found))} written to {target} as {title}.", file=sys.stderr)
    return 0


def _beside(args: argparse.Namespace) -> Path:
    """Return the target beside the source: `convert x.xlsx --to csv` writes x.csv."""
    source = Path(args.source)
    if args.to is None or not source.is_file():
        what = "give TARGET, the file to write" if args.to else "give TARGET or --to"
        raise OptionError(f"{source}: {what}, such as {source.stem}.csv.", setting="target")
    target = source.with_suffix(choose_format(args.to).suffix)
    if target == source:
        raise OptionError(
            f"{source}: the result would replace the source. Give another TARGET.",
            setting="target",
            path=source,
        )
    return target
