"""Sparse files. A module without imports, so that the process that opens videos starts quickly."""

import os


def is_hole(state: os.stat_result) -> bool:
    """Whether a file is sparse: far longer than its content on disk, and slow to read."""
    on_disk = getattr(state, "st_blocks", state.st_size) * 512
    return state.st_size > 100 * max(on_disk, 1 << 20)
