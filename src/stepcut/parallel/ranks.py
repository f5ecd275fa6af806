"""Processes that torchrun or Ray Train started to train together. Where there are none, nothing of torch is loaded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def _distributed() -> Any:
    """torch.distributed, where processes work together; else None."""
    loaded: Any = sys.modules.get("torch.distributed")
    return loaded if loaded is not None and loaded.is_available() and loaded.is_initialized() else None


def processes() -> int:
    """How many processes train together."""
    distributed = _distributed()
    return 1 if distributed is None else int(distributed.get_world_size())


def is_first_process() -> bool:
    """Whether this process is the one that writes."""
    distributed = _distributed()
    return distributed is None or distributed.get_rank() == 0


@contextmanager
def first_process_first() -> Iterator[None]:
    """The block is run by the first process, then by the others, who find what it has stored."""
    distributed, first = _distributed(), is_first_process()
    if distributed is not None and not first:
        distributed.barrier()
    yield
    if distributed is not None and first:
        distributed.barrier()
