"""How many CPU cores this process may use."""

from __future__ import annotations

import os


def count_cores() -> int:
    """The cores that this process may run on, which in a container can be fewer than the machine has.

    `STEPCUT_CORES` says fewer: a worker shares the machine with others.
    """
    if said := os.environ.get("STEPCUT_CORES"):
        return int(said)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
