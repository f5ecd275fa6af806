"""One verb of a procedure (segment, check) for many new videos, here or by workers; each opens the procedure once."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from stepcut.files.addresses import AnyPath, as_path
from stepcut.parallel.contract import Engine, attempt
from stepcut.procedure.procedure import Procedure, load
from stepcut.progress import Hook, Stage, silent


def for_each_video(
    verb: str,
    procedure: AnyPath,
    videos: Sequence[str],
    engine: Engine | None,
    device: str = "auto",
    progress: Hook = silent,
    trust: bool = False,
) -> list[Any]:
    """What `procedure.VERB(video)` gives for every video, in order; the exception where one fails.

    verb       "segment" or "check"
    procedure  the folder of a procedure
    videos     paths or addresses
    engine     whose workers do it; None: this process
    device     where the backbone runs: auto, cpu or cuda
    progress   told after each video; of one video alone, of its frames
    trust      import the code that the procedure names
    """
    word = uuid.uuid4().hex  # new at every call, so that a procedure that has changed is opened again
    if engine is None:
        _open(str(procedure), word, trust)  # one that is not there is told before anything is said of the videos
        if len(videos) == 1:
            return [attempt(partial(do, verb, str(procedure), word, trust, device, progress=progress), videos[0])]
    with Stage(progress, verb, total=len(videos), unit="videos") as stage:
        if engine is None:
            answers = []
            for video in videos:
                answers.append(attempt(partial(do, verb, str(procedure), word, trust, device), video))
                stage.advance(item=video)
            return answers
        # A worker may have another working folder.
        whole = [str(as_path(video).absolute()) for video in videos]
        work = partial(do, verb, str(as_path(procedure).absolute()), word, trust, device)
        return engine.map(work, whole, lambda place, _: stage.advance(item=videos[place]))


def do(verb: str, procedure: str, word: str, trust: bool, device: str, video: str, progress: Hook = silent) -> Any:
    """What a worker does: `procedure.VERB(video)`; a procedure is opened once for every `word`.

    `verb`, `device`, `progress` and `trust` are those of `for_each_video`.
    """
    return getattr(_open(procedure, word, trust), verb)(video, device, progress)


@lru_cache(maxsize=1)
def _open(path: str, _word: str, trust: bool) -> Procedure:
    return load(path, trust=trust)
