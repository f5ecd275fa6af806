"""`stepcut agree`: how far two annotators, or an annotator and a proposal, say the same, and where they do not."""

from __future__ import annotations

import argparse

from stepcut.cli.common import read_timelines

EXAMPLES = """examples:
  stepcut agree ann/ bob/                                  two folders of label files
  stepcut agree corrected/ sandwich.proc                   a person and what was proposed
  stepcut agree tea.eaf tea.eaf --annotators ann bob       two tiers of one file
  stepcut agree ann/ bob/ -o disagreements.json            where they differ, as timelines for any format
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of `stepcut agree`."""
    parser.add_argument("first", metavar="A", help="a label file, a folder of them, or a learned procedure")
    parser.add_argument("second", metavar="B", help="another; videos are matched by name, steps by name")
    parser.add_argument(
        "--tolerance", type=float, default=1.0, metavar="S", help="seconds a boundary may be off (default 1)"
    )
    parser.add_argument("--annotators", nargs=2, metavar=("A", "B"), help="whose labels, where a file has several")
    parser.add_argument("--rate", help="frames per second, for formats that count frames")
    parser.add_argument("--worst", type=int, default=10, metavar="N", help="disagreements to list (default 10)")
    parser.add_argument("--format", default="text", help="text (default), csv, latex, json or markdown")
    parser.add_argument("-o", "--output", metavar="FILE", help="write all disagreements, in the format of the suffix")


def run(args: argparse.Namespace) -> int:
    """Print the table and the longest disagreements."""
    from stepcut.evaluation.agreement import compare_annotations
    from stepcut.formats import write
    from stepcut.timeline import clock

    names = args.annotators or (None, None)
    first = read_timelines(args.first, rate=args.rate, annotator=names[0])
    second = read_timelines(args.second, rate=args.rate, annotator=names[1])
    table, apart = compare_annotations(first, second, args.tolerance)
    print(table.format(args.format).rstrip("\n"))
    if args.output:
        write(args.output, list(apart.values()))
    if args.format == "text":
        listed = [(name, segment) for name, timeline in apart.items() for segment in timeline]
        listed.sort(key=lambda each: -each[1].duration)
        for name, segment in listed[: args.worst]:
            print(f"{name}  {clock(segment.start)}  {clock(segment.end)}  {segment.step}")
        if len(listed) > args.worst:
            print(f"{args.worst} of {len(listed)} disagreements; -o FILE writes all.")
    return 0
