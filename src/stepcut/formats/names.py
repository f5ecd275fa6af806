"""The name of a video, without folder and suffix; names are how label files and videos find each other."""

from __future__ import annotations

VIDEO_SUFFIXES = frozenset(
    ("mp4", "mkv", "avi", "mov", "webm", "m4v", "mpg", "mpeg", "wmv", "flv", "ts", "mts", "m2ts", "ogv", "3gp")
)


def video_name(video: str) -> str:
    """The name of a video without folder and suffix.

    >>> video_name("films/a.b.mp4"), video_name("S07_Eggs_7151062-1110"), video_name("01.tent.090617.gopro")
    ('a.b', 'S07_Eggs_7151062-1110', '01.tent.090617.gopro')
    """
    name = video.replace("\\", "/").rsplit("/", 1)[-1]
    stem, dot, suffix = name.rpartition(".")
    return stem if dot and suffix.lower() in VIDEO_SUFFIXES else name
