"""`stepcut report`: write a procedure as one HTML file."""

import argparse
from pathlib import Path

from stepcut.cli.common import ask_procedure, find_moved, warn_changed
from stepcut.errors import OptionError
from stepcut.files.atomic import write_text
from stepcut.procedure.loading import load
from stepcut.show.report import make_report


def run(args: argparse.Namespace) -> int:
    if Path(args.output).suffix.lower() not in (".html", ".htm"):
        raise OptionError(
            f"-o {args.output}: a report is an HTML page. Use a name that ends in .html.",
            setting="output",
            value=args.output,
        )
    procedure = load(args.procedure, trust=args.trust)
    procedure = procedure.moved(find_moved(procedure.videos, args.videos))
    warn_changed(procedure, procedure.videos)
    checks, failed = ask_procedure(args, "check", args.check) if args.check else ([], False)
    title = args.title or Path(args.procedure).resolve().name.removesuffix(".proc")
    page = make_report(procedure, args.truth, [check for _, check in checks], args.pictures, title)
    write_text(args.output, page)
    print(f"the report is in {args.output}")
    return 2 if failed else 0
