"""stepcut segment: cut one more video with a learned procedure."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from stepcut.cli.common import add_engine, add_progress, open_engine, progress_hook, tell_failures
from stepcut.cli.feature_options import add_device, add_trust
from stepcut.errors import OptionError
from stepcut.files.names import safe_name

EXAMPLES = """examples:
  stepcut segment sandwich.proc new.mp4                 print the timeline
  stepcut segment sandwich.proc new.mp4 -o new.vtt      subtitles; the suffix decides the format
  stepcut segment sandwich.proc new.mp4 -o new.eaf      proposals to correct in ELAN
  stepcut segment sandwich.proc shift/*.mp4 -o 'out/{name}.vtt' --workers 4   many videos
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of `stepcut segment`."""
    parser.add_argument("procedure", help="a folder made by stepcut learn")
    parser.add_argument("video", nargs="+", help="videos, or files with their features")
    parser.add_argument(
        "-o",
        "--output",
        help="where to write it (.csv .json .eaf .vtt .srt .txt ...); left out, it is printed; {name} in it "
        "stands for the video's name",
    )
    add_device(parser)
    add_trust(parser)
    add_engine(parser)
    add_progress(parser)


def run(args: argparse.Namespace) -> int:
    """Cut the videos and write or print their timelines; 2 when one cannot be cut."""
    from stepcut.formats import VIDEO_SUFFIXES, write
    from stepcut.procedure.many_videos import for_each_video

    if len(args.video) > 1 and args.output and "{name}" not in args.output:
        raise OptionError(
            f"-o {args.output} is one file for {len(args.video)} videos; write {{name}} where the name of the video "
            "belongs, for example -o 'out/{name}.vtt'."
        )
    with open_engine(args) as engine:
        answers = for_each_video(
            "segment", args.procedure, args.video, engine, args.device, progress_hook(args), args.trust
        )
    failed = tell_failures(answers)
    for video, timeline in zip(args.video, answers, strict=True):
        if isinstance(timeline, Exception):
            continue
        if args.output:
            place = args.output.replace("{name}", str(safe_name(timeline.video or "video")))
            film = Path(video).suffix[1:].lower() in VIDEO_SUFFIXES
            write(place, replace(timeline, video=video) if film else timeline)  # ELAN links the film itself
        else:
            print(timeline)
    return 2 if failed else 0
