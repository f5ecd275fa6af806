"""`stepcut experiment`: a table of the paper on your data, ours beside the published one."""

import argparse
import sys
from pathlib import Path

from stepcut.cli.common import progress_hook, read_settings, read_value, said, spec_of
from stepcut.errors import OptionError, choose
from stepcut.files.cache import cache_dir
from stepcut.files.names import safe_name
from stepcut.paper.cnc.method import group_settings
from stepcut.paper.experiments import EXPERIMENTS, Results, run_experiment
from stepcut.paper.experiments.cells import choose_protocol


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    choose("experiment", args.name, EXPERIMENTS)
    choose_protocol(args.protocol or "strict")  # one that is unknown is told before any work
    if args.from_ is not None:
        results = Results.load(args.from_)
        if results.experiment.name != args.name:
            raise OptionError(
                f"{args.from_} holds {results.experiment.name!r}, not {args.name!r}. Name that table."
            )
    else:
        if not args.data:
            raise OptionError(
                "--data is missing. Give the folder of a data set, NAME:DIR, or toy; or --from FILE."
            )
        place = cache_dir() / "experiments" if args.out is None else Path(args.out)
        train, cut = group_settings(read_settings(args.set or []))
        made = said(args, "backbone", "weights", "layer", "family")
        results = run_experiment(
            steps=args.steps if args.steps == "true" else read_value(args.steps),
            folder=place,
            jobs=args.workers if args.jobs is None else args.jobs,
            train=train,
            cut=cut,
            toy=read_settings(args.toy or []),
            progress=progress_hook(args),
            spec=spec_of(args) if made else None,
            **said(
                args,
                "name",
                "data",
                "features",
                "tasks",
                "seeds",
                "seed",
                "rows",
                "fps",
                "engine",
                "address",
            ),
            **said(args, "device", "maps", "as_published"),
        )
        words = [
            args.name,
            results.record["data"],
            *(word for word in (args.features, args.backbone) if word),
        ]
        path = place / f"{safe_name('-'.join(words).replace('/', '_'))}.json"
        results.save(path)
        if not args.quiet:
            print(f"results kept in {path}", file=sys.stderr)
    if args.plot:
        results.plot(args.plot, args.protocol)
    print(results.table(args.protocol).format(args.format).rstrip("\n"))
    return 0
