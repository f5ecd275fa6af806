"""Choose and upload files below one folder; nothing outside it is listed, read or written."""

import contextlib
import os
from pathlib import Path

from starlette.requests import Request

from stepcut.errors import OptionError, OutputError
from stepcut.files.atomic import whole_file
from stepcut.files.names import VIDEO_SUFFIXES, safe_name

UPLOADS = "uploads"
"""Folder for uploaded videos."""
LARGEST = 64 * 2**30
"""Maximum bytes of an upload."""


def below(root: Path | None, name: str, folder: bool = False) -> Path:
    """Path of a file or folder below `root`; raises OptionError for everything else."""
    if root is None:
        raise OptionError("files can only be chosen in the app. Run: stepcut app FOLDER")
    whole = root.resolve()
    try:
        path = (whole / name).resolve()
        there = path.is_dir() if folder else path.is_file()
    except (OSError, ValueError):  # ValueError: a NUL in the name
        there, path = False, whole
    if not there or not path.is_relative_to(whole):
        kind = "folder" if folder else "file"
        raise OptionError(f"{name!r} is not a {kind} of this app.", value=name)
    return path


def without_path(error: Exception, path: str | os.PathLike[str]) -> str:
    """The message of an error in one line; pages show the name of the file beside it."""
    return " ".join(str(error).split()).removeprefix(f"{os.fspath(path)}: ")


async def upload(root: Path | None, name: str, request: Request) -> str:
    """Write the body of a request to a new file; return its path below `root`."""
    folder = below(root, ".", folder=True) / UPLOADS
    plain = safe_name(name.replace("/", "_").replace("\\", "_")).name
    if Path(plain).suffix.lower() not in VIDEO_SUFFIXES:
        raise OptionError(
            f"{name!r} is not a video file. Upload a file such as new.mp4.",
            value=name,
            allowed=VIDEO_SUFFIXES,
        )
    length = int(request.headers.get("content-length", "0"))
    if not 0 < length <= LARGEST:
        raise OptionError(
            f"{name!r} has {length} bytes; 1 to {LARGEST} are allowed.",
            value=length,
            allowed=LARGEST,
        )
    folder.mkdir(exist_ok=True)
    target = _free(folder, plain)
    try:
        with whole_file(target) as temporary:
            with open(temporary, "wb") as file:
                async for piece in request.stream():
                    file.write(piece)
            if temporary.stat().st_size != length:
                raise OutputError(f"{name!r} is incomplete. Upload it again.", path=target)
    except BaseException:
        target.unlink()
        raise
    return f"{UPLOADS}/{target.name}"


def _free(folder: Path, name: str) -> Path:
    """Create an unused path: name, name-2, name-3, ..."""
    stem, suffix = os.path.splitext(name)
    count = 1
    while True:
        path = folder / (name if count == 1 else f"{stem}-{count}{suffix}")
        with contextlib.suppress(FileExistsError):
            path.touch(exist_ok=False)
            return path
        count += 1
