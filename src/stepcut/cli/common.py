"""What commands have in common: progress, features, the engine, timelines from anywhere, and how they speak."""

import argparse
import json
import os
import shlex
import shutil
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from stepcut import parallel
from stepcut.cli import say
from stepcut.errors import OptionError, StepcutError
from stepcut.features.find import find_videos, name_videos
from stepcut.features.spec import DEFAULT, FeatureSpec, as_spec
from stepcut.files.addresses import as_path
from stepcut.files.names import match_videos
from stepcut.formats import read_folder
from stepcut.parallel.contract import Engine, attempt
from stepcut.procedure.folder import is_procedure
from stepcut.procedure.many import ask, open_once
from stepcut.procedure.procedure import Procedure, read_outline
from stepcut.progress import Bar, Hook, JsonLog, Stage, silent
from stepcut.tables import Table
from stepcut.timeline import Timeline

SPEC = {
    name: name
    for name in (
        "backbone",
        "fps",
        "weights",
        "layer",
        "family",
        "mean",
        "scale",
        "colour",
    )
}
SPEC |= {
    "size": "input_size",
    "output": "output_name",
    "clip_frames": "clip_frames",
    "clip_fps": "clip_fps",
}
"""The settings of a `FeatureSpec`, and the options that say them."""


def progress_hook(args: argparse.Namespace) -> Hook:
    """The hook that --quiet and --log ask for; progress goes to standard error."""
    if args.quiet:
        return silent
    return JsonLog() if args.log == "json" else Bar()


def spec_of(args: argparse.Namespace, like: FeatureSpec | None = None) -> FeatureSpec:
    """The spec that the options ask for; those that were not given are as in `like`."""
    given = {name: getattr(args, option) for name, option in SPEC.items()}
    if args.fast:
        given["fast"] = True
    name = given.pop("backbone")
    return as_spec(name if name is not None else like or DEFAULT, **given)


def said(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Those of these options that were given."""
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def read_settings(words: Sequence[str]) -> dict[str, Any]:
    """`NAME=VALUE` words as a dict; values are read as JSON where they are JSON.

    >>> read_settings(["loss=tcc", "train.iterations=200"])
    {'loss': 'tcc', 'train.iterations': 200}
    """
    settings = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise OptionError(
                f"--set {word}: write it as NAME=VALUE, for example --set background=1.",
                setting="set",
                value=word,
            )
        settings[name] = read_value(value)
    return settings


def read_value(text: str) -> Any:
    """What a word stands for where it is JSON; else the word."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def open_engine(
    args: argparse.Namespace, always: bool = False
) -> AbstractContextManager[Engine | None]:
    """The engine that --engine, --workers and --address ask for; see `stepcut.parallel.open_engine`."""
    return parallel.open_engine(args.engine, args.workers, args.address, always)


def ask_procedure(
    args: argparse.Namespace,
    verb: str,
    videos: Sequence[str],
    tell: Callable[[str, Any], None] = lambda *_: None,
    tell_failed: Callable[[str, Exception], None] = lambda *_: None,
    **options: Any,
) -> tuple[list[tuple[str, Any]], bool]:
    """What a procedure's verb gives for each video, and whether some could not be done, which are told.

    `tell` hears each video and its answer as soon as that and those of the videos before it are there, and
    `tell_failed` the name of one that could not be done and why.
    """
    hook, names = progress_hook(args), name_videos(videos)
    answers: dict[int, Any] = {}
    done: list[tuple[str, Any]] = []
    errors: list[Exception] = []
    word = (
        uuid.uuid4().hex
    )  # new at every call, so that a procedure that has changed is opened again

    def take(place: int, answer: Any) -> None:
        answers[place] = answer
        while (first := len(done) + len(errors)) in answers:
            answer, video, name = answers.pop(first), videos[first], names[first]
            Bar.clear()
            if not isinstance(
                answer, Exception
            ):  # of two with one name, each is called by its folder or suffix, too
                done.append(
                    (video, answer if name == Path(video).stem else replace(answer, video=name))
                )
                tell(*done[-1])
                continue
            if isinstance(answer, StepcutError) and str(answer) not in map(str, errors):
                say(str(answer))
            tell_failed(name, answer)
            errors.append(answer)
        stage.advance(item=videos[place])

    with open_engine(args) if "engine" in args else nullcontext() as engine:
        alone = engine is None and len(videos) == 1  # then its frames are counted
        if engine is None:
            open_once(
                args.procedure, word, args.trust
            )  # one that is not there is told before any work
        with Stage(silent if alone else hook, verb, total=len(videos), unit="videos") as stage:
            if engine is None:
                told = hook if alone else silent
                work = partial(
                    ask,
                    verb,
                    args.procedure,
                    word,
                    args.trust,
                    args.device,
                    progress=told,
                    **options,
                )
                for place, video in enumerate(videos):
                    take(place, attempt(work, video))
            else:  # a worker may have another working folder
                whole = [str(as_path(path).absolute()) for path in (args.procedure, *videos)]
                work = partial(ask, verb, whole[0], word, args.trust, args.device, **options)
                engine.map(work, whole[1:], take)
    for error in errors:
        if not isinstance(error, StepcutError):
            raise error  # a fault of ours, once the other videos are done
    return done, bool(errors)


def warn_changed(outline: Procedure, videos: Mapping[str, str | None]) -> None:
    """Report which of `videos`, places by name, are not the recordings that the procedure was learned from."""
    for name in outline.changed_videos(videos):
        say(
            f"{name}: this file has changed since the procedure was learned, so its labels belong to another recording. "
            "Bring the earlier file back, or learn again: stepcut learn"
        )


def show_table(table: Table, form: str, output: str | None) -> None:
    """Print a table in a form, and write it to `output` in the form of its suffix."""
    if output:  # first, in case that the reader of what is printed goes away
        table.save(output)
    print(table.format(form).rstrip("\n"))


def describe_trust(procedure: Procedure) -> str:
    """How much of the time is expected to be right, and what a check would find."""
    expected = procedure.expectations
    lines = [f"quality: {procedure.quality}", f"check: {expected.forecast}"]
    return "\n".join(lines + ([f"warning: {expected.mixed}"] if expected.mixed else []))


def find_moved(
    known: Mapping[str, str | None], places: Sequence[str] | None
) -> dict[str, str | None]:
    """Where the `known` videos lie now, by name: in the folders that `--videos` named, or where they were."""
    if not places:
        return dict(known)
    films = dict.fromkeys(str(Path(str(path)).resolve()) for path in find_videos(places))
    there = match_videos(known, films, OptionError)
    if not there:
        raise OptionError(
            f"--videos {' '.join(places)}: none of its videos ({', '.join(list(known)[:5])}) is there."
        )
    return {**known, **there}


def label_options(args: argparse.Namespace) -> dict[str, Any]:
    """Return how label files are read, as `read_folder` takes it: the options that were given."""
    return said(args, "rate", "columns", "encoding")


def read_timelines(source: str, format: str | None = None, **how: Any) -> dict[str, Timeline]:
    """Video name -> timeline, from label files, read `how` `read_folder` is told, or from a learned procedure, whose
    timelines know their video files."""
    if format is None and is_procedure(as_path(source)):
        outline = read_outline(source)  # looking at timelines needs no model
        return {
            name: replace(each, video=outline.videos[name] or name)
            for name, each in outline.timelines.items()
        }
    return read_folder(source, format, **how)


def this_program() -> str:
    """What to type to start stepcut again from this folder, as it was started now."""
    started = Path(sys.argv[0])
    if started.stem != "stepcut":
        return f"{shlex.quote(sys.executable)} -m stepcut"
    found = shutil.which("stepcut")
    if found and os.path.samefile(found, started):
        return "stepcut"
    return shlex.quote(
        os.path.relpath(started) if started.is_relative_to(Path.cwd()) else str(started)
    )
