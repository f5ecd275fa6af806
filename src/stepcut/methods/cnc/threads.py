"""Parts of one computation side by side, in threads that are kept: compiled loops let go of Python's lock."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Result = TypeVar("Result")


def side_by_side(work: Callable[..., Result], parts: Sequence[tuple[Any, ...]]) -> list[Result]:
    """The answers to the parts, each the arguments of one call of `work`; the first is done in the caller's thread."""
    others = [_threads(len(parts) - 1).submit(work, *part) for part in parts[1:]]
    return [work(*parts[0]), *(other.result() for other in others)]


@functools.cache
def _threads(count: int) -> ThreadPoolExecutor:
    """To start a thread takes as long as to align thousands of cells."""
    return ThreadPoolExecutor(count)


if hasattr(os, "register_at_fork"):  # a child process has none of its parent's threads
    os.register_at_fork(after_in_child=_threads.cache_clear)
