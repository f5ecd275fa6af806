"""Shared by the commands: progress, feature options, the engine, and reading of timelines."""

import argparse
import json
import os
import shlex
import shutil
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from stepcut.cli import say
from stepcut.errors import OptionError, StepcutError
from stepcut.features.find import find_videos, name_videos
from stepcut.features.spec import DEFAULT, FeatureSpec, as_spec
from stepcut.files import as_path, check_place
from stepcut.files.names import Fragment, match_videos
from stepcut.formats import read_folder
from stepcut.parallel import engine as parallel
from stepcut.parallel.engine import Engine
from stepcut.parallel.worker import attempt
from stepcut.plugins import from_here
from stepcut.procedure.folder import is_procedure
from stepcut.procedure.learning import ask, open_once, read_outline
from stepcut.procedure.procedure import Procedure
from stepcut.progress import Bar, Hook, JsonLog, Stage, silent
from stepcut.tables import Table, check_picture, check_table
from stepcut.timeline import Timeline

SPEC = ("fps", "weights", "layer", "family", "mean", "scale", "colour", "clip_frames", "clip_fps")


def progress_hook(args: argparse.Namespace) -> Hook:
    if args.quiet:
        return silent
    return JsonLog() if args.log == "json" else Bar()


def spec_of(args: argparse.Namespace, like: FeatureSpec | None = None) -> FeatureSpec:
    fields = {name: getattr(args, name) for name in SPEC}
    fields |= {"size": args.input_size, "output": args.output_name}
    if args.fast:
        fields["fast"] = True
    return as_spec(like or DEFAULT if args.backbone is None else args.backbone, **fields)


def chosen_options(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def label_options(args: argparse.Namespace, *more: str) -> dict[str, Any]:
    return chosen_options(args, "rate", "columns", "encoding", "sheet", *more)


def read_settings(words: Sequence[str]) -> dict[str, Any]:
    """Values that are valid JSON are parsed.

    >>> read_settings(["loss=tcc", "train.iterations=200"])
    {'loss': 'tcc', 'train.iterations': 200}
    """
    settings: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise OptionError(
                f"--set {word}: write it as NAME=VALUE, for example --set background=0.2."
            )
        settings[name] = value
        with suppress(ValueError):
            settings[name] = json.loads(value)
    return settings


def open_engine(
    args: argparse.Namespace,
) -> AbstractContextManager[Engine | None]:
    return parallel.open_engine(args.engine, args.workers, args.address)


def ask_procedure(
    args: argparse.Namespace,
    verb: str,
    videos: Sequence[str],
    show: Callable[[str, Any], None] = lambda *_: None,
    show_failed: Callable[[str, Exception], None] = lambda *_: None,
    **options: Any,
) -> tuple[list[tuple[str, Any]], bool]:
    """Return the results and whether any failed; `show` gets them in the order of `videos`."""
    hook, names = progress_hook(args), name_videos(videos)
    answers: dict[int, Any] = {}
    done: list[tuple[str, Any]] = []
    errors: list[Exception] = []
    # A new token per call makes workers reopen a procedure that has changed.
    token = uuid.uuid4().hex

    def take(place: int, answer: Any) -> None:
        answers[place] = answer
        while (first := len(done) + len(errors)) in answers:
            answer, video, name = answers.pop(first), videos[first], names[first]
            Bar.clear()
            if isinstance(answer, Exception):
                if isinstance(answer, StepcutError) and str(answer) not in map(str, errors):
                    say(str(answer))
                show_failed(name, answer)
                errors.append(answer)
            else:  # videos that share a name get their folder or suffix added
                own = [name] == name_videos([video])
                done.append((video, answer if own else replace(answer, video=name)))
                show(*done[-1])
        stage.advance(item=videos[place])

    with open_engine(args) if "engine" in args else nullcontext() as engine:
        alone = engine is None and len(videos) == 1  # then its frames are counted
        places = [args.procedure, *videos]
        if engine is None:
            open_once(args.procedure, token, args.trust)  # fail before any work
        else:  # a worker may have another working folder
            places = [str(as_path(path).absolute()) for path in places]
        work = partial(ask, verb, places[0], token, args.trust, args.device, **options)
        with Stage(silent if alone else hook, verb, total=len(videos), unit="videos") as stage:
            if engine is not None:
                engine.map(work, places[1:], take)
            else:
                work = partial(work, progress=hook if alone else silent)
                for place, video in enumerate(videos):
                    take(place, attempt(work, video))
    for error in errors:
        if not isinstance(error, StepcutError):
            raise error  # a bug, raised once the other videos are done
    return done, bool(errors)


def warn_changed(outline: Procedure, videos: Mapping[str, str | None]) -> None:
    for name in outline.changed_videos(videos):
        say(
            f"{name}: this file has changed since the procedure was learned, so its labels belong "
            "to another recording. Restore the earlier file, or learn again: stepcut learn"
        )


def show_table(table: Table, form: str, output: str | None) -> None:
    if output:  # first, in case the reader of standard output goes away
        table.save(output)
    print(table.format(form).rstrip("\n"))


def describe_trust(procedure: Procedure) -> str:
    return f"quality: {procedure.quality}\ncheck: {procedure.expectations.forecast}"


def find_moved(
    videos: Mapping[str, str | None], places: Sequence[str] | None
) -> dict[str, str | None]:
    if not places:
        return dict(videos)
    paths = dict.fromkeys(str(Path(str(path)).resolve()) for path in find_videos(places))
    wholes = {name: Fragment.of(name).whole for name in videos}
    found = match_videos(wholes.values(), paths, OptionError)
    moved = {name: found[whole] for name, whole in wholes.items() if whole in found}
    if not moved:
        raise OptionError(
            f"--videos {' '.join(places)}: contains none of the procedure's videos "
            f"({', '.join(list(videos)[:5])})."
        )
    return {**videos, **moved}


def read_timelines(source: str, format: str | None = None, **how: Any) -> dict[str, Timeline]:
    """Read label files, or a procedure, whose timelines contain the paths of their videos."""
    if format is None and is_procedure(as_path(source)):
        outline = read_outline(source)  # timelines need no model
        return {
            name: replace(each, video=Fragment.of(name).at(outline.videos[name]))
            for name, each in outline.timelines.items()
        }
    return read_folder(source, format, **how)


def this_program() -> str:
    started = Path(sys.argv[0])
    if started.stem != "stepcut":
        return f"{shlex.quote(sys.executable)} -m stepcut"
    found = shutil.which("stepcut")
    return "stepcut" if found and os.path.samefile(found, started) else from_here(started)


OUTPUTS = ("output", "out", "times", "plot", "table")


def check_outputs(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    for action in parser._actions:
        if action.dest in OUTPUTS and (place := getattr(args, action.dest)) is not None:
            if action.dest == "plot":
                check_picture(place)
            if action.metavar == "TABLE":
                check_table(place)
            check_place(place, folder=action.metavar in ("DIR", "P"))
