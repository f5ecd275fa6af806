"""`stepcut clips`: write every segment as a clip and a picture, and a time budget."""

import argparse
from pathlib import Path

from stepcut.cli import say
from stepcut.cli.common import find_moved, progress_hook, warn_changed
from stepcut.errors import unknown
from stepcut.files.names import spell
from stepcut.procedure.loading import read_outline
from stepcut.progress import Stage
from stepcut.show.clips import write_clips


def run(args: argparse.Namespace) -> int:
    """Write the clips and report failures; return 2 if a video fails."""
    outline = read_outline(args.procedure)  # clips need no model
    step = None if args.step is None else spell([args.step], outline.steps)[args.step]
    if step is not None and step not in outline.steps:
        raise unknown("step", step, outline.steps)
    timelines, videos = outline.timelines, find_moved(outline.videos, args.videos)
    warn_changed(outline, videos)
    total = sum(
        step in (None, segment.step) for timeline in timelines.values() for segment in timeline
    )
    clips, failed = 0, 0
    with Stage(progress_hook(args), "clips", total=total, unit="clips") as stage:
        found = write_clips(timelines, videos, Path(args.output), step)
        for video, clip in found:
            if isinstance(clip, Exception):
                failed += 1
                say(str(clip))
            else:
                clips += 1
                stage.advance(item=video)
    print(f"{clips} clips in {args.output}; time budget: {Path(args.output) / 'time-budget.csv'}")
    return 2 if failed else 0
