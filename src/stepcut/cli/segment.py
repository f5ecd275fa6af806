"""stepcut segment: cut new videos with a learned procedure."""

import argparse
from collections import Counter
from dataclasses import replace
from pathlib import Path

from stepcut.cli.common import ask_procedure
from stepcut.errors import OptionError
from stepcut.files.names import VIDEO_SUFFIXES, safe_name
from stepcut.formats import format_to_write, write
from stepcut.timeline import Timeline


def run(args: argparse.Namespace) -> int:
    """Cut the videos and write or print each timeline when it is there; 2 when one cannot be
    cut."""
    if len(args.video) > 1 and args.output and "{name}" not in args.output:
        raise OptionError(
            f"-o {args.output} is one file for {len(args.video)} videos; write {{name}} where the name of the video "
            "belongs, for example -o 'out/{name}.vtt'."
        )
    if args.output:
        format_to_write(Path(args.output))  # a suffix that is unknown is told before any work
    if args.output and (
        twice := [video for video, count in Counter(args.video).items() if count > 1]
    ):
        raise OptionError(
            f"{twice[0]} is given twice; one timeline would overwrite the other. Give it once."
        )

    def tell(video: str, timeline: Timeline) -> None:
        if args.output:
            place = args.output.replace("{name}", str(safe_name(timeline.video or "video")))
            film = Path(video).suffix.lower() in VIDEO_SUFFIXES
            write(
                place, replace(timeline, video=video) if film else timeline
            )  # ELAN links the film itself
        else:
            print(timeline, flush=True)

    _, failed = ask_procedure(args, "segment", args.video, tell)
    return 2 if failed else 0
