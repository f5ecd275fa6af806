"""stepcut report: a procedure as one HTML file."""

from __future__ import annotations

import argparse

from stepcut.cli.common import ask_procedure, find_moved
from stepcut.procedure.procedure import load
from stepcut.show.report import write_report


def run(args: argparse.Namespace) -> int:
    """Check the videos that were asked for, then write the page."""
    procedure = load(args.procedure, trust=args.trust)
    procedure.videos = find_moved(procedure.videos, args.videos)
    checks, failed = ask_procedure(args, "check", args.check) if args.check else ([], False)
    write_report(procedure, args.output, args.truth, [check for _, check in checks], args.pictures, args.title or "")
    print(f"the report is in {args.output}")
    return 2 if failed else 0
