"""What commands have in common: --seed, --quiet, --log and the hook they choose, --engine, and how they speak."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from stepcut import parallel
from stepcut.errors import StepcutError, printable
from stepcut.progress import Bar, Hook, JsonLog, silent

if TYPE_CHECKING:
    from stepcut.parallel.contract import Engine
    from stepcut.timeline import Timeline


def add_seed(parser: argparse.ArgumentParser) -> None:
    """Add --seed, where something is drawn at random."""
    parser.add_argument("--seed", type=int, default=0, help="same seed, same result on one machine (default 0)")


def add_progress(parser: argparse.ArgumentParser) -> None:
    """Add --quiet and --log, where there is progress to show; see `progress_hook`."""
    parser.add_argument("--quiet", action="store_true", help="show no progress")
    parser.add_argument("--log", choices=["bar", "json"], default="bar", help="progress for people or for machines")


def progress_hook(args: argparse.Namespace) -> Hook:
    """The hook that --quiet and --log ask for; progress goes to standard error."""
    if args.quiet:
        return silent
    return JsonLog() if args.log == "json" else Bar()


def add_engine(parser: argparse.ArgumentParser, *also: str) -> None:
    """Where the work is done; `also` are further words for --workers."""
    group = parser.add_argument_group("where the work is done")
    group.add_argument("--engine", default="local", help="local (default: this machine) or ray, a cluster")
    group.add_argument(
        "--address", help="with --engine ray: the cluster (auto: this machine's); left out, one starts here"
    )
    group.add_argument(
        "--workers",
        *also,
        dest="workers",
        type=int,
        metavar="N",
        help="do N at once, each in a process of its own (left out: as the engine sees fit; see docs/parallel.md)",
    )


def open_engine(args: argparse.Namespace, always: bool = False) -> AbstractContextManager[Engine | None]:
    """The engine that --engine, --workers and --address ask for; see `stepcut.parallel.open_engine`."""
    return parallel.open_engine(args.engine, args.workers, args.address, always)


def tell_failures(answers: Sequence[object]) -> bool:
    """Print what went wrong with some of many items; where it is one thing with all of them, raise it."""
    errors = [answer for answer in answers if isinstance(answer, Exception)]
    if errors and (len({str(error) for error in errors}) == 1 and len(errors) == len(answers)):
        raise errors[0]
    for error in errors:
        if not isinstance(error, StepcutError):
            raise error
        say(str(error))
    return bool(errors)


def read_timelines(
    source: str,
    format: str | None = None,
    rate: str | None = None,
    annotator: str | None = None,
    columns: str | None = None,
) -> dict[str, Timeline]:
    """Video name -> timeline, from label files or from a learned procedure, whose timelines know their video files."""
    from stepcut.formats import read_folder
    from stepcut.procedure.folder import is_procedure
    from stepcut.procedure.procedure import load

    if format is None and is_procedure(Path(source)):
        procedure = load(source)
        found = procedure.timelines.items()
        return {name: replace(each, video=procedure.videos.get(name) or name) for name, each in found}
    return read_folder(source, format, rate, annotator, columns)


def say(text: str) -> None:
    """One line on standard error."""
    print(f"stepcut: {printable(' '.join(text.split()))}", file=sys.stderr)
