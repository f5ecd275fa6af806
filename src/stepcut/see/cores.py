"""How many CPU cores this process may use."""

from __future__ import annotations

import os


def count_cores() -> int:
    """The cores that this process may run on, which in a container can be fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
