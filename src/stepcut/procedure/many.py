"""Process many videos or tasks in one call, on this machine or on workers."""

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
from stepcut.parallel.engine import Engine
from stepcut.procedure.learning import learn
from stepcut.procedure.loading import load
from stepcut.procedure.procedure import Procedure
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
    """Run `procedure.VERB(video, **options)` on a worker, with VERB segment or check.

    A worker loads the procedure once per `word`.
    """
    return getattr(open_once(procedure, word, trust), verb)(video, device, progress, **options)


@lru_cache(maxsize=1)
def open_once(path: str, _word: str, trust: bool) -> Procedure:
    """Load the procedure at `path`, cached."""
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
    """Learn a procedure from each sub-folder of `root` and save it as `output/NAME.proc`.

    The workers of the `engine` first compute the features of all videos, long ones in pieces. Then
    each worker learns one task at a time. Finished tasks are loaded, and a task that fails does not
    stop the others. The other arguments are those of `learn`. The table has one row per task, and
    one note per skipped video or failed task.
    """
    cache = None if cache is None else as_path(cache).absolute()
    folders = find_tasks(as_path(root))
    videos: list[Path | Address] = []
    for folder in folders:
        with suppress(VideoError):  # learning the task reports this
            found = find_inputs(folder)
            videos += found.files if found.kind == "video" else []
    try:
        if videos:
            read_source(videos, 1, backbone, cache, strict, progress, engine, device=device)
    except VideoError:  # a task without usable videos does not stop the others
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
    """Return the sub-folders of `root`, in natural order."""
    wanted = "Give a folder with one sub-folder of videos per task."
    if not isinstance(root, Address) and not root.is_dir():
        raise DataError(f"{root}: this folder does not exist. {wanted}", path=root)
    folders = [path.absolute() for path in root.iterdir() if path.is_dir()]
    named = [path for path in folders if not path.name.startswith(".") and path.suffix != ".proc"]
    if not named:
        raise DataError(f"{root}: it has no sub-folder. {wanted}", path=root)
    return sorted(named, key=natural)


def learn_task(
    folder: Path | Address, output: Path | Address, settings: Mapping[str, Any]
) -> tuple[list[Cell], list[str]]:
    """Learn the task in `folder` on a worker, save it in `output`, return its row and notes."""
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
        f"{folder.name}: skipped {name}: {reason}" for name, reason in made.config.skipped.items()
    ]
