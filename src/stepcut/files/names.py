"""Names of videos, files and steps: when two are the same, and how a stranger's name becomes a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from unicodedata import normalize

from stepcut.errors import AnnotationError, printable

VIDEO_SUFFIXES = frozenset((
    ".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".m2v", ".ts", ".mts", ".m2ts", ".vob", ".wmv",
    ".asf", ".flv", ".f4v", ".3gp", ".3g2", ".ogv", ".ogm", ".mxf", ".divx", ".h264", ".264", ".h265", ".265", ".hevc",
    ".ivf", ".y4m", ".dv",
))  # fmt: skip
"""What the names of video files usually end in."""
_MOST = 200
"""Bytes of one part of a name; file systems take 255, and a suffix follows."""
_REFUSED = '\n\t\\:*?"<>|'
"""What some system does not take in the name of a file."""


def visible(name: str) -> str:
    """The `name` on one line, with characters that can be seen."""
    return printable(name).replace("\n", "%0A").replace("\t", "%09")


def video_name(video: str) -> str:
    """The name of a video without folder and suffix.

    >>> video_name("films/a.b.mp4"), video_name("S07_Eggs_7151062-1110"), video_name("01.tent.090617.gopro")
    ('a.b', 'S07_Eggs_7151062-1110', '01.tent.090617.gopro')
    """
    name = visible(video).replace("\\", "/").rsplit("/", 1)[-1]
    stem, dot, suffix = name.rpartition(".")
    return stem if dot + suffix.lower() in VIDEO_SUFFIXES else name


def same_video(one: str, other: str) -> bool:
    """Whether two names may be of one video: as far as both say their folders, they are the same.

    >>> same_video("films/a.mp4", "a"), same_video("cam1/a", "cam2/a")
    (True, False)
    """
    parts = [reversed(_parts(normalize("NFC", video))) for video in (one, other)]
    return all(a == b for a, b in zip(*parts, strict=False))


def short_names(videos: Sequence[str]) -> list[str]:
    """Each of `videos` without suffix, and with as few folders as tell it from the others.

    >>> short_names(["f/cam1/a.mp4", "f/cam2/a.mp4", "f/b.mp4"])
    ['cam1/a', 'cam2/a', 'b']
    """
    parts = [tuple(_parts(video)) for video in videos]
    ends = Counter(one[-length:] for one in set(parts) for length in range(1, len(one)))

    def shorten(mine: tuple[str, ...]) -> str:
        enough = next((length for length in range(1, len(mine)) if ends[mine[-length:]] == 1), len(mine))
        return "/".join(mine[-enough:])

    return [shorten(one) for one in parts]


def _parts(video: str) -> list[str]:
    """The folders of a video, and its name without suffix."""
    folders = [part for part in video.replace("\\", "/").split("/")[:-1] if part]
    return [*folders, video_name(video)]


def safe_name(name: str) -> PurePosixPath:
    """A relative path below the folder it is put into, whatever the name says; folders inside the name stay.

    >>> [str(safe_name(name)) for name in ("cam1/a b", "/../../etc/x", "..", "a\\x00\\n", "C:\\\\x?")]
    ['cam1/a b', 'etc/x', 'video', 'a%00%0A', 'C%3A%5Cx%3F']
    """
    shown = printable(name).translate({ord(letter): f"%{ord(letter):02X}" for letter in _REFUSED})
    parts = [part.encode(errors="replace")[:_MOST].decode(errors="ignore").strip(" ") for part in shown.split("/")]
    return PurePosixPath(*[part for part in parts if part not in ("", ".", "..")] or ["video"])


def plain(name: str) -> str:
    """The `name` of a step as names are compared: capitals and spaces alone make no other step, nor do underscores,
    which files of frames write for spaces, nor the two ways of writing an accent.

    >>> plain(" Add  jam") == plain("add jam") == plain("add_jam")
    True
    """
    return normalize("NFC", " ".join(name.split()).replace("_", " ")).casefold()


def spell(names: Iterable[str], known: Sequence[str]) -> dict[str, str]:
    """How each of these `names` is written among those `known`; one that is not known stays as it is."""
    written: dict[str, list[str]] = {}
    for name in known:
        written.setdefault(plain(name), []).append(name)

    def find(name: str) -> str:
        found = [name] if name in known else written.get(plain(name), [name])
        if len(found) > 1:
            raise AnnotationError(f"the step {name!r} may be {' or '.join(map(repr, found))}. Write it as one of them.")
        return found[0]

    return {name: find(name) for name in names}
