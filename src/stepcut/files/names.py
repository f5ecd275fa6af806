"""Names of videos, files and steps: when two are the same, and how a stranger's name becomes a file."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from unicodedata import normalize

from stepcut.errors import AnnotationError, StepcutError, printable

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
_DEVICE = re.compile(r"con|conin\$|conout\$|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]", re.IGNORECASE)
"""Names that Windows takes for devices, whatever suffix follows."""


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
    """Whether two names may be of one video: as far as both say their folders, they are the same, capitals aside.

    >>> same_video("films/a.mp4", "A"), same_video("cam1/a", "cam2/a")
    (True, False)
    """
    return all(
        a == b
        for a, b in zip(*(reversed(_plain_parts(video)) for video in (one, other)), strict=False)
    )


def match_videos(
    names: Iterable[str], videos: Iterable[str], error: type[StepcutError] = AnnotationError
) -> dict[str, str]:
    """Which of `videos` each of `names` means, for those that mean one: the video of that very name, or else the one
    that differs from it by capitals, suffix and folders alone.

    Folders tell videos of one name apart, as far as both sides say them; where that leaves two, or two names mean one
    video, an `error` says so.

    >>> match_videos(["cam1/a", "b.mp4", "c"], ["/films/cam1/a.mov", "/films/cam2/a.mov", "old/B"])
    {'cam1/a': '/films/cam1/a.mov', 'b.mp4': 'old/B'}
    """
    ours, theirs = list(dict.fromkeys(names)), list(dict.fromkeys(videos))
    short = [dict(zip(side, short_names(side), strict=True)) for side in (ours, theirs)]
    parts = {name: _plain_parts(name) for name in (*ours, *theirs)}
    near = defaultdict[str, list[str]](list)
    for video in theirs:
        near[parts[video][-1]].append(video)
    taken: dict[str, str] = {}
    for name in sorted(
        ours, key=lambda name: (name not in short[1], -len(parts[name]))
    ):  # who says most chooses first
        alike = (
            [name]
            if name in short[1]
            else [each for each in near[parts[name][-1]] if same_video(name, each)]
        )
        left = [video for video in alike if video not in taken]
        if alike and not left:
            what = f"two timelines are of one video: {taken[alike[0]]!r} and {name!r}"
            raise error(
                f"{what} are both taken for {alike[0]!r}. Keep one of them, or name its folder, too."
            )
        left = [video for video in left if parts[video] == parts[name]] or left
        if len(left) > 1:
            what = f"the video {name!r} may be {' or '.join(map(repr, left[:5]))}"
            raise error(
                f"{what}. Keep or name the one that is meant, with its folder where that tells them apart."
            )
        taken |= dict.fromkeys(left, name)
    matched = {name: video for video, name in taken.items()}
    for name in [
        name for name in ours if name not in matched
    ]:  # in other folders, of which those tell that need be
        left = [
            each for each in near[parts[name][-1]] if same_video(short[0][name], short[1][each])
        ]
        if len(left) == 1 and left[0] not in matched.values():
            matched[name] = left[0]
    return {name: matched[name] for name in ours if name in matched}


def short_names(videos: Sequence[str]) -> list[str]:
    """Each of `videos` without suffix, and with as few folders as tell it from the others.

    >>> short_names(["f/cam1/a.mp4", "f/cam2/a.mp4", "f/b.mp4"])
    ['cam1/a', 'cam2/a', 'b']
    """
    parts = [tuple(_parts(video)) for video in videos]
    ends = Counter(one[-length:] for one in set(parts) for length in range(1, len(one) + 1))

    def shorten(mine: tuple[str, ...]) -> str:
        enough = next(
            (length for length in range(1, len(mine)) if ends[mine[-length:]] == 1), len(mine)
        )
        return "/".join(mine[-enough:])

    return [shorten(one) for one in parts]


def _parts(video: str) -> list[str]:
    """The folders of a video, and its name without suffix."""
    folders = [part for part in video.replace("\\", "/").split("/")[:-1] if part]
    return [*folders, video_name(video)]


def _plain_parts(video: str) -> list[str]:
    """The same as they are compared: without capitals, and with accents written in one way."""
    return [part.casefold() for part in _parts(normalize("NFC", video))]


def safe_name(name: str) -> PurePosixPath:
    """A relative path below the folder it is put into, whatever the name says; folders inside the name stay.

    >>> [str(safe_name(name)) for name in ("cam1/a b", "/../../etc/x", "..", "a\\x00\\n", "C:\\\\x?", "aux.1")]
    ['cam1/a b', 'etc/x', 'video', 'a%00%0A', 'C%3A%5Cx%3F', '%61ux.1']
    """
    shown = printable(name).translate({ord(letter): f"%{ord(letter):02X}" for letter in _REFUSED})
    parts = [
        part.encode(errors="replace")[:_MOST].decode(errors="ignore").strip(" ")
        for part in shown.split("/")
    ]
    kept = [_portable(part) for part in parts if part not in ("", ".", "..")]
    return PurePosixPath(*kept or ["video"])


def _portable(part: str) -> str:
    """One part of a path that Windows takes, too: not the name of a device, and no dot at the end."""
    if _DEVICE.fullmatch(part.split(".")[0].rstrip(" ")):
        part = f"%{ord(part[0]):02X}{part[1:]}"
    return f"{part[:-1]}%2E" if part.endswith(".") else part


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
            raise AnnotationError(
                f"the step {name!r} may be {' or '.join(map(repr, found))}. Write it as one of them."
            )
        return found[0]

    return {name: find(name) for name in names}
