"""The folder of a procedure on the disk: one writer at a time, exchanged in one step, repaired after a kill."""

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
    check_place,
    file_mode,
    hold,
    output_errors,
    read_bytes,
    read_json,
    sync_folder,
)
from stepcut.version import __version__

FORMAT = 2
"""Raised when an older stepcut could not read what a newer one writes."""
ROOM = 1 << 20
"""Bytes that must be free before learning begins: a small procedure."""


OURS = frozenset(
    (
        "config.json", "model.safetensors", "steps.json", "timelines.json", "orders.json",
        "graph.json", "check.json", "loss.csv", "README.md", "labels.json", "annotations.json",
        "severity.json", "edits.json",
    )
)  # fmt: skip
"""The files that stepcut writes into the folder of a procedure. Everything else there belongs to the user."""
CARD = "README.md"


@contextlib.contextmanager
def locked(folder: Path | Address, shared: bool = False) -> Iterator[None]:
    """Inside is one writer of this folder, or, with `shared`, any number of readers and no writer.

    What is locked is the folder above it, which stays when the procedure is exchanged. Where the system has no locks,
    the exchange in one step still keeps folders whole; at an address there are none.
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
    """What procedures that `folder` has replaced left behind: there is something only during `put_in_place`."""
    return list(folder.parent.glob(f".{glob.escape(folder.name)}.*.old"))


def repair(folder: Path) -> None:
    """Finish what a killed `put_in_place` began; the caller holds the lock."""
    for old in _replaced(folder):
        with contextlib.suppress(OSError):  # what may not be moved stays where it is
            if not folder.exists():
                os.replace(old, folder)
            else:
                _carry_over(old, folder)
                shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def new_folder(target: Path | Address) -> Iterator[Path]:
    """An empty folder to be filled and given the name `target` by `put_in_place`; what has its name then is removed.

    Nobody else may look into one that replaces another: `put_in_place` gives it the permissions of that one.
    """
    if isinstance(target, Address):
        with tempfile.TemporaryDirectory(prefix="stepcut-") as folder:
            yield Path(folder)
        return
    with output_errors(target):
        place = target.resolve()  # a link stays one
        fresh = place.parent / f".{place.name}.{uuid.uuid4().hex}.part"
        fresh.parent.mkdir(parents=True, exist_ok=True)
        fresh.mkdir(0o700 if place.exists() else 0o777)
        try:
            yield fresh
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def put_in_place(fresh: Path, target: Path | Address) -> None:
    """Give the folder `fresh` the name `target`; the procedure that stood there makes way. The caller holds the lock.

    Whatever stepcut did not write there is carried over, and permissions stay. At an address config.json comes last: a
    folder without it is not a procedure, so none is ever half one.
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
        # `repair` finds these names where a kill leaves them behind.
        new, old = (target.parent / f".{target.name}.{uuid.uuid4().hex}.old" for _ in range(2))
        os.replace(fresh, new)
        if exchange(new, target):
            old = new
        else:
            os.replace(target, old)
            os.replace(new, target)
        _carry_over(old, target)
        shutil.rmtree(old, ignore_errors=True)
    else:
        os.replace(fresh, target)
    sync_folder(target.parent)


def _check_movable(folder: Path) -> None:
    """Refuse to replace a `folder` with a folder inside that only another user can move."""
    if sys.platform == "win32":
        return
    for path in folder.iterdir():
        ours = path.is_symlink() or not path.is_dir() or path.stat().st_uid == os.geteuid()
        if not ours and not os.access(path, os.W_OK):
            raise OutputError(
                f"{path}: this folder belongs to another user and cannot be moved to the new "
                "procedure. Move it elsewhere, then run the same command again."
            )


def _carry_over(old: Path, new: Path) -> None:
    """Move what stepcut did not write from the folder `old` to the folder `new`."""
    ours = OURS - {CARD} if _is_own_card(old) else OURS
    for path in old.iterdir():
        if path.name in ours:
            continue
        try:
            os.replace(path, new / path.name)
        except PermissionError:  # a folder that may not be written to may not be moved
            mode = path.stat().st_mode
            path.chmod(mode | 0o700)
            os.replace(path, new / path.name)
            (new / path.name).chmod(mode)
    sync_folder(new)


def _is_own_card(folder: Path) -> bool:
    """Whether a person has written the README.md in this `folder`, or into it."""
    try:
        card, written = read_bytes(folder / CARD), read_config(folder).get("card")
    except (OSError, ProcedureError):
        return False
    return written is not None and written != digest(card)


def digest(data: bytes) -> str:
    """A short name for the content of a file."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def exchange(one: Path, other: Path) -> bool:
    """Exchange the names of the folders `one` and `other` in one step, where the system can (Linux); else False."""
    if not sys.platform.startswith("linux"):
        return False
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    here, exchanging = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
    return (
        rename is not None
        and rename(here, os.fsencode(one), here, os.fsencode(other), exchanging) == 0
    )


def check_output(output: AnyPath) -> None:
    """Say before the work, not after it, that a procedure cannot be kept at `output`."""
    folder = as_path(output)
    if folder.exists() and not is_procedure(folder):
        raise OutputError(
            f"{folder}: it exists and is not a procedure, so it is left alone. Choose another name with -o."
        )
    if isinstance(folder, Address):
        return
    check_place(folder.resolve().parent, folder=True)
    above = next(path for path in folder.resolve().parents if path.exists())
    if shutil.disk_usage(above).free < ROOM:
        raise OutputError(
            f"{folder}: no space left on the disk. Free some, or choose another place with -o."
        )


def read_config(path: AnyPath) -> dict[str, Any]:
    """The config.json of the procedure at `path`, or an error that says why it cannot be one."""
    folder = as_path(path)
    if not folder.exists():
        place = shlex.quote(str(folder))
        raise ProcedureError(
            f"{folder}: there is no such procedure. Make one with stepcut learn VIDEOS... -o {place}"
        )
    if not is_procedure(folder):
        why = "it has no config.json written by stepcut learn. Give the folder that its -o named"
        raise ProcedureError(f"{folder}: this is not a procedure: {why}.")
    config: dict[str, Any] = read_json(folder / "config.json")
    if not isinstance(config["format"], int) or config["format"] > FORMAT:
        raise ProcedureError(
            f"{folder}: it was made by stepcut {config['stepcut']} (format {config['format']}); this is {__version__}, "
            f"which reads up to format {FORMAT}. Update with: pip install --upgrade stepcut"
        )
    if str(config["stepcut"]).startswith("0.1."):
        raise ProcedureError(
            f"{folder}: it was made by stepcut {config['stepcut']}, whose procedures are no longer read. Learn it again "
            "with: stepcut learn"
        )
    return config


def read_fingerprint(path: AnyPath) -> str:
    """The fingerprint of the procedure at `path`; empty where it has none."""
    return str(read_config(path).get("fingerprint", ""))


def folder_here(path: AnyPath) -> Path:
    """The folder of a procedure at `path`, which must be on this machine: there it is locked while it is corrected."""
    folder = as_path(path)
    if isinstance(folder, Address):
        raise OptionError(
            f"{folder}: a procedure is looked at and corrected on this machine. Copy its folder here."
        )
    return folder


def is_procedure(folder: Path | Address) -> bool:
    """Whether the folder was written by stepcut, whatever version it is of."""
    try:
        config = read_json(folder / "config.json")
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and {"format", "stepcut", "method"} <= config.keys()


@contextlib.contextmanager
def damaged(folder: AnyPath) -> Iterator[None]:
    """Turn whatever a damaged file of `folder` causes into one sentence."""
    try:
        yield
    except ExtraNeeded:
        raise
    except ProcedureError as error:
        raise ProcedureError(f"{folder}: {error}") from error
    except Exception as error:
        raise ProcedureError(
            f"{folder}: the procedure is damaged ({type(error).__name__}: {error}). "
            "Learn it again, or restore the folder."
        ) from error
