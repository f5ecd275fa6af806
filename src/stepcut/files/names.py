"""Names that become files: what a video or a feature file is called may come from a stranger."""

from __future__ import annotations

from pathlib import PurePosixPath

from stepcut.errors import printable

_MOST = 200
"""Bytes of one part of a name; file systems take 255, and a suffix follows."""


def safe_name(name: str) -> PurePosixPath:
    """A relative path below the folder it is put into, whatever the name says; folders inside the name stay.

    >>> [str(safe_name(name)) for name in ("cam1/a b", "/../../etc/x", "..", "a\\x00\\n", "C:\\\\x")]
    ['cam1/a b', 'etc/x', 'video', 'a%00%0A', 'C%3A%5Cx']
    """
    shown = printable(name).replace("\n", "%0A").replace("\t", "%09").replace("\\", "%5C").replace(":", "%3A")
    parts = [part.encode(errors="replace")[:_MOST].decode(errors="ignore").strip(" ") for part in shown.split("/")]
    return PurePosixPath(*[part for part in parts if part not in ("", ".", "..")] or ["video"])
