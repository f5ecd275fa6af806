"""stepcut compare: how two groups of people differ in doing a procedure."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from stepcut.cli.common import add_progress, progress_hook, tell_failures
from stepcut.cli.feature_options import add_device, add_trust
from stepcut.errors import OptionError
from stepcut.files.atomic import write_text

if TYPE_CHECKING:
    from stepcut.timeline import Timeline

EXAMPLES = """examples:
  stepcut compare novices/ experts/ -p sandwich.proc                        what differs, the surest first
  stepcut compare before/ after/ -p sandwich.proc --format csv              for a spreadsheet
  stepcut compare novices/ experts/ -p sandwich.proc --budget times.csv --plot times.svg
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of `stepcut compare`."""
    parser.add_argument("group", nargs=2, help="a folder of videos, or of files with their features")
    parser.add_argument("-p", "--procedure", required=True, help="a folder made by stepcut learn")
    parser.add_argument("--format", choices=("text", "csv", "latex", "json"), default="text", help="how to print it")
    parser.add_argument("--budget", metavar="FILE", help="write the seconds of every video and step, as CSV")
    parser.add_argument("--plot", metavar="FILE", help="draw the seconds of every step in both groups (.svg .png .pdf)")
    add_device(parser)
    add_trust(parser)
    add_progress(parser)


def run(args: argparse.Namespace) -> int:
    """Cut the videos of both groups and print what differs; 2 when one cannot be cut."""
    from stepcut.checking.compare import compare_groups, draw_budget, time_budget
    from stepcut.procedure.many_videos import for_each_video

    names = [Path(group).name or str(group) for group in args.group]
    names = names if names[0] != names[1] else ["A", "B"]
    groups: dict[str, list[Timeline]] = {}
    failed = False
    for name, folder in zip(names, args.group, strict=True):
        answers = for_each_video(
            "segment", args.procedure, find_inputs(folder), None, args.device, progress_hook(args), args.trust
        )
        failed |= bool(tell_failures(answers))
        groups[name] = [answer for answer in answers if not isinstance(answer, Exception)]
    first, second = groups.values()
    steps = list(dict.fromkeys(step for timeline in (*first, *second) for step in timeline.steps))
    print(compare_groups(first, second, steps).format(args.format))
    if args.budget:
        write_text(args.budget, time_budget(groups, steps).csv())
    if args.plot:
        draw_budget(groups, steps).figure.savefig(args.plot)
    return 2 if failed else 0


def find_inputs(folder: str) -> list[str]:
    """The videos or feature files of a folder."""
    from stepcut.features.read import feature_files
    from stepcut.features.video.find import find_videos

    if not Path(folder).is_dir():
        raise OptionError(f"{folder} is not a folder; give a folder with the videos, or the features, of each group.")
    return [str(path) for path in feature_files(Path(folder)) or find_videos([folder])]
