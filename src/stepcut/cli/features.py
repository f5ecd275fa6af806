"""The command `stepcut features`: compute the features of videos and write them, one file per video."""

from __future__ import annotations

import argparse
import sys

from stepcut.cli.common import add_common, add_engine, open_engine, progress_hook

EXAMPLES = """examples:
  stepcut features sandwich/ -o features/              then: stepcut learn features/ -k 7 -o s.proc
  stepcut features a.mp4 'more/*.mkv' --fps 4 -o out/  other videos, four rows per second
  stepcut features s3://films/ -o s3://out/ --engine ray --address auto   on a cluster, from shared storage
  stepcut features sandwich/ -o maps/ --backbone resnet50 --weights resnet50.pth   the paper's conv4c maps
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words that `stepcut features` understands."""
    parser.add_argument("videos", nargs="+", help="folders, video files or globs")
    parser.add_argument("-o", "--output", required=True, help="folder for NAME.safetensors, one per video")
    parser.add_argument(
        "--fps", default="2", help="rows per second, a number or a fraction like 30000/1001 (default 2)"
    )
    add_backbone(parser)
    parser.add_argument("--cache", help="where features are kept (default STEPCUT_CACHE, or the user's cache folder)")
    parser.add_argument("--strict", action="store_true", help="stop at the first video that cannot be used")
    add_engine(parser)
    add_common(parser)


def add_backbone(parser: argparse.ArgumentParser) -> None:
    """The options that choose a backbone."""
    parser.add_argument("--backbone", default="efficientnet-lite0", help="efficientnet-lite0 (default) or resnet50")
    parser.add_argument("--weights", help="file with the backbone's weights; resnet50 needs one (.safetensors, .pth)")
    parser.add_argument("--layer", help="layer of resnet50, conv2a to conv5c (default conv4c)")
    parser.add_argument("--family", help="family of resnet50's weights, v1.5 (torchvision) or v1 (Keras, Caffe)")
    parser.add_argument("--device", default="auto", help="auto (default), cpu or cuda")


def run(args: argparse.Namespace) -> int:
    """Compute, write, and list what could not be used: exit code 2 if there was any such video."""
    from stepcut.see.backbones import load_backbone
    from stepcut.see.features import export, extract

    names = ("backbone", "device", "weights", "layer", "family")
    recipe = {name: getattr(args, name) for name in names}
    with open_engine(args) as engine:
        backbone = load_backbone(**recipe) if engine is None else engine.backbone(recipe)
        features, failures = extract(
            args.videos, backbone, args.fps, args.cache, progress_hook(args), args.strict, args.device, engine
        )
    for found in features:
        target = export(found, args.output, backbone.fingerprint)
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
