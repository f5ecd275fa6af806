"""`stepcut features`: compute the features of videos, one file per video."""

import argparse
import sys

from stepcut.cli.common import chosen_options, open_engine, progress_hook, spec_of
from stepcut.features.extract import export, extract


def run(args: argparse.Namespace) -> int:
    """Compute, write, and list unusable videos; return 2 if there are any."""
    with open_engine(args) as engine:
        features, failures = extract(
            args.videos,
            spec_of(args),
            progress=progress_hook(args),
            strict=args.strict,
            device=args.device,
            engine=engine,
            **chosen_options(args, "cache"),
        )
    for found in features:
        target = export(found, args.output)
        damaged = f", {found.corrupt} damaged frames skipped" if found.corrupt else ""
        if not args.quiet:
            shape = " x ".join(str(n) for n in found.rows.shape)
            print(f"{target}  {shape}, {found.rate} per second, {found.duration:.1f} s{damaged}")
    if failures:
        print(
            f"stepcut: {len(failures)} of {len(features) + len(failures)} videos skipped:",
            file=sys.stderr,
        )
        for failure in failures:
            print(f"  {failure}", file=sys.stderr)
        return 2
    return 0
