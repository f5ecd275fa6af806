"""`stepcut learn`: learn a procedure from a folder of videos."""

import argparse
import inspect
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from stepcut.cli import say
from stepcut.cli.common import (
    chosen_options,
    describe_trust,
    open_engine,
    progress_hook,
    read_settings,
    spec_of,
    this_program,
)
from stepcut.errors import OptionError, StepcutError
from stepcut.features.files import load_features
from stepcut.features.find import find_inputs
from stepcut.features.spec import FeatureSpec
from stepcut.files.addresses import Address, as_path
from stepcut.formats import read_folder
from stepcut.methods import METHODS
from stepcut.methods.inputs import read_step_count
from stepcut.plugins import find, is_own
from stepcut.procedure.folder import damaged
from stepcut.procedure.learning import learn
from stepcut.procedure.many import learn_tasks
from stepcut.procedure.store import read_config
from stepcut.timeline import clock

MANY = 40
"""Number of steps above which stepcut warns."""


def run(args: argparse.Namespace) -> int:
    if args.tasks is not None and args.videos:
        raise OptionError(
            f"--tasks {args.tasks} excludes videos ({args.videos[0]}). Use one of the two.",
            setting="tasks",
            value=args.tasks,
        )
    if args.tasks is None and not args.videos:
        raise OptionError(
            "no videos. Name a folder, files or globs, or use --tasks ROOT for many tasks.",
            setting="videos",
        )
    return run_tasks(args) if args.tasks is not None else run_task(args)


def run_task(args: argparse.Namespace) -> int:
    chosen = settings(args)
    if "rate" not in chosen and not args.quiet:
        state_rate(args.videos)
    warn(args.videos, chosen.get("steps"), args.quiet)
    output = args.output or default_output(args.videos[0])
    hook = progress_hook(args)
    with open_engine(args) as engine:
        procedure = learn(args.videos, output=output, progress=hook, engine=engine, **chosen)
    skipped = procedure.config.skipped
    print(procedure)
    for number, words in procedure.suggestions.items():
        print(f"  {procedure.steps[number]} may be: {', '.join(words)}")
    if why := procedure.method.why_steps_:
        print(f"\n{why}")
    place, expected, program = shlex.quote(output), procedure.expectations, this_program()
    print(f"\n{describe_trust(procedure)}")
    if expected.advice:
        unusual = shlex.quote(expected.most_unusual[0])
        print(f"{expected.advice}\n  {program} teach {place} --mistakes {unusual}")
    view = "" if isinstance(as_path(output), Address) else f"\nshow it:  {program} view {place}"
    print(f"\nsaved to {output}{view}")
    suffix = find_inputs(args.videos).files[0].suffix
    print(f"check a new video:  {program} check {place} NEW{suffix}")
    for name, reason in skipped.items():
        print(f"skipped: {name}: {reason}")
    return 2 if skipped else 0


def state_rate(places: Sequence[str]) -> None:
    """Report the rate that is assumed for feature files without one."""
    with suppress(StepcutError):  # errors are reported when all files are read
        inputs = find_inputs(places)
        files = inputs.files if inputs.kind == "feature file" else []
        if first := next((file for file in files if file.suffix != ".safetensors"), None):
            seconds = load_features([first], 1)[0].duration
            say(
                f"assuming 1 row of features per second, so {first.name} lasts {clock(seconds)}; "
                "use --rate N for another rate."
            )


def warn(videos: Sequence[str], steps: object, quiet: bool) -> None:
    """Warn before any work about too few videos or too many steps; refuse a single video."""
    count = None
    with suppress(StepcutError):  # reported once the settings are checked
        count = len(find_inputs(videos))
    if count == 1:
        raise OptionError(
            f"{videos[0]} is a single video, and learning compares videos. Use at least two.",
            setting="videos",
            value=videos,
        )
    if count == 2 and not quiet:
        say(
            "two videos are few: what they share may be chance, and check has little evidence. "
            "Use five or more."
        )
    if isinstance(steps, int) and steps > MANY and not quiet:
        say(f"-k {steps}: most procedures have 5 to 20 steps; more are short and hard to separate.")


def run_tasks(args: argparse.Namespace) -> int:
    """Learn many procedures; return 2 if one failed or a video was skipped."""
    if labels := args.labels or args.transcripts:
        raise OptionError(
            f"{labels} belongs to one task; with --tasks, teach each procedure: stepcut teach",
            setting="labels",
            value=labels,
        )
    output = args.output or f"{args.tasks.rstrip('/')}-procedures"
    with open_engine(args, always=True) as engine:
        assert engine is not None
        learned = learn_tasks(
            args.tasks, output, engine, progress=progress_hook(args), **settings(args)
        )
    print(learned)
    return 2 if learned.notes else 0


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments of `learn`: those of --like, then the options of this command."""
    chosen: dict[str, Any] = {}
    spec = None
    if args.like:
        old = read_config(args.like)
        with damaged(args.like):
            saved = old.method, dict(old.settings)
            chosen = {"false_alarms": old.false_alarms}
            spec = FeatureSpec.from_json(old.backbone, trust=args.trust)
        chosen |= _known_settings(*saved, args)
        if spec is not None:
            chosen.pop("rate", None)
    chosen["backbone"] = spec_of(args, spec)
    if args.steps is not None:
        chosen["steps"] = read_step_count(args.steps)
    chosen |= chosen_options(args, "method", "rate", "false_alarms", "cache", "device", "seed")
    chosen |= chosen_options(args, "labels", "transcripts", "recipe")
    how = chosen_options(args, "label_rate", "columns", "encoding", "sheet")
    if how and not args.labels:
        given = ", ".join(f"--{name.replace('_', '-')}" for name in how)
        raise OptionError(
            f"{given}: for label files, and none were given. Add --labels DIR.", setting="labels"
        )
    if how:
        how["rate"] = how.pop("label_rate", None)
        chosen["labels"] = read_folder(args.labels, confirmed=True, **how)
    if args.names:
        chosen["names"] = [name.strip() for name in args.names.split(",")]
        chosen.setdefault("steps", len(chosen["names"]))
    chosen.update(read_settings(args.set))
    chosen |= {name: True for name in ("as_published", "as_released") if getattr(args, name)}
    if any("." in name for name in chosen):
        maker: Any = find("method", chosen.get("method", "stepcut"), METHODS)
        chosen = maker.arrange(chosen)
    return {**chosen, "strict": args.strict}


def _known_settings(
    method: str, settings: Mapping[str, Any], args: argparse.Namespace
) -> dict[str, Any]:
    """Return the `method` and `settings` of --like, without what is not a setting of the method."""
    custom = [] if method in METHODS or args.method else [method]
    custom += filter(is_own, _strings(settings))
    if custom and not args.trust:
        raise OptionError(
            f"--like {args.like}: its settings name custom code ({custom[0]}). If you trust it, "
            "add --trust.",
            setting="trust",
            value=custom[0],
        )
    name = args.method or method
    known = inspect.signature(find("method", name, METHODS)).parameters
    return {"method": name, **{key: settings[key] for key in known if key in settings}}


def _strings(value: Any) -> Iterator[str]:
    """All strings in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)


def default_output(first: str) -> str:
    """`sandwich/` becomes `sandwich.proc`."""
    path = as_path(first)
    folder = path if path.is_dir() else path.parent
    return f"{(folder if isinstance(folder, Address) else folder.resolve()).name}.proc"
