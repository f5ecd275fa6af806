"""`stepcut experiment`: a table of the paper on your data, ours beside the published one."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from stepcut.cli.common import add_engine, add_progress, add_seed, progress_hook
from stepcut.cli.feature_options import add_features, said, spec_of
from stepcut.errors import OptionError
from stepcut.files.cache import cache_dir

EXAMPLES = """examples:
  stepcut experiment main --data toy --out toy-main                           on videos that stepcut films itself
  stepcut experiment main --data EGOPROCEL --backbone resnet50 --weights resnet50.pth    the paper's network
  stepcut experiment losses --data captaincook4d/ --features omnivore --steps true
  stepcut experiment main --from main.json --format latex --plot main.svg     a table made again, nothing is rerun

tables: main, losses, steps, cuts, views, third-person
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of this command."""
    parser.add_argument("name", metavar="NAME", help="main, losses, steps, cuts, views or third-person")
    parser.add_argument(
        "--data", action="append", metavar="DIR", help="folder of a data set, NAME:DIR, or toy; may be given twice"
    )
    parser.add_argument("--features", metavar="NAME", help="given features by name, where there are several")
    parser.add_argument("--tasks", nargs="+", metavar="TASK", help="only these tasks")
    parser.add_argument("--rows", nargs="+", metavar="ROW", help="only these rows (uniform is always there)")
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds, from --seed on (default 3)")
    parser.add_argument("--steps", default="7", help="K (default 7), or 'true' for each task's own number")
    parser.add_argument("--protocol", help="show the table under this protocol (default: the paper's)")
    parser.add_argument("--out", metavar="DIR", help="where finished cells and results are kept (default: the cache)")
    parser.add_argument(
        "--set",
        nargs="+",
        default=[],
        metavar="KEY=VALUE",
        help="settings, such as cut.smoothness=5 train.iterations=2000 loss.weight=32",
    )
    parser.add_argument(
        "--as-published", action="store_true", help="the paper's own text where ours departs from it (docs/cnc.md)"
    )
    parser.add_argument("--toy", nargs="+", default=[], metavar="KEY=VALUE", help="settings of the toy kitchen")
    parser.add_argument("--from", dest="source", metavar="FILE", help="make the table again from a results file")
    parser.add_argument("--format", default="text", help="text (default), csv, latex, json or markdown")
    parser.add_argument("--plot", metavar="FILE", help="draw it as well: .png, .svg or .pdf")
    add_features(parser)
    add_engine(parser, "--jobs")
    add_seed(parser)
    add_progress(parser)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from stepcut.evaluation.experiments import Results, run_experiment
    from stepcut.methods.cnc.settings import group_settings

    if args.source is not None:
        results = Results.load(args.source)
        if results.experiment.name != args.name:
            raise OptionError(f"{args.source} holds {results.experiment.name!r}, not {args.name!r}. Name that table.")
    else:
        if args.data is None:
            raise OptionError("--data is missing. Give the folder of a data set, NAME:DIR, or toy; or --from FILE.")
        place = _place(args.out)
        train, cut = group_settings(_settings(args.set))
        made = said(args, "backbone", "weights", "layer", "family")
        results = run_experiment(
            args.name,
            args.data,
            args.features,
            args.tasks,
            args.seeds,
            args.seed,
            args.steps if args.steps == "true" else _value(args.steps),
            args.rows,
            place,
            args.workers,
            args.fps,
            train,
            _settings(args.toy),
            progress_hook(args),
            args.engine,
            args.address,
            spec_of(args) if made else None,
            cut,
            args.as_published,
            args.device,
        )
        words = [args.name, results.record["data"], *(word for word in (args.features, args.backbone) if word)]
        path = place / f"{'-'.join(words)}.json"
        results.save(path)
        if not args.quiet:
            print(f"results kept in {path}", file=sys.stderr)
    if args.plot:
        results.plot(args.plot, args.protocol)
    print(results.table(args.protocol).format(args.format).rstrip("\n"))
    return 0


def _place(out: str | None) -> Path:
    return cache_dir() / "experiments" if out is None else Path(out)


def _settings(words: list[str]) -> dict[str, Any]:
    """`KEY=VALUE` words as a dict; values are read as JSON where they are JSON."""
    settings = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise OptionError(f"{word!r} is not a setting; write KEY=VALUE, for example train.iterations=200.")
        settings[key] = _value(value)
    return settings


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
