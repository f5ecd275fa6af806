"""What every command has in common: --seed, --quiet, --log, and the progress hook they choose."""

from __future__ import annotations

import argparse

from stepcut.progress import Bar, Hook, JsonLog, silent


def add_common(parser: argparse.ArgumentParser) -> None:
    """Add the options that every command takes."""
    parser.add_argument("--seed", type=int, default=0, help="same seed, same result on one machine (default 0)")
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument("--log", choices=["bar", "json"], default="bar", help="progress for people or for machines")


def progress_hook(args: argparse.Namespace) -> Hook:
    """The hook that --quiet and --log ask for; progress goes to standard error."""
    if args.quiet:
        return silent
    return JsonLog() if args.log == "json" else Bar()
