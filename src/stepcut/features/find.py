"""Resolve a user's input (a folder, files, globs, addresses, arrays) and name each video."""

import glob
import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from stepcut.errors import FeatureError, OptionError, StepcutError, VideoError, check_kind
from stepcut.files import Address, AnyPath, as_path, files_below
from stepcut.files.names import FEATURE_SUFFIXES, VIDEO_SUFFIXES, Fragment, visible
from stepcut.progress import warn_once

Source = AnyPath | Iterable[AnyPath]
Places = list[Path | Address]


class _Kind(NamedTuple):
    suffixes: Collection[str]
    ends: str
    error: type[StepcutError]


_KINDS = {
    "video": _Kind(VIDEO_SUFFIXES, "videos end in .mp4, .mov, .mkv and the like", VideoError),
    "feature file": _Kind(
        FEATURE_SUFFIXES, f"they end in {', '.join(FEATURE_SUFFIXES)}", FeatureError
    ),
    "sensor file": _Kind((".csv", ".tsv"), "they end in .csv or .tsv", FeatureError),
}


@dataclass(frozen=True)
class Inputs:
    kind: str  # "video", "feature file", "sensor file" or "arrays"
    files: Places = field(default_factory=list)
    places: list[str] | None = None  # of the files and folders in the input; None for arrays
    arrays: Mapping[str, Any] = field(default_factory=dict)
    parts: dict[str, list[Fragment]] = field(default_factory=dict)
    """The parts of a file that are recordings, by its path; by default, the file is one."""

    def __len__(self) -> int:
        wholes = len(self.arrays or self.files) - len(self.parts)
        return wholes + sum(map(len, self.parts.values()))

    @cached_property
    def names(self) -> list[str]:
        return name_videos(self.files)


def find_inputs(source: Any) -> Inputs:
    if isinstance(source, Inputs):
        return source
    if isinstance(source, Mapping):
        return Inputs("arrays", arrays={str(name): array for name, array in source.items()})
    items = as_list(source)
    paths = sum(isinstance(item, str | os.PathLike | Address) for item in items)
    if items and not paths:
        return Inputs("arrays", arrays={str(place): array for place, array in enumerate(items)})
    if paths < len(items):
        what = f"{len(items) - paths} arrays and {paths} paths. Use one kind of input."
        raise OptionError(what, setting="source")
    inputs = find_files(items, *_KINDS)
    if inputs.kind == "sensor file":
        raise OptionError(
            f"{items[0]}: tables ({inputs.files[0].name}), not videos or feature files. Make "
            f"feature files of sensors: stepcut features {quote(str(items[0]))} --rate 50 -o "
            "features/ (50 samples per second). Label files belong to --labels.",
            setting="source",
            path=items[0],
        )
    return inputs


def find_files(source: Source, *kinds: str) -> Inputs:
    """Return the files in `source` of the first of the `kinds` that each item contains.

    Those of folders and globs are filtered by suffix and sorted naturally.
    """
    kinds, items = kinds or tuple(_KINDS), as_list(source)
    if not items:
        first = _KINDS[kinds[0]]
        what = f"no {kinds[0]}: the list is empty. Use a folder, files or a glob; {first.ends}."
        raise first.error(what)
    given = [Fragment.of(str(item)) for item in items]
    items = [
        one.whole if one.tail and not os.path.exists(str(item)) else item
        for one, item in zip(given, items, strict=True)
    ]
    found = [_find_one(item, kinds) for item in items]
    for item, (kind, _, _) in zip(items, found, strict=True):
        if kind != found[0][0]:
            what = f"{item} contains a {kind}, but {items[0]} a {found[0][0]}."
            raise OptionError(f"{what} Use one kind of input.", setting="source", path=item)
    files = {file.absolute(): file for _, _, files in found for file in files}
    places, parts = [], dict[str, list[Fragment]]()
    for one, item, (_, place, inside) in zip(given, items, found, strict=True):
        tail = one.tail if item == one.whole else ""
        places.append(f"{place.absolute()}{tail}")
        if tail:
            parts.setdefault(str(files[inside[0].absolute()]), []).append(one)
    return Inputs(found[0][0], list(files.values()), places, parts=parts)


def find_videos(source: Source) -> Places:
    return find_files(source, "video").files


def as_list(source: Any) -> list[Any]:
    if isinstance(source, str | os.PathLike | Address):
        return [source]
    wanted = "a folder, files or globs of videos or features, or arrays (T, d)"
    check_kind("source", source, Iterable, wanted)
    return list(source)


def _find_one(item: AnyPath, kinds: Sequence[str]) -> tuple[str, Path | Address, Places]:
    path, (_, ends, error_type) = as_path(item), _KINDS[kinds[0]]
    path = path if isinstance(path, Address) else path.expanduser()
    try:
        # A broken link is reported when it is opened, as one unusable video.
        folder, there = path.is_dir(), path.exists() or path.is_symlink()
    except PermissionError as error:
        what = f"cannot be read ({error.strerror}). Check the permissions of its folder."
        raise error_type(f"{item}: {what}") from error
    pattern = not there and glob.has_magic(str(path))
    if not pattern and not there:
        here = f"relative to {Path.cwd()}"
        here = "check the address and your permissions" if isinstance(path, Address) else here
        raise error_type(f"{item}: no such file or folder ({here}). Check the path.")
    files = all_files(path, pattern) if pattern or folder else [path]
    files = [file for file in files if file.name[0] != "."]  # as "._x.mp4" of macOS
    for kind in kinds:
        if fit := [file for file in files if file.suffix.lower() in _KINDS[kind].suffixes]:
            return kind, path, sorted(fit, key=natural)
    if there and not folder:  # a file may have any suffix
        return kinds[0], path, [path]
    shown = Counter(file.suffix.lower() or "no suffix" for file in files)
    seen = ", ".join(f"{count} x {suffix}" for suffix, count in shown.most_common(3))
    shut = folder and isinstance(path, Path) and not os.access(path, os.R_OK | os.X_OK)
    nothing = "nothing matches" if pattern else "it cannot be read" if shut else "it is empty"
    content = f"only {seen}" if seen else nothing
    what = f"no {kinds[0]} in this folder ({content}). Check the path; {ends}."
    raise error_type(f"{item}: {what}")


def all_files(path: Path | Address, pattern: bool = False, procedures: bool = False) -> Places:
    """Return the files below a folder or of a glob; no hidden folders or procedures."""
    if isinstance(path, Address):
        return list(files_below(path, pattern))
    if pattern:
        matches = glob.glob(str(path), recursive=True)
        return [Path(match) for match in matches if not os.path.isdir(match)]

    def warn(error: OSError) -> None:
        what = f"this folder cannot be read ({error.strerror}) and is skipped."
        warn_once(f"{error.filename}: {what}")

    found: Places = []
    for parent, folders, files in os.walk(path, onerror=warn):
        # The tensors of a procedure are not features.
        stored = "revisions" in folders and {"CURRENT", "events.jsonl"} & set(files)
        if not procedures and (stored or {"config.json", "steps.json"} <= set(files)):
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(parent, name) for name in files]
    return found


def natural(path: AnyPath) -> list[tuple[int, int, str]]:
    """Return a sort key that puts v2 before v10."""
    parts = re.split(r"(\d+)", str(path).casefold())
    return [(1, int(part), part) if part.isdecimal() else (0, 0, part) for part in parts if part]


def name_videos(paths: Sequence[AnyPath]) -> list[str]:
    """Name each path by its stem, or where stems collide by its path from the common folder."""
    parts = [Fragment.of(str(path)) for path in paths]
    tails = [part.tail for part in parts]
    found = [
        as_path(part.whole if part.tail else path) for part, path in zip(parts, paths, strict=True)
    ]
    files = [Path(file.path if isinstance(file, Address) else file).absolute() for file in found]
    levels = zip(*(file.parent.parts for file in files), strict=False)
    # Windows drives may have no common folder.
    shared = len(list(takewhile(lambda level: len(set(level)) == 1, levels)))
    relative = [Path(*file.parts[shared:]) for file in files]
    choices = [
        [file.stem for file in files],
        [file.with_suffix("").as_posix() for file in relative],
        [file.as_posix() for file in relative],
        [file.as_posix() for file in files],
    ]
    return unique_names(
        [[name + tail for name, tail in zip(one, tails, strict=True)] for one in choices]
    )


def unique_names(choices: Sequence[Sequence[str]]) -> list[str]:
    """Return for each place the first of its `choices` that is unique, numbered if necessary."""
    names, *others = [[visible(name) for name in names] for names in choices]
    for longer in others:
        count = Counter(names)
        both = zip(names, longer, strict=True)
        names = [name if count[name] == 1 else long for name, long in both]
    unique: dict[str, None] = {}
    for name in names:
        numbered = (f"{name}-{number}" for number in range(2, len(names) + 2))
        free = name not in unique
        unique[name if free else next(n for n in numbered if n not in {*unique, *names})] = None
    return list(unique)
