"""Find the videos or feature files that a user means (a folder, files, globs, addresses), and name each."""

import glob
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from stepcut.errors import FeatureError, StepcutError, VideoError, check_kind
from stepcut.files.addresses import Address, AnyPath, as_path, files_below
from stepcut.files.names import VIDEO_SUFFIXES, visible
from stepcut.progress import warn_once

Source = AnyPath | Iterable[AnyPath]
Places = list[Path | Address]
FEATURE_SUFFIXES = (".npy", ".npz", ".safetensors")


class _Kind(NamedTuple):
    name: str
    suffixes: Collection[str]
    ends: str
    error: type[StepcutError]


_VIDEO = _Kind(
    "video", VIDEO_SUFFIXES, "videos end in .mp4, .mov, .mkv, .webm, .avi and the like", VideoError
)
_FEATURES = _Kind(
    "feature file", FEATURE_SUFFIXES, f"they end in {', '.join(FEATURE_SUFFIXES)}", FeatureError
)


def find_videos(source: Source) -> Places:
    """The video files in `source`: a folder (searched to the bottom), a file, a glob, or a list of these.

    Folders and globs give the files with a usual suffix, in natural order (2 before 10); a file that is named is taken
    whatever its suffix. No file comes twice.
    """
    return _find(source, _VIDEO)


def find_features(source: Source) -> Places:
    """The feature files in `source`, found as videos are."""
    return _find(source, _FEATURES)


def count_videos(source: Sequence[AnyPath]) -> int | None:
    """How many videos or feature files a `source` has, before any is opened; None where that cannot be said."""
    for kind in (_VIDEO, _FEATURES):
        try:
            return len(_find(source, kind))
        except StepcutError:
            continue
    return None


def feature_files(given: AnyPath) -> Places:
    """The feature files that `given`, a file, folder or glob, stands for; none where it stands for videos."""
    files = all_files(as_path(given))
    return [] if _of(files, _VIDEO) else _of(files, _FEATURES)


def as_list(source: Any) -> list[Any]:
    """What a `source` holds: itself alone where it is a path."""
    if isinstance(source, str | os.PathLike | Address):
        return [source]
    check_kind(
        "source",
        source,
        Iterable,
        "a folder, files or globs of videos or features, or arrays (T, d)",
    )
    return list(source)


def _find(source: Source, kind: _Kind) -> Places:
    items = as_list(source)
    if not items:
        raise kind.error(
            f"no {kind.name} was given: the list is empty. Give a folder, files or a glob; {kind.ends}."
        )
    found = [path for item in items for path in _find_one(item, kind)]
    return list({path.absolute(): path for path in found}.values())


def _find_one(given: AnyPath, kind: _Kind) -> Places:
    path = as_path(given)
    path = path if isinstance(path, Address) else path.expanduser()
    try:
        # A link to nothing is told where it is opened, as one video that cannot be used.
        pattern, folder, there = (
            _is_pattern(path),
            path.is_dir(),
            path.exists() or path.is_symlink(),
        )
    except PermissionError as error:
        raise kind.error(
            f"{given}: cannot be read ({error.strerror}). Check the permissions of its folder."
        ) from error
    if not pattern and not folder:
        if there:
            return [path]
        here = (
            "check the address, and that you may read it"
            if isinstance(path, Address)
            else f"read from {Path.cwd()}"
        )
        raise kind.error(f"{given}: no such file or folder ({here}). Check the path.")
    files = all_files(path)
    found = _of(files, kind)
    if not found:
        suffixes = Counter(
            file.suffix.lower() or "no suffix" for file in files if not file.name.startswith(".")
        )
        seen = ", ".join(f"{count} x {suffix}" for suffix, count in suffixes.most_common(3))
        shut = folder and isinstance(path, Path) and not os.access(path, os.R_OK | os.X_OK)
        nothing = "nothing matches" if pattern else "it cannot be read" if shut else "it is empty"
        held = f"only {seen}" if seen else nothing
        raise kind.error(
            f"{given}: no {kind.name} in this folder ({held}). Check the path; {kind.ends}."
        )
    return found


def _is_pattern(path: Path | Address) -> bool:
    return glob.has_magic(str(path)) and not path.exists()


def all_files(path: Path | Address) -> Places:
    """All files below a folder, those that match a glob, or the file itself; hidden folders are passed over, as are
    procedures. At an address nothing is."""
    pattern = _is_pattern(path)
    if isinstance(path, Address):
        return list(files_below(path, pattern)) if pattern or path.is_dir() else [path]
    if pattern:
        return [
            Path(match)
            for match in glob.glob(str(path), recursive=True)
            if not os.path.isdir(match)
        ]
    if not os.path.isdir(path):  # one that may not be looked at is told where it is used
        return [path]

    def pass_over(error: OSError) -> None:
        warn_once(
            f"{error.filename}: this folder cannot be read ({error.strerror}); what lies in it is left out."
        )

    found: Places = []
    for parent, folders, files in os.walk(path, onerror=pass_over):
        if {"config.json", "steps.json"} <= set(
            files
        ):  # a procedure, whose tensors are no features
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(parent, name) for name in files]
    return found


def _of(files: Places, kind: _Kind) -> Places:
    """Those of a kind in natural order, without such as the "._film.mp4" that macOS leaves beside every film."""
    fit = [
        file
        for file in files
        if file.suffix.lower() in kind.suffixes and not file.name.startswith(".")
    ]
    return sorted(fit, key=natural)


def natural(path: AnyPath) -> list[tuple[int, int, str]]:
    """A sort key for a `path` or a name, by which v2 comes before v10.

    >>> sorted([Path("v10"), Path("v2")], key=natural)[0].name
    'v2'
    """
    parts = re.split(r"(\d+)", str(path).casefold())
    return [(1, int(part), part) if part.isdecimal() else (0, 0, part) for part in parts if part]


def name_videos(paths: Sequence[AnyPath]) -> list[str]:
    """A name for each of `paths`: its stem; where stems collide, its path from the common folder, or with suffix.

    All names differ, and hold only characters that can be seen.

    >>> name_videos(["a/x.mp4", "b/x.mp4", "b/y.mp4"])
    ['a/x', 'b/x', 'y']
    """
    found = [as_path(path) for path in paths]
    files = [Path(file.path) if isinstance(file, Address) else file for file in found]
    absolute = [file.absolute() for file in files]
    levels = zip(*(file.parent.parts for file in absolute), strict=False)
    shared = len(
        list(takewhile(lambda level: len(set(level)) == 1, levels))
    )  # none on two drives of Windows
    relative = [Path(*file.parts[shared:]) for file in absolute]
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
    seen = [[visible(name) for name in names] for names in choices]
    names = seen[0]
    for longer in seen[1:]:
        count = Counter(names)
        names = [
            name if count[name] == 1 else long for name, long in zip(names, longer, strict=True)
        ]
    taken: set[str] = set()
    for place, name in enumerate(names):
        numbered = (f"{name}-{number}" for number in range(2, len(names) + 2))
        names[place] = (
            name
            if name not in taken
            else next(other for other in numbered if other not in {*taken, *names})
        )
        taken.add(names[place])
    return names
