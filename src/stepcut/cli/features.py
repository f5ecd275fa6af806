"""`stepcut features`: compute the features of videos or sensor files, one file each."""

import argparse
import sys

from stepcut.cli import say
from stepcut.cli.common import chosen_options, open_engine, progress_hook, spec_of
from stepcut.errors import OptionError
from stepcut.features.extract import export, extract
from stepcut.features.find import are_sensors
from stepcut.features.sensors import load_sensors


def run(args: argparse.Namespace) -> int:
    """Compute, write, and list unusable files; return 2 if there are any."""
    sensors = are_sensors(args.videos)
    if sensors:
        features, failures = load_sensors(args.videos, args.rate, args.fps, args.strict)
    elif args.rate is not None:
        raise OptionError(
            f"--rate {args.rate}: for sensor files (.csv). For videos, set the rows per second "
            f"with --fps {args.rate}.",
            setting="rate",
            value=args.rate,
        )
    else:
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
        kind = "recordings" if sensors else "videos"
        say(f"{len(failures)} of {len(features) + len(failures)} {kind} skipped:")
        print(*(f"  {failure}" for failure in failures), sep="\n", file=sys.stderr)
    return 2 if failures else 0
