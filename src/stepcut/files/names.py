"""Names of videos, parts of them, files and steps: compare them; safe file names; sparse files."""

import math
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple
from unicodedata import normalize

from stepcut.errors import AnnotationError, StepcutError, printable

VIDEO_SUFFIXES = frozenset((
    ".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".mpg", ".mpeg", ".m2v", ".ts", ".mts",
    ".m2ts", ".vob", ".wmv", ".asf", ".flv", ".f4v", ".3gp", ".3g2", ".ogv", ".ogm", ".mxf",
    ".divx", ".h264", ".264", ".h265", ".265", ".hevc", ".ivf", ".y4m", ".dv",
))  # fmt: skip
FEATURE_SUFFIXES = (".npy", ".npz", ".safetensors")
_MOST = 200  # bytes of one part of a name; file systems allow 255 with the suffix
_REFUSED = '\n\t\\:*?"<>|'  # characters that some systems do not allow in file names
# reserved names of Windows devices, with any suffix
_DEVICE = re.compile(r"con|conin\$|conout\$|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³]", re.IGNORECASE)


_PART = re.compile(r"(.+)#t=(\d+(?:\.\d+)?),(\d+(?:\.\d+)?)", re.DOTALL)


class Fragment(NamedTuple):
    """A recording that is a part of a file, named as a media fragment: line.mp4#t=12.5,48.2.

    Its name is the only place that knows where it is; paths are those of the whole file, and times
    inside stepcut start at zero.

    >>> Fragment.of("line.mp4#t=12.5,48"), Fragment.of("a.mp4").start
    (Fragment(whole='line.mp4', start=12.5, end=48.0), 0.0)
    """

    whole: str
    start: float = 0.0
    end: float = math.inf

    @classmethod
    def of(cls, name: str) -> "Fragment":
        found = _PART.fullmatch(name)
        return cls(found[1], float(found[2]), float(found[3])) if found else cls(name)

    def __str__(self) -> str:
        return f"{self.whole}{self.tail}"

    @property
    def tail(self) -> str:
        if math.isinf(self.end):
            return ""
        return f"#t={round(self.start, 3):.12g},{round(self.end, 3):.12g}"

    def at(self, whole: str | None) -> str:
        """Return the address of this part in the file at `whole`, or of it by name."""
        return str(self._replace(whole=whole or self.whole))


def visible(name: str) -> str:
    return printable(name).replace("\n", "%0A").replace("\t", "%09")


def video_name(video: str) -> str:
    """Return the name of a video without folder and suffix of a video or feature file.

    >>> video_name("videos/a.b.mp4"), video_name("a.npy"), video_name("01.tent.090617.gopro")
    ('a.b', 'a', '01.tent.090617.gopro')
    """
    part = Fragment.of(visible(video).replace("\\", "/").rsplit("/", 1)[-1])
    stem, dot, suffix = part.whole.rpartition(".")
    known = dot + suffix.lower() in {*VIDEO_SUFFIXES, *FEATURE_SUFFIXES}
    return part.at(stem if known else None)


def same_video(one: str, other: str) -> bool:
    """Whether two names may mean one video: the folders that both have are equal, ignoring case.

    >>> same_video("videos/a.mp4", "A"), same_video("cam1/a", "cam2/a")
    (True, False)
    """
    both = (reversed(_plain_parts(video)) for video in (one, other))
    return all(a == b for a, b in zip(*both, strict=False))


def match_videos(
    names: Iterable[str], videos: Iterable[str], error: type[StepcutError] = AnnotationError
) -> dict[str, str]:
    """Match `names` to `videos`, ignoring case, suffix and folders; omit names without a match.

    An exact match comes first. Folders distinguish videos of one name if both sides have them.
    """
    ours, theirs = list(dict.fromkeys(names)), list(dict.fromkeys(videos))
    short = [dict(zip(side, short_names(side), strict=True)) for side in (ours, theirs)]
    parts = {name: _plain_parts(name) for name in (*ours, *theirs)}
    near = defaultdict[str, list[str]](list)
    for video in theirs:
        near[parts[video][-1]].append(video)
    taken: dict[str, str] = {}
    # Exact names first, then the names with most folders.
    for name in sorted(ours, key=lambda name: (name not in short[1], -len(parts[name]))):
        alike = [each for each in near[parts[name][-1]] if same_video(name, each)]
        alike = [name] if name in short[1] else alike
        left = [video for video in alike if video not in taken]
        if alike and not left:
            what = f"{taken[alike[0]]!r} and {name!r} both match {alike[0]!r}"
            advice = "Remove one of them, or add its folder to the name."
            raise error(f"two names match one video: {what}. {advice}", video=name)
        left = [video for video in left if parts[video] == parts[name]] or left
        if len(left) > 1:
            some = " or ".join(map(repr, left[:5]))
            advice = "Add the folder to the name, or remove the other videos."
            raise error(f"the video {name!r} may be {some}. {advice}", video=name)
        taken |= dict.fromkeys(left, name)
    matched = {name: video for video, name in taken.items()}
    # The rest may be in other folders; compare only the folders that distinguish names.
    for name in [name for name in ours if name not in matched]:
        alike = near[parts[name][-1]]
        left = [each for each in alike if same_video(short[0][name], short[1][each])]
        if len(left) == 1 and left[0] not in matched.values():
            matched[name] = left[0]
    return {name: matched[name] for name in ours if name in matched}


def short_names(videos: Sequence[str]) -> list[str]:
    """Return the `videos` without suffix, with the fewest folders that distinguish them.

    >>> short_names(["f/cam1/a.mp4", "f/cam2/a.mp4", "f/b.mp4"])
    ['cam1/a', 'cam2/a', 'b']
    """
    parts = [tuple(_parts(video)) for video in videos]
    ends = Counter(one[-length:] for one in set(parts) for length in range(1, len(one) + 1))

    def shorten(mine: tuple[str, ...]) -> str:
        lengths = range(1, len(mine))
        enough = next((length for length in lengths if ends[mine[-length:]] == 1), len(mine))
        return "/".join(mine[-enough:])

    return [shorten(one) for one in parts]


def _parts(video: str) -> list[str]:
    folders = [part for part in video.replace("\\", "/").split("/")[:-1] if part]
    return [*folders, video_name(video)]


def _plain_parts(video: str) -> list[str]:
    return [part.casefold() for part in _parts(normalize("NFC", video))]


def safe_name(name: str) -> PurePosixPath:
    """Return a safe relative path for an untrusted `name`; folders in the name stay.

    >>> [str(safe_name(name)) for name in ("cam1/a b", "/../../etc/x", "..", "C:\\\\x?", "aux.1")]
    ['cam1/a b', 'etc/x', 'video', 'C%3A%5Cx%3F', '%61ux.1']
    """
    shown = printable(name).translate({ord(letter): f"%{ord(letter):02X}" for letter in _REFUSED})
    cut = (part.encode(errors="replace")[:_MOST] for part in shown.split("/"))
    parts = (part.decode(errors="ignore").strip(" ") for part in cut)
    kept = [_portable(part) for part in parts if part not in ("", ".", "..")]
    return PurePosixPath(*kept or ["video"])


def _portable(part: str) -> str:
    """Make one part of a path valid on Windows: not a device name, no dot at the end."""
    if _DEVICE.fullmatch(part.split(".")[0].rstrip(" ")):
        part = f"%{ord(part[0]):02X}{part[1:]}"
    return f"{part[:-1]}%2E" if part.endswith(".") else part


def plain(name: str) -> str:
    """Return the `name` of a step for comparison: ignore case, spaces, underscores, Unicode form.

    >>> plain(" Add  jam") == plain("add jam") == plain("add_jam")
    True
    """
    return normalize("NFC", " ".join(name.split()).replace("_", " ")).casefold()


def spell(names: Iterable[str], known: Sequence[str]) -> dict[str, str]:
    written = defaultdict[str, list[str]](list)
    for name in known:
        written[plain(name)].append(name)
    spelled = {}
    for name in names:
        found = [name] if name in known else written[plain(name)] or [name]
        if len(found) > 1:
            some = " or ".join(map(repr, found))
            raise AnnotationError(f"the step {name!r} may be {some}. Use one of these spellings.")
        spelled[name] = found[0]
    return spelled


def is_hole(state: os.stat_result) -> bool:
    """Whether a file is sparse: far longer than its content on disk, and slow to read."""
    on_disk = getattr(state, "st_blocks", state.st_size) * 512
    return state.st_size > 100 * max(on_disk, 1 << 20)
