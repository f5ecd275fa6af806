"""stepcut teach: a procedure learned again from labels of some videos, or from what was corrected in the viewer."""

from __future__ import annotations

import argparse

from stepcut.cli.common import add_progress, progress_hook
from stepcut.errors import OptionError

EXAMPLES = """examples:
  stepcut teach sandwich.proc                          from what was corrected in stepcut view
  stepcut teach sandwich.proc corrected/ -o new.proc   from label files of some of its videos
  stepcut teach sandwich.proc --back                   as it was before
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of `stepcut teach`."""
    parser.add_argument("procedure", help="a folder made by stepcut learn")
    parser.add_argument("labels", nargs="?", help="label files, in any format; left out, the viewer's corrections")
    parser.add_argument("-o", "--output", metavar="P", help="where to keep what was taught (default: in its place)")
    parser.add_argument("-k", "--steps", type=int, metavar="K", help="how many steps, when more than are named")
    parser.add_argument(
        "--source", nargs="+", metavar="FILE", help="its videos or feature files, when they are not where they were"
    )
    parser.add_argument("--back", action="store_true", help="bring back the procedure as it was before it was taught")
    parser.add_argument("--trust", action="store_true", help="run code of others that the procedure names")
    add_progress(parser)


def run(args: argparse.Namespace) -> int:
    """Teach, and say what changed."""
    from stepcut.procedure.taught import changes, take_back, teach_folder

    if args.back:
        if args.labels or args.output:
            raise OptionError("--back takes the last teaching back; give it no labels and no -o.")
        take_back(args.procedure)
        print(f"{args.procedure} is as it was before it was taught")
        return 0
    before, after = teach_folder(
        args.procedure, args.labels, args.output, args.steps, args.source, args.trust, progress_hook(args)
    )
    print(after)
    taught = f"learned from {len(after.given)} labelled videos and {len(after.samples) - len(after.given)} others"
    print(f"\n{taught}; what is another step now:")
    for name, share in sorted(changes(before, after).items(), key=lambda item: -item[1]):
        print(f"  {share:5.0%}  {name}{'  (labelled)' if name in after.given else ''}")
    for name, reason in after.suggest_why():
        print(f"label next:  {name} ({reason})")
    kept = args.output or args.procedure
    print(f"\nkept in {kept}\nlook at it:  stepcut view {kept}")
    if not args.output:
        print(f"take it back:  stepcut teach {kept} --back")
    return 0
