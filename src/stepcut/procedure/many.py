"""Many videos or many tasks by one call, here or by workers; one that fails does not stop the
others."""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from stepcut.errors import DataError, VideoError, in_words
from stepcut.features.extract import read_source
from stepcut.features.find import find_inputs, natural
from stepcut.features.spec import DEFAULT, FeatureSpec
from stepcut.files.addresses import Address, AnyPath, as_path
from stepcut.parallel.contract import Engine
from stepcut.procedure.learning import learn
from stepcut.procedure.procedure import Procedure, load
from stepcut.progress import Hook, Stage, silent
from stepcut.tables import Cell, Table


def ask(
    verb: str,
    procedure: str,
    word: str,
    trust: bool,
    device: str,
    video: str,
    progress: Hook = silent,
    **options: Any,
) -> Any:
    """What a worker does: `procedure.VERB(video, **options)`, segment or check, with a procedure
    opened once for every `word`."""
    return getattr(open_once(procedure, word, trust), verb)(video, device, progress, **options)


@lru_cache(maxsize=1)
def open_once(path: str, _word: str, trust: bool) -> Procedure:
    """The procedure at `path`, kept for whoever asks with the same word and `trust`."""
    return load(path, trust=trust)


def learn_tasks(
    root: AnyPath,
    output: AnyPath,
    engine: Engine,
    *,
    backbone: FeatureSpec = DEFAULT,
    device: str = "auto",
    cache: AnyPath | None = None,
    strict: bool = False,
    progress: Hook = silent,
    **settings: Any,
) -> Table:
    """Learn a procedure from each sub-folder of `root` and keep it as `output/NAME.proc`; gives a
    row for each task and a note for everything that was left out or went wrong.

    First the workers of the `engine` see all videos of all tasks, long ones in pieces; then each
    learns a task. Tasks that are finished already are found again and not learned anew. `backbone`,
    `device`, `cache`, `strict`, `progress` and the other `settings` are those of `learn`.
    """
    cache = None if cache is None else as_path(cache).absolute()
    folders = find_tasks(as_path(root))
    videos: list[Path | Address] = []
    for folder in folders:
        with suppress(VideoError):  # a task without videos says so itself when it is learned
            found = find_inputs(folder)
            videos += found.files if found.kind == "video" else []
    try:
        if videos:
            read_source(videos, 1, backbone, cache, strict, progress, engine, device=device)
    except VideoError:  # nor does one whose videos are all bad stop the others
        if strict:
            raise
    chosen = {**settings, "backbone": backbone, "device": device, "cache": cache, "strict": strict}
    learn_one = partial(learn_task, output=as_path(output).absolute(), settings=chosen)
    with Stage(progress, "tasks", total=len(folders), unit="tasks") as stage:
        answers = engine.map(
            learn_one, folders, lambda number, _: stage.advance(item=folders[number].name), gpu=True
        )
    rows, notes = [], []
    for folder, answer in zip(folders, answers, strict=True):
        if isinstance(answer, Exception):
            answer = (
                [folder.name, None, None, None, "failed"],
                [f"{folder.name}: {in_words(answer)}"],
            )
        rows.append(answer[0])
        notes += answer[1]
    caption = f"{sum(row[-1] != 'failed' for row in rows)} of {len(rows)} tasks learned"
    return Table(["task", "steps", "videos", "seconds", "procedure"], rows, caption, notes)


def find_tasks(root: Path | Address) -> Sequence[Path | Address]:
    """The sub-folders of `root`, in natural order."""
    wanted = "Give the folder that holds a sub-folder of videos for each task."
    if not isinstance(root, Address) and not root.is_dir():
        raise DataError(f"{root}: no such folder. {wanted}")
    folders = [path.absolute() for path in root.iterdir() if path.is_dir()]
    named = [path for path in folders if not path.name.startswith(".") and path.suffix != ".proc"]
    if not named:
        raise DataError(f"{root}: it holds no sub-folder. {wanted}")
    return sorted(named, key=natural)


def learn_task(
    folder: Path | Address, output: Path | Address, settings: Mapping[str, Any]
) -> tuple[list[Cell], list[str]]:
    """What a worker does: learn the task in `folder` with these `settings` and keep it in `output`;
    a row and notes."""
    start, kept = time.perf_counter(), output / f"{folder.name}.proc"
    made = learn(folder, output=kept, progress=silent, **settings)
    row: list[Cell] = [
        folder.name,
        len(made.steps),
        len(made.timelines),
        time.perf_counter() - start,
        str(kept),
    ]
    return row, [
        f"{folder.name}: left out {name}: {reason}"
        for name, reason in made.config["skipped"].items()
    ]
