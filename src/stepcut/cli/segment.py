"""`stepcut segment`: segment new videos with a learned procedure."""

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
    """Segment the videos and write or print each timeline; return 2 if a video fails."""
    if len(args.video) > 1 and args.output and "{name}" not in args.output:
        raise OptionError(
            f"-o {args.output} is one file for {len(args.video)} videos. "
            "Use {name} for the name of the video, for example -o 'out/{name}.vtt'.",
            setting="output",
            value=args.output,
        )
    if args.output:
        format_to_write(Path(args.output))  # refuse an unknown suffix before any work
        video, count = Counter(args.video).most_common(1)[0]
        if count > 1:
            raise OptionError(
                f"{video} is listed twice, so one timeline would overwrite the other. "
                "List it once.",
                setting="video",
                value=video,
            )

    def show(video: str, timeline: Timeline) -> None:
        if args.output:
            place = args.output.replace("{name}", str(safe_name(timeline.video or "video")))
            if Path(video).suffix.lower() in VIDEO_SUFFIXES:
                timeline = replace(timeline, video=video)  # ELAN links the video file
            write(place, timeline)
        else:
            print(timeline, flush=True)

    _, failed = ask_procedure(args, "segment", args.video, show)
    return 2 if failed else 0
