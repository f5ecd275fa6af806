"""stepcut segment: cut one more video with a learned procedure."""

from __future__ import annotations

import argparse

from stepcut.cli.common import add_common

EXAMPLES = """examples:
  stepcut segment sandwich.proc new.mp4                 print the timeline
  stepcut segment sandwich.proc new.mp4 -o new.vtt      subtitles; the suffix decides the format
  stepcut segment sandwich.proc new.mp4 -o new.eaf      proposals to correct in ELAN
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of `stepcut segment`."""
    parser.add_argument("procedure", help="a folder made by stepcut learn")
    parser.add_argument("video", help="a video, or a file with its features")
    parser.add_argument(
        "-o", "--output", help="where to write it (.csv .json .eaf .vtt .srt .txt ...); left out, it is printed"
    )
    add_common(parser)


def run(args: argparse.Namespace) -> int:
    """Cut the video and write or print its timeline."""
    from stepcut.folder import load
    from stepcut.formats import write

    timeline = load(args.procedure).segment(args.video)
    if args.output:
        write(args.output, timeline)
    else:
        print(timeline)
    return 0
