"""Find the videos that a user means (a folder, files, globs) and give each a short name."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from stepcut.errors import VideoError, printable
from stepcut.files.addresses import Address, AnyPath, as_path, files_below

SUFFIXES = frozenset(
    f".{name}"
    for name in (
        *("mp4", "m4v", "mov", "mkv", "webm", "avi", "mpg", "mpeg", "m2v", "ts", "mts", "m2ts", "vob", "wmv", "asf"),
        *(
            "flv",
            "f4v",
            "3gp",
            "3g2",
            "ogv",
            "ogm",
            "mxf",
            "divx",
            "h264",
            "264",
            "h265",
            "265",
            "hevc",
            "ivf",
            "y4m",
            "dv",
        ),
    )
)
"""What the names of video files usually end in."""

Source = AnyPath | Iterable[AnyPath]


def find_videos(source: Source) -> list[Path | Address]:
    """The video files in `source`: a folder (searched to the bottom), a file, a glob, or a list of these.

    Folders and globs give the files with a usual suffix, in natural order (2 before 10); a file that is named is taken
    whatever its suffix. No file comes twice.
    """
    items = [source] if isinstance(source, str | os.PathLike | Address) else list(source)
    if not items:
        raise VideoError(
            "no video was given: the list is empty. Give a folder, video files or a glob like 'films/*.mp4'."
        )
    found = [path for item in items for path in _find_one(item)]
    return list({path.absolute(): path for path in found}.values())


def _find_one(given: AnyPath) -> list[Path] | list[Address]:
    path = as_path(given)
    if isinstance(path, Address):
        return _find_at(path)
    item, path = os.fspath(path), path.expanduser()
    if path.is_dir():
        return _videos_in(path)
    if path.exists():
        return [path]
    if glob.has_magic(item):
        matches = [Path(match) for match in glob.glob(str(path), recursive=True)]
        videos = [match for match in matches if not match.is_dir() and match.suffix.lower() in SUFFIXES]
        if not videos:
            seen = f"{len(matches)} files match, none of them a video" if matches else "nothing matches"
            raise VideoError(
                f"{item}: {seen}. Check the pattern; videos end in .mp4, .mov, .mkv, .webm, .avi and the like."
            )
        return sorted(videos, key=natural)
    kind = "file" if path.suffix else "folder or file"
    raise VideoError(f"{item}: no such {kind}. Check the path; it is read from {Path.cwd()}.")


def _find_at(address: Address) -> list[Address]:
    """The videos at an address: a folder, a file or a glob."""
    if glob.has_magic(str(address)):
        before, _, pattern = str(address).partition("*")
        folder, _, rest = before.rpartition("/")
        found = list(files_below(Address(folder), f"{rest}*{pattern}"))
    elif address.is_dir():
        found = list(files_below(address))
    elif address.exists():
        return [address]
    else:
        raise VideoError(f"{address}: there is nothing at this address. Check it, and that you may read it.")
    videos = [file for file in found if file.suffix.lower() in SUFFIXES and not file.name.startswith(".")]
    if not videos:
        raise VideoError(
            f"{address}: no video at this address ({len(found)} other files). "
            "Videos end in .mp4, .mov, .mkv, .webm, .avi and the like."
        )
    return sorted(videos, key=natural)


def _videos_in(folder: Path) -> list[Path]:
    others: Counter[str] = Counter()
    videos = []
    for parent, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in files:
            suffix = Path(name).suffix.lower()
            if name.startswith("."):  # such as the "._film.mp4" that macOS leaves beside every film
                continue
            if suffix in SUFFIXES:
                videos.append(Path(parent, name))
            else:
                others[suffix or "no suffix"] += 1
    if not videos:
        seen = ", ".join(f"{count} x {suffix}" for suffix, count in others.most_common(3))
        raise VideoError(
            f"{folder}: no video in this folder ({f'only {seen}' if seen else 'it is empty'}). "
            "Videos end in .mp4, .mov, .mkv, .webm, .avi and the like."
        )
    return sorted(videos, key=natural)


def natural(path: Path | Address) -> list[tuple[int, int, str]]:
    """A sort key by which v2 comes before v10.

    >>> sorted([Path("v10"), Path("v2")], key=natural)[0].name
    'v2'
    """
    parts = re.split(r"(\d+)", str(path).casefold())
    return [(1, int(part), part) if part.isdecimal() else (0, 0, part) for part in parts if part]


def name_videos(paths: Sequence[AnyPath]) -> list[str]:
    """A name for each video: its stem; where stems collide, its path from the common folder, with suffix if need be.

    All names differ, and hold only characters that can be seen.

    >>> name_videos(["a/x.mp4", "b/x.mp4", "b/y.mp4"])
    ['a/x', 'b/x', 'y']
    """
    found = [as_path(path) for path in paths]
    files = [Path(file.path) if isinstance(file, Address) else file for file in found]
    absolute = [file.absolute() for file in files]
    common = Path(os.path.commonpath([file.parent for file in absolute])) if files else Path()
    relative = [file.relative_to(common) for file in absolute]
    choices = [
        [file.stem for file in files],
        [file.with_suffix("").as_posix() for file in relative],
        [file.as_posix() for file in relative],
        [file.as_posix() for file in absolute],
    ]
    return unique_names(choices)


def unique_names(choices: Sequence[Sequence[str]]) -> list[str]:
    """For each place the first of its `choices` that no other place has taken; the last one with a number if need be.

    >>> unique_names([["a", "a", "b"], ["x/a", "y/a", "x/b"]])
    ['x/a', 'y/a', 'b']
    """
    seen = [[printable(name) for name in names] for names in choices]
    names = seen[0]
    for longer in seen[1:]:
        count = Counter(names)
        names = [name if count[name] == 1 else long for name, long in zip(names, longer, strict=True)]
    taken: set[str] = set()
    for place, name in enumerate(names):
        numbered = (f"{name}-{number}" for number in range(2, len(names) + 2))
        names[place] = name if name not in taken else next(other for other in numbered if other not in {*taken, *names})
        taken.add(names[place])
    return names
