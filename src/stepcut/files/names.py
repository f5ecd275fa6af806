"""Names of videos and files: how labels and videos find each other, and how a stranger's name becomes a file."""

from __future__ import annotations

from pathlib import PurePosixPath

from stepcut.errors import printable

VIDEO_SUFFIXES = frozenset((
    "mp4", "m4v", "mov", "mkv", "webm", "avi", "mpg", "mpeg", "m2v", "ts", "mts", "m2ts", "vob", "wmv", "asf", "flv",
    "f4v", "3gp", "3g2", "ogv", "ogm", "mxf", "divx", "h264", "264", "h265", "265", "hevc", "ivf", "y4m", "dv",
))  # fmt: skip
"""What the names of video files usually end in, without the dot."""
_MOST = 200
"""Bytes of one part of a name; file systems take 255, and a suffix follows."""
_REFUSED = '\n\t\\:*?"<>|'
"""What some system does not take in the name of a file."""


def video_name(video: str) -> str:
    """The name of a video without folder and suffix.

    >>> video_name("films/a.b.mp4"), video_name("S07_Eggs_7151062-1110"), video_name("01.tent.090617.gopro")
    ('a.b', 'S07_Eggs_7151062-1110', '01.tent.090617.gopro')
    """
    name = video.replace("\\", "/").rsplit("/", 1)[-1]
    stem, dot, suffix = name.rpartition(".")
    return stem if dot and suffix.lower() in VIDEO_SUFFIXES else name


def safe_name(name: str) -> PurePosixPath:
    """A relative path below the folder it is put into, whatever the name says; folders inside the name stay.

    >>> [str(safe_name(name)) for name in ("cam1/a b", "/../../etc/x", "..", "a\\x00\\n", "C:\\\\x?")]
    ['cam1/a b', 'etc/x', 'video', 'a%00%0A', 'C%3A%5Cx%3F']
    """
    shown = printable(name).translate({ord(letter): f"%{ord(letter):02X}" for letter in _REFUSED})
    parts = [part.encode(errors="replace")[:_MOST].decode(errors="ignore").strip(" ") for part in shown.split("/")]
    return PurePosixPath(*[part for part in parts if part not in ("", ".", "..")] or ["video"])
