"""One verb of a procedure (segment, check) for many new videos, here or by workers; each opens the procedure once."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from stepcut.files.addresses import AnyPath, as_path
from stepcut.parallel.contract import Engine, attempt
from stepcut.procedure.procedure import Procedure


def for_each_video(verb: str, procedure: AnyPath, videos: Sequence[str], engine: Engine | None) -> list[Any]:
    """What `procedure.VERB(video)` gives for every video, in order; the exception where one fails."""
    word = uuid.uuid4().hex  # new at every call, so that a procedure that has changed is opened again
    if engine is None:
        return [attempt(partial(do, verb, str(procedure), word), video) for video in videos]
    # A worker may have another working folder.
    whole = [str(as_path(video).absolute()) for video in videos]
    return engine.map(partial(do, verb, str(as_path(procedure).absolute()), word), whole)


def do(verb: str, procedure: str, word: str, video: str) -> Any:
    """What a worker does."""
    return getattr(_open(procedure, word), verb)(video)


@lru_cache(maxsize=1)
def _open(path: str, _word: str) -> Procedure:
    from stepcut.procedure.procedure import load

    return load(path)
