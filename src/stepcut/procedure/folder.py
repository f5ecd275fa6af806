"""The folder of a procedure on disk: locking, atomic replacement, and repair after a crash."""

import contextlib
import ctypes
import glob
import hashlib
import os
import shlex
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stepcut.errors import ExtraNeeded, OptionError, OutputError, ProcedureError
from stepcut.files.addresses import Address, AnyPath, as_path, put
from stepcut.files.atomic import (
    PART,
    check_place,
    clear_parts,
    file_mode,
    hold,
    output_errors,
    read_bytes,
    read_json,
    sync_folder,
)
from stepcut.version import __version__

FORMAT = 2
"""The format version; older versions of stepcut refuse a higher one."""
ROOM = 1 << 20
"""Free bytes required before learning: the size of a small procedure."""


OURS = frozenset(
    (
        "config.json", "model.safetensors", "steps.json", "timelines.json", "orders.json",
        "graph.json", "check.json", "loss.csv", "README.md", "labels.json", "annotations.json",
        "severity.json", "edits.json",
    )
)  # fmt: skip
"""The files that stepcut writes into the folder of a procedure; all others belong to the user."""
CARD = "README.md"
OLD_LABELS = "labels.json"
"""A file of format 1; in later formats it belongs to the user."""


@contextlib.contextmanager
def locked(folder: Path | Address, shared: bool = False) -> Iterator[None]:
    """Lock a folder for one writer or, with `shared`, for readers.

    The lock is on the parent folder, which stays when the procedure is replaced. Addresses have no
    locks.
    """
    if isinstance(folder, Address):
        yield
        return
    place = folder.resolve()
    if _replaced(place):
        with hold(place.parent):
            repair(place)
    with hold(place.parent, shared):
        yield


def _replaced(folder: Path) -> list[Path]:
    """The replaced procedures that an interrupted `put_in_place` left beside `folder`."""
    return list(folder.parent.glob(f".{glob.escape(folder.name)}.*.old"))


def repair(folder: Path) -> None:
    """Finish an interrupted `put_in_place`; the caller holds the lock."""
    for old in _replaced(folder):
        with contextlib.suppress(OSError):
            if not folder.exists():
                os.replace(old, folder)
            else:
                _carry_over(old, folder)
                shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def new_folder(target: Path | Address) -> Iterator[Path]:
    """Create an empty folder that `put_in_place` renames to `target`; it is deleted on exit.

    A folder that replaces another one is private until `put_in_place` copies the permissions.
    """
    if isinstance(target, Address):
        with tempfile.TemporaryDirectory(prefix="stepcut-") as folder:
            yield Path(folder)
        return
    with output_errors(target):
        place = target.resolve()  # keep a symbolic link
        fresh = place.parent / f".{place.name}.{uuid.uuid4().hex}.part"
        fresh.parent.mkdir(parents=True, exist_ok=True)
        fresh.mkdir(0o700 if place.exists() else 0o777)
        try:
            yield fresh
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def put_in_place(fresh: Path, target: Path | Address) -> None:
    """Rename the folder `fresh` to `target`, replacing its procedure; the caller holds the lock.

    Files of the user and permissions are kept. At an address, config.json is written last, because
    a folder without it is not a procedure.
    """
    if isinstance(target, Address):
        for name in ("config.json", *OURS):
            with contextlib.suppress(FileNotFoundError):
                (target / name).unlink()
        for file in sorted(
            fresh.iterdir(), key=lambda file: (file.name == "config.json", file.name)
        ):
            put(file, target / file.name)
        return
    target = target.resolve()
    if target.exists():
        _check_movable(target)
        for path in (fresh, *fresh.iterdir()):
            mode = file_mode(target if path == fresh else target / path.name)
            if mode is not None:
                path.chmod(mode)
        # `repair` looks for these names after a crash.
        new, old = (target.parent / f".{target.name}.{uuid.uuid4().hex}.old" for _ in range(2))
        os.replace(fresh, new)
        if exchange(new, target):
            old = new
        else:
            os.replace(target, old)
            os.replace(new, target)
        _carry_over(old, target)
        sync_folder(target.parent)  # before the old procedure is deleted
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.replace(fresh, target)
        sync_folder(target.parent)


def _check_movable(folder: Path) -> None:
    """Refuse to replace a `folder` if it contains a folder that cannot be kept.

    It has the name of a file of stepcut, or only another user can move it.
    """
    for path in folder.iterdir():
        if path.is_symlink() or not path.is_dir():
            continue
        if path.name in OURS:
            raise OutputError(
                f"{path}: stepcut writes a file of this name, but a folder is there. Rename the "
                "folder, then run the same command again.",
                path=path,
            )
        if sys.platform == "win32" or path.stat().st_uid == os.geteuid():
            continue
        if not os.access(path, os.W_OK):
            raise OutputError(
                f"{path}: this folder belongs to another user and cannot be moved to the new "
                "procedure. Move it elsewhere, then run the same command again.",
                path=path,
            )


def _carry_over(old: Path, new: Path) -> None:
    """Move the files of the user from the folder `old` to the folder `new`."""
    kept = _own_files(old)
    for path in old.iterdir():
        unfinished = PART.fullmatch(path.name)  # left by a run that was killed
        name = unfinished["name"] if unfinished else path.name
        if name in OURS and name not in kept:
            continue
        try:
            os.replace(path, new / path.name)
        except PermissionError:  # a read-only folder cannot be moved
            mode = path.stat().st_mode
            path.chmod(mode | 0o700)
            os.replace(path, new / path.name)
            (new / path.name).chmod(mode)
    sync_folder(new)


def _own_files(folder: Path) -> set[str]:
    """Return the names of `OURS` that the user wrote: an edited card, and labels in format 2."""
    own = set()
    with contextlib.suppress(OSError, ProcedureError):
        config = read_config(folder)
        if config["format"] > 1:
            own.add(OLD_LABELS)
        if config.get("card") not in (None, digest(read_bytes(folder / CARD))):
            own.add(CARD)
    return own


def digest(data: bytes) -> str:
    """Return a short hash of the content of a file."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def exchange(one: Path, other: Path) -> bool:
    """Exchange two folders atomically on Linux; return False on other systems."""
    if not sys.platform.startswith("linux"):
        return False
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    here, exchanging = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return (
        rename is not None
        and rename(here, os.fsencode(one), here, os.fsencode(other), exchanging) == 0
    )


def check_output(output: AnyPath) -> None:
    """Refuse, before any work, an `output` that cannot be written."""
    folder = as_path(output)
    if folder.exists() and not is_procedure(folder):
        raise OutputError(
            f"{folder}: it exists and is not a procedure. Choose another name with -o.", path=folder
        )
    if isinstance(folder, Address):
        return
    if folder.exists():
        _check_movable(folder)
    clear_parts(folder.resolve())
    check_place(folder.resolve().parent, folder=True)
    above = next(path for path in folder.resolve().parents if path.exists())
    if shutil.disk_usage(above).free < ROOM:
        raise OutputError(
            f"{folder}: no space left on the disk. Free some, or choose another place with -o.",
            path=folder,
        )


def read_config(path: AnyPath) -> dict[str, Any]:
    """Read the config.json of the procedure at `path`, and refuse other versions and folders."""
    folder = as_path(path)
    if not folder.exists():
        place = shlex.quote(str(folder))
        raise ProcedureError(
            f"{folder}: this procedure does not exist. Create it with: "
            f"stepcut learn VIDEOS... -o {place}",
            path=folder,
        )
    if not is_procedure(folder):
        raise ProcedureError(
            f"{folder}: this is not a procedure, because it has no config.json of stepcut. "
            "Give the folder that `stepcut learn -o` wrote.",
            path=folder,
        )
    config: dict[str, Any] = read_json(folder / "config.json")
    if not isinstance(config["format"], int) or config["format"] > FORMAT:
        raise ProcedureError(
            f"{folder}: stepcut {config['stepcut']} wrote this procedure (format "
            f"{config['format']}); stepcut {__version__} reads formats up to {FORMAT}. "
            "Update with: pip install --upgrade stepcut",
            path=folder,
        )
    if str(config["stepcut"]).startswith("0.1."):
        raise ProcedureError(
            f"{folder}: stepcut {config['stepcut']} wrote this procedure, and this version cannot "
            "read it. Learn it again with: stepcut learn",
            path=folder,
        )
    return config


def read_fingerprint(path: AnyPath) -> str:
    """Return the fingerprint of the procedure at `path`, or ""."""
    return str(read_config(path).get("fingerprint", ""))


def folder_here(path: AnyPath) -> Path:
    """Return the folder at `path`; refuse an address, where corrections cannot be locked."""
    folder = as_path(path)
    if isinstance(folder, Address):
        raise OptionError(
            f"{folder}: viewing and correcting need a local folder. Copy the procedure here first.",
            path=folder,
        )
    return folder


def is_procedure(folder: Path | Address) -> bool:
    """Whether any version of stepcut wrote the folder."""
    try:
        config = read_json(folder / "config.json")
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and {"format", "stepcut", "method"} <= config.keys()


@contextlib.contextmanager
def damaged(folder: AnyPath) -> Iterator[None]:
    """Turn any error inside into a `ProcedureError` that names the `folder`."""
    try:
        yield
    except ExtraNeeded:
        raise
    except ProcedureError as error:
        raise ProcedureError(f"{folder}: {error}", path=folder) from error
    except Exception as error:
        raise ProcedureError(
            f"{folder}: the procedure is damaged ({type(error).__name__}: {error}). "
            "Learn it again, or restore the folder.",
            path=folder,
        ) from error
