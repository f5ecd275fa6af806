"""The folder of the app: names in requests are resolved here, and nothing outside is touched."""

import contextlib
import itertools
import os
import secrets
import shutil
import time
from collections.abc import AsyncIterable, Collection, Iterator
from pathlib import Path, PurePath
from typing import BinaryIO

from starlette.concurrency import run_in_threadpool

from stepcut.errors import OptionError, OutputError, printable
from stepcut.features.find import all_files
from stepcut.files import PART, output_errors, sync_folder
from stepcut.files.names import VIDEO_SUFFIXES, safe_name

UPLOADS = "uploads"
LARGEST = 64 * 2**30
IDLE = 60.0
"""Seconds without a change after which an unfinished file is a remainder of a killed server."""


class Folder:
    """The files below `root` that pages can choose and write; none if it is `closed`."""

    def __init__(self, root: Path, closed: bool = False) -> None:
        self.root, self.closed = root.resolve(), closed

    def find(self, name: str, folder: bool = False) -> Path:
        if self.closed:
            raise OptionError("files can only be chosen in the app. Run: stepcut app FOLDER")
        try:
            path = self._spelled(name).resolve()
            there = path.is_dir() if folder else path.is_file()
        except (OSError, ValueError, RuntimeError):  # too long, NUL, or a circle of links
            there, path = False, self.root
        if not there or not path.is_relative_to(self.root):
            kind = "folder" if folder else "file"
            raise OptionError(f"{name[:200]!r} is not a {kind} of this app.", value=name)
        return path

    def _spelled(self, name: str) -> Path:
        """Take back the escapes of `shown`."""
        path = self.root
        for part in PurePath(name).parts:
            path /= part
            if "%" in part and not os.path.lexists(path):
                alike = (one for one in path.parent.iterdir() if printable(one.name) == part)
                path = next(alike, path)
        return path

    def shown(self, path: Path) -> str:
        """The path relative to `root`, with bytes that are not UTF-8 escaped."""
        inside = path.relative_to(self.root) if path.is_relative_to(self.root) else path
        return printable(inside.as_posix())

    def place(self, *parts: str) -> Path:
        path = self.root
        for part in parts:
            path /= part
            if path.is_symlink():
                raise OptionError(
                    f"{self.shown(path)} is a link, and the app does not write through links. "
                    "Remove it, or choose another name."
                )
        return path

    def open(self, path: Path) -> BinaryIO:
        self.place(*path.relative_to(self.root).parts)
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
        return os.fdopen(os.open(path, flags), "rb")

    def find_labels(self, name: str) -> Path:
        """A label file, or a folder of them."""
        try:
            path = self.find(name, folder=True)
        except OptionError:
            path = self.find(name)
        self.check_links(path)
        return path

    def check_links(self, path: Path) -> None:
        for file in all_files(path, procedures=True) if path.is_dir() else ():
            if isinstance(file, Path) and not self.holds(file):
                raise OptionError(
                    f"{self.shown(file)} is a link that leaves the folder of this app. Replace it "
                    "with a copy of the file, or remove it."
                )

    def holds(self, path: Path) -> bool:
        try:
            return path.resolve().is_relative_to(self.root)
        except (OSError, RuntimeError):
            return False

    async def receive(self, name: str, length: int, pieces: AsyncIterable[bytes]) -> str:
        """Write an upload to a new file, whole or not at all."""
        shown = repr(name[:200])
        plain = safe_name(name.replace("/", "_").replace("\\", "_")).name
        if self.closed or Path(plain).suffix.lower() not in VIDEO_SUFFIXES:
            self.find(".", folder=True)
            raise OptionError(f"{shown} is not a video file. Upload a file such as new.mp4.")
        if not 0 < length <= LARGEST:
            raise OptionError(f"{shown} has {length} bytes; 1 to {LARGEST} are allowed.")
        folder = self.place(UPLOADS)
        part = folder / f".{plain}.{secrets.token_hex(4)}.part"
        with output_errors(folder):
            folder.mkdir(exist_ok=True)
            try:
                with open(part, "xb", opener=_no_links) as file:
                    async for piece in pieces:
                        file.write(piece)
                    await run_in_threadpool(os.fsync, file.fileno())
                    if file.tell() != length:
                        raise OutputError(f"{shown} is incomplete. Upload it again.")
                target = await run_in_threadpool(_put_beside, part, plain)
            finally:
                part.unlink(missing_ok=True)
        return f"{UPLOADS}/{target.name}"

    def clear(self, busy: Collection[str] = ()) -> None:
        """Remove unfinished uploads of killed servers, and exports whose token is not `busy`."""
        uploads = self.root / UPLOADS
        for folder in (self.root, uploads) if not uploads.is_symlink() else (self.root,):
            with contextlib.suppress(OSError):
                for path in folder.iterdir():
                    if path.is_symlink() or time.time() - path.lstat().st_mtime < IDLE:
                        continue
                    part = PART.fullmatch(path.name)
                    if part and path.is_dir():  # a folder of 32 digits belongs to a command
                        if part[2] is None and path.name[-13:-5] not in busy:
                            shutil.rmtree(path, ignore_errors=True)
                    elif folder == uploads and (part or not path.stat().st_size):
                        path.unlink()


@contextlib.contextmanager
def beside(target: Path, job: str) -> Iterator[Path]:
    fresh = target.with_name(f".{target.name}.{job[-8:]}.part")
    shutil.rmtree(fresh, ignore_errors=True)  # of an earlier start of this job
    try:
        yield fresh
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def without_path(error: Exception, path: str | os.PathLike[str]) -> str:
    return " ".join(str(error).split()).removeprefix(f"{printable(os.fspath(path))}: ")


def _no_links(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _put_beside(part: Path, name: str) -> Path:
    """Rename to the first of name, name-2, name-3, ... that is not taken."""
    stem, suffix = os.path.splitext(name)
    for count in itertools.count(1):
        path = part.with_name(name if count == 1 else f"{stem}-{count}{suffix}")
        try:
            os.link(part, path)  # unlike a rename, this replaces nothing
        except FileExistsError:
            continue
        except OSError:  # a disk without hard links
            if os.path.lexists(path):
                continue
            os.replace(part, path)
        sync_folder(path.parent)
        return path
    raise AssertionError
