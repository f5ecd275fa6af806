"""The command `stepcut features`: compute the features of videos and write them, one file per video."""

from __future__ import annotations

import argparse
import sys

from stepcut.cli.common import add_engine, add_progress, open_engine, progress_hook
from stepcut.cli.feature_options import add_features, said, spec_of

EXAMPLES = """examples:
  stepcut features sandwich/ -o features/              then: stepcut learn features/ -k 7 -o s.proc
  stepcut features a.mp4 'more/*.mkv' --fps 4 -o out/  other videos, four rows per second
  stepcut features s3://films/ -o s3://out/ --engine ray --address auto   on a cluster, from shared storage
  stepcut features sandwich/ -o maps/ --backbone resnet50 --weights resnet50.pth   the paper's conv4c maps
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words that `stepcut features` understands."""
    parser.add_argument("videos", nargs="+", help="folders, video files or globs")
    parser.add_argument(
        "-o", "--output", required=True, metavar="DIR", help="folder for NAME.safetensors, one per video"
    )
    add_features(parser)
    parser.add_argument(
        "--strict", action="store_true", help="stop at the first video that cannot be used, instead of leaving it out"
    )
    add_engine(parser)
    add_progress(parser)


def run(args: argparse.Namespace) -> int:
    """Compute, write, and list what could not be used: exit code 2 if there was any such video."""
    from stepcut.features.extract import export, extract

    with open_engine(args) as engine:
        features, failures = extract(
            args.videos,
            spec_of(args),
            progress=progress_hook(args),
            strict=args.strict,
            device=args.device,
            engine=engine,
            **said(args, "cache"),
        )
    for found in features:
        target = export(found, args.output)
        damaged = f", {found.corrupt} damaged frames passed over" if found.corrupt else ""
        if not args.quiet:
            shape = " x ".join(str(n) for n in found.rows.shape)
            print(f"{target}  {shape}, {found.rate} per second, {found.duration:.1f} s{damaged}")
    if failures:
        print(f"stepcut: {len(failures)} of {len(features) + len(failures)} videos left out:", file=sys.stderr)
        for failure in failures:
            print(f"  {failure}", file=sys.stderr)
        return 2
    return 0
