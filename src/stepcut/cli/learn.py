"""stepcut learn: from a folder of videos to a procedure."""

from __future__ import annotations

import argparse
import json
import os
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from stepcut.cli.common import add_engine, add_progress, add_seed, open_engine, progress_hook, say
from stepcut.cli.feature_options import add_features, said, spec_of
from stepcut.errors import OptionError
from stepcut.features.spec import FeatureSpec
from stepcut.files.addresses import Address, as_path
from stepcut.parallel.ranks import is_first_process
from stepcut.progress import silent

if TYPE_CHECKING:
    from stepcut.procedure.procedure import Procedure

MANY = 40
"""Steps, beyond which somebody is warned."""

EXAMPLES = """examples:
  stepcut learn sandwich/ -k 7 -o sandwich.proc        a folder of videos, seven steps
  stepcut learn a.mp4 b.mp4 'more/*.mkv' -o out.proc   files and globs; the number of steps is chosen
  stepcut learn sandwich/ --labels corrected/ -o out.proc   some videos are labelled; the rest learns from them
  stepcut learn --tasks kitchen/ -k 7 -o procs/        a procedure for each folder in kitchen/, several at once
  stepcut learn features/ --rate 1 -k 12 -o out.proc   .npy, .npz or .safetensors, one row per second
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of `stepcut learn`."""
    parser.add_argument(
        "videos", nargs="*", help="folders, files or globs of videos, or of feature files; or addresses"
    )
    parser.add_argument("--tasks", metavar="ROOT", help="learn a procedure for each sub-folder of ROOT instead")
    parser.add_argument(
        "-k", "--steps", type=_steps, metavar="K", help="how many steps; 8-14: chosen between these; left out, chosen"
    )
    parser.add_argument(
        "-o", "--output", metavar="P", help="where to keep the procedure (default: the first folder's name + .proc)"
    )
    parser.add_argument("--method", help="stepcut (default) or cnc, the paper's")
    parser.add_argument("--names", metavar="A,B,...", help="names of the steps, separated by commas")
    parser.add_argument("--labels", metavar="DIR", help="label files, in any format, of some of the videos")
    parser.add_argument(
        "--recipe",
        metavar="FILE",
        help="names of the steps in order, one a line: 'stir; 40 s', 'wipe; any time'",
    )
    parser.add_argument("--rate", type=float, help="rows per second of given features that do not say it (default 1)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="any setting of the method, such as background=1; of cnc also cut.smoothness=5, train.iterations=2000",
    )
    parser.add_argument(
        "--as-published", action="store_true", help="cnc: the paper's own text where ours departs from it (docs/cnc.md)"
    )
    parser.add_argument(
        "--false-alarms", type=float, metavar="SHARE", help="of normal videos that check may call wrong (default 0.05)"
    )
    parser.add_argument(
        "--like", metavar="P", help="take all settings from an earlier procedure; what is given here wins"
    )
    parser.add_argument(
        "--strict", action="store_true", help="stop at the first video that cannot be used, instead of leaving it out"
    )
    add_features(parser)
    add_engine(parser)
    add_seed(parser)
    parser.set_defaults(seed=None)  # so that --seed 0 is told from nothing said
    add_progress(parser)


def run(args: argparse.Namespace) -> int:
    """Learn, keep, and say what was found."""
    if args.tasks is not None and args.videos:
        raise OptionError(f"--tasks {args.tasks} and videos ({args.videos[0]}) were given; give one of the two.")
    if args.tasks is None and not args.videos:
        raise OptionError("no video was given. Give a folder, files or globs, or --tasks ROOT for many tasks.")
    return run_tasks(args) if args.tasks is not None else run_task(args)


def run_task(args: argparse.Namespace) -> int:
    """Learn one procedure; several processes started by torchrun learn it together."""
    from stepcut.procedure.learning import learn

    warn(args)
    output = args.output or default_output(args.videos[0])
    with _together():
        first = is_first_process()
        hook = progress_hook(args) if first else silent
        with open_engine(args) as engine:
            procedure = learn(args.videos, output=output, progress=hook, engine=engine, **settings(args))
    skipped = procedure.config["skipped"]
    if first:
        print(procedure)
        for number, words in procedure.suggestions.items():
            print(f"  {procedure.steps[number]} may be: {', '.join(words)}")
        _say_choice(procedure)
        print(f"\nkept in {output}\nlook at it:  stepcut view {output}")
        print(f"check a new video:  stepcut check {output} NEW.mp4")
        for name, reason in skipped.items():
            print(f"left out: {name}: {reason}")
    return 2 if skipped else 0


def _together() -> AbstractContextManager[None]:
    """Several processes, where torchrun started them."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        return nullcontext()
    from stepcut.methods.cnc.ddp import together

    return together()


def _say_choice(procedure: Procedure) -> None:
    """How the number of steps was chosen, what the next one up and down would change, and how far to trust it all."""
    choice, quality = procedure.method.choice_, procedure.quality
    if choice is not None:
        print(f"\n{choice.reason}")
        print("scores: " + ", ".join(f"{count:.0f}: {score:.2f}" for count, score in choice.candidates))
    print(f"\nquality: {quality}")
    print(f"check: {procedure.expectations.forecast}")


def warn(args: argparse.Namespace) -> None:
    """What would disappoint at the end is told before any work: one video, two, or very many steps."""
    from stepcut.features.read import count_videos

    count = count_videos(args.videos)
    if count == 1:
        raise OptionError(f"{args.videos[0]} is one video; steps are found by what videos share. Give at least two.")
    if count == 2 and not args.quiet:
        say("two videos: what they share may be chance, and check has little to go by. Five or more are better.")
    if isinstance(args.steps, int) and args.steps > MANY and not args.quiet:
        say(f"-k {args.steps}: procedures have 5 to 20 steps as a rule; so many will be short and hard to tell apart.")


def run_tasks(args: argparse.Namespace) -> int:
    """Learn many procedures; 2 when one of them failed or a video was left out."""
    from stepcut.procedure.many_tasks import learn_tasks, summarise

    if args.labels:
        raise OptionError(f"--labels {args.labels} are of one task; with --tasks, teach each procedure: stepcut teach")
    output = args.output or f"{args.tasks.rstrip('/')}-procedures"
    with open_engine(args, always=True) as engine:
        assert engine is not None
        learned = learn_tasks(args.tasks, output, engine, progress=progress_hook(args), **settings(args))
    print(summarise(learned))
    return 2 if any(task.error or task.skipped for task in learned) else 0


def settings(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `learn`: those of --like, then what was said here."""
    from stepcut.methods import METHODS
    from stepcut.procedure.folder import read_config

    chosen: dict[str, Any] = {}
    spec = None
    if args.like:
        old = read_config(args.like)
        if not args.method and old["method"] not in METHODS:
            raise OptionError(f"--like {args.like}: its method is {old['method']}; if you trust it, say --method.")
        chosen = {"method": old["method"], "false_alarms": old["false_alarms"], **old["settings"]}
        spec = FeatureSpec.from_json(old["backbone"])
        if spec is not None:
            chosen.pop("rate", None)
    chosen["backbone"] = spec_of(args, spec)
    chosen.update(said(args, "steps", "method", "rate", "false_alarms", "cache", "device"))
    chosen.update(said(args, "labels", "recipe"))
    if args.seed is not None:
        chosen["seed"] = args.seed
    if args.names:
        chosen["names"] = [name.strip() for name in args.names.split(",")]
        chosen.setdefault("steps", len(chosen["names"]))
    given = dict(_setting(word) for word in args.set)
    grouped = {name: given.pop(name) for name in list(given) if "." in name}
    chosen.update(given)
    if grouped:
        from stepcut.methods.cnc.settings import group_settings

        for group, values in zip(("train", "cut"), group_settings(grouped), strict=True):
            if values:
                chosen[group] = {**chosen.get(group, {}), **values}
    if args.as_published:
        chosen["as_published"] = True
    return {**chosen, "strict": args.strict}


def default_output(first: str) -> str:
    """`sandwich/` becomes `sandwich.proc`."""
    path = as_path(first)
    if isinstance(path, Address):
        return f"{path.name if path.is_dir() else path.parent.name}.proc"
    return f"{path.resolve().name}.proc" if path.is_dir() else f"{path.parent.resolve().name}.proc"


def _steps(word: str) -> int | str | tuple[int, int]:
    if word == "auto":
        return word
    try:
        low, dash, high = word.partition("-")
        return (int(low), int(high)) if dash and low else int(word)
    except ValueError:
        message = f"{word!r} is no whole number; give one, a range such as 8-14, or 'auto'"
        raise argparse.ArgumentTypeError(message) from None


def _setting(word: str) -> tuple[str, Any]:
    """`name=value`, the value read as JSON where it can be and as a word otherwise."""
    name, equals, value = word.partition("=")
    if not equals:
        raise OptionError(f"--set {word!r} has no '='; write it as NAME=VALUE, for example --set loss=tcc.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
