"""`stepcut experiment`: a table of the paper on your data, or its figure."""

import argparse
import sys
from pathlib import Path
from typing import Any

from stepcut.cli.common import chosen_options, progress_hook, read_settings, show_table, spec_of
from stepcut.errors import OptionError, choose
from stepcut.files import cache_dir
from stepcut.methods.inputs import read_step_count
from stepcut.paper.cnc.method import cut_settings, tune_backbone
from stepcut.paper.cnc.settings import group_settings
from stepcut.paper.experiments import EXPERIMENTS, Results, draw_figure, run_experiment
from stepcut.paper.experiments.results import SCORED, choose_protocol
from stepcut.plugins import is_own, registered

FIGURES = ("figure", "correspondence")


def run(args: argparse.Namespace) -> int:
    choose("experiment", args.name, {**EXPERIMENTS, **dict.fromkeys(FIGURES)})
    if args.name in FIGURES:
        return _figure(args)
    if args.from_ is not None:
        results = Results.load(args.from_)
        if results.experiment.name != args.name:
            here, place = results.experiment.name, args.from_
            run = f"Run stepcut experiment {here} --from {place}"
            what = f"{place} is a table {here!r}, not {args.name!r}. {run}"
            raise OptionError(what, setting="name", value=args.name, allowed=here, path=place)
    else:
        protocols = [args.protocol] if args.protocol and is_custom(args.protocol) else []
        choose_protocol(args.protocol or "strict", [*SCORED, *protocols])  # fail before any work
        settings = _settings(args)
        jobs = args.workers if args.jobs is None else args.jobs
        more = chosen_options(args, "name", "seeds", "rows", "engine", "address", "maps", "data")
        results = run_experiment(**settings, **more, jobs=jobs, protocols=protocols)
        path = settings["folder"] / results.file_name()
        results.save(path)
        if not args.quiet:
            print(f"results saved to {path}", file=sys.stderr)
    if args.plot:
        results.plot(args.plot, args.protocol)
    show_table(results.table(args.protocol), args.format, args.output)
    return 0


def is_custom(protocol: str) -> bool:
    """An entry point, or `package.module:NAME`."""
    return is_own(protocol) or protocol in registered("protocol")


def _figure(args: argparse.Namespace) -> int:
    if not args.plot or len(args.data) != 1 or args.output:
        raise OptionError(
            f"{args.name} needs one --data and --plot FILE, and has no table for -o. Example: "
            f"stepcut experiment {args.name} --data mine/ --plot {args.name}.svg"
        )
    chosen = {"rows": args.rows, "correspond": args.name == "correspondence"}
    print(draw_figure(args.plot, args.data[0], args.video, **chosen, **_settings(args)))
    print(f"drawn to {args.plot}")
    return 0


def _settings(args: argparse.Namespace) -> dict[str, Any]:
    if not args.data:
        fix = "Use the folder of a data set, NAME:DIR, or toy; or --from FILE."
        raise OptionError(f"--data is missing. {fix}", setting="data")
    train, cut = group_settings(read_settings(args.set or []), cut_settings())
    made = chosen_options(args, "backbone", "weights", "layer", "family")
    spec = spec_of(args) if made else None
    if train.get("tune_backbone"):
        spec, train["backbone"] = tune_backbone(spec_of(args))
    return {
        "steps": args.steps if args.steps == "true" else read_step_count(args.steps),
        "folder": cache_dir() / "experiments" if args.out is None else Path(args.out),
        "train": train,
        "cut": cut,
        "toy": read_settings(args.toy or []),
        "progress": progress_hook(args),
        "spec": spec,
        **chosen_options(args, "features", "tasks", "seed", "fps", "device"),
        **chosen_options(args, "as_published", "as_released"),
    }
