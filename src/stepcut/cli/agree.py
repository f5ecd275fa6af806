"""`stepcut agree`: measure agreement of two annotators, or of an annotator and a procedure."""

import argparse
import shlex
from pathlib import Path

from stepcut.cli.common import label_options, read_timelines, show_table, this_program
from stepcut.evaluation.agreement import compare_annotations
from stepcut.formats import format_to_write, write
from stepcut.timeline import clock


def run(args: argparse.Namespace) -> int:
    if args.output:
        format_to_write(Path(args.output))  # refuse an unknown suffix before any work
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
        # Differences too short for the printed times are rounding of formats that count frames.
        visible = {
            name: [s for s in timeline if clock(s.start) != clock(s.end)]
            for name, timeline in apart.items()
        }
        listed = [(name, segment) for name, segments in visible.items() for segment in segments]
        listed.sort(key=lambda each: -each[1].duration)
        for name, segment in listed[: args.worst]:
            print(f"{name}  {clock(segment.start)}  {clock(segment.end)}  {segment.step}")
        if len(listed) > args.worst:
            print(f"{args.worst} of {len(listed)} disagreements; -o FILE writes all.")
        if listed:
            name, segment = listed[0]
            words = [args.first, "--beside", args.second, "--at", f"{name}@{segment.start:g}"]
            words += ["--annotators", *args.annotators] if args.annotators else []
            words += [word for name, value in how.items() for word in (f"--{name}", value)]
            print(f"show them:  {this_program()} view {shlex.join(words)}")
    return 0
