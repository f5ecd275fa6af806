"""`stepcut agree`: how far two annotators, or an annotator and a proposal, say the same, and where they do not."""

import argparse
import shlex
from pathlib import Path

from stepcut.cli.common import label_options, read_timelines, show_table, this_program
from stepcut.evaluation.agreement import compare_annotations
from stepcut.formats import format_to_write, write
from stepcut.timeline import clock


def run(args: argparse.Namespace) -> int:
    """Print the table and the longest disagreements."""
    if args.output:
        format_to_write(Path(args.output))  # a suffix that is unknown is told before any work
    names = args.annotators or (None, None)
    how = label_options(args)
    first, second = (
        read_timelines(place, annotator=name, confirmed=True, **how)
        for place, name in zip((args.first, args.second), names, strict=True)
    )
    table, apart = compare_annotations(first, second, args.tolerance)
    if args.output:
        write(args.output, list(apart.values()))
    show_table(table, args.format, args.table)
    if args.format == "text":
        # What is shorter than the times that are shown is rounding, as of a format that counts frames.
        told = {
            name: [s for s in timeline if clock(s.start) != clock(s.end)]
            for name, timeline in apart.items()
        }
        listed = [(name, segment) for name, segments in told.items() for segment in segments]
        listed.sort(key=lambda each: -each[1].duration)
        for name, segment in listed[: args.worst]:
            print(f"{name}  {clock(segment.start)}  {clock(segment.end)}  {segment.step}")
        if len(listed) > args.worst:
            print(f"{args.worst} of {len(listed)} disagreements; -o FILE writes all.")
        if listed:
            words = [
                args.first,
                "--beside",
                args.second,
                "--at",
                f"{listed[0][0]}@{listed[0][1].start:g}",
            ]
            words += ["--annotators", *args.annotators] if args.annotators else []
            words += [word for name, given in how.items() for word in (f"--{name}", given)]
            print(f"look at them:  {this_program()} view {shlex.join(words)}")
    return 0
