"""The cache: where stepcut keeps what can be computed again."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_dir() -> Path:
    """Where stepcut keeps what can be computed again: `STEPCUT_CACHE`, or the platform's folder for that."""
    if chosen := os.environ.get("STEPCUT_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "stepcut"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "stepcut" / "cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stepcut"
