"""The folder of a procedure (docs/learn.md): immutable revisions, a pointer to one, and events.

Saving writes a revision, then the events, then the pointer, each whole or not at all.
"""

import contextlib
import hashlib
import json
import os
import re
import shlex
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from stepcut import files
from stepcut.errors import ExtraNeeded, OptionError, OutputError, ProcedureError
from stepcut.files import Address, AnyPath, as_path, put
from stepcut.procedure.corrections import EVENTS, MISFITS, Log
from stepcut.procedure.learned import Config, Learned, Saved, read_learned
from stepcut.version import __version__

FORMAT = 3
NAME = re.compile(r"[0-9a-f]{8,64}")
CURRENT, REVISIONS = "CURRENT", "revisions"
OLD_FILES = (
    "steps.json", "timelines.json", "annotations.json", "orders.json", "graph.json", "check.json",
    "model.safetensors", "loss.csv", "README.md", "edits.json", "config.json",
)  # fmt: skip
"""In the order in which they are removed."""
OURS = frozenset((*OLD_FILES, CURRENT, EVENTS, "procedure.json", "severity.json"))
CONVERTED = ".0.3"
ROOM = 1 << 20

Place = Path | Address


def is_procedure(folder: Place) -> bool:
    with contextlib.suppress(OSError):
        if (folder / REVISIONS).is_dir() and any((folder / f).exists() for f in (CURRENT, EVENTS)):
            return True
    return is_old(folder)


def is_old(folder: Place) -> bool:
    if (folder / CURRENT).exists():
        return False
    try:
        config = files.read_json(folder / "config.json")
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and {"format", "stepcut", "method"} <= config.keys()


def check_procedure(folder: Place) -> None:
    if not folder.exists():
        raise ProcedureError(
            f"{folder}: this procedure does not exist. Create it with: "
            f"stepcut learn VIDEOS... -o {shlex.quote(str(folder))}",
            path=folder,
        )
    if not is_procedure(folder):
        raise ProcedureError(
            f"{folder}: this is not a procedure, because it has no config.json or revisions of "
            "stepcut. Give the folder that `stepcut learn -o` wrote.",
            path=folder,
        )


def folder_here(path: AnyPath) -> Path:
    folder = as_path(path)
    if isinstance(folder, Address):
        raise OptionError(
            f"{folder}: viewing and correcting need a local folder. Copy the procedure here first.",
            path=folder,
        )
    return folder


def check_output(output: AnyPath) -> None:
    folder = as_path(output)
    if folder.exists() and not is_procedure(folder):
        raise OutputError(
            f"{folder}: it exists and is not a procedure. Choose another name with -o.", path=folder
        )
    if isinstance(folder, Address):
        return
    place = folder.resolve()
    files.clear_parts(place)
    files.check_place(place if place.exists() else place.parent, folder=True)
    above = next(path for path in (place, *place.parents) if path.exists())
    if shutil.disk_usage(above).free < ROOM:
        raise OutputError(
            f"{folder}: no space left on the disk. Free some, or choose another place with -o.",
            path=folder,
        )


@contextlib.contextmanager
def new_folder(target: Place) -> Iterator[Path]:
    """Yield an empty folder to rename or upload to `target`; it is deleted on exit."""
    if isinstance(target, Address):
        with tempfile.TemporaryDirectory(prefix="stepcut-") as folder:
            yield Path(folder)
        return
    with files.output_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
        fresh.mkdir()
        try:
            yield fresh
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


@contextlib.contextmanager
def damaged(folder: AnyPath) -> Iterator[None]:
    """Turn any error inside into a `ProcedureError` that names the `folder` and the way out."""
    way_out = f" Show what can be restored: stepcut history {shlex.quote(str(folder))}"
    try:
        yield
    except ExtraNeeded:
        raise
    except ProcedureError as error:
        if error.path:
            raise
        hint = "" if "trust" in str(error) else way_out
        raise ProcedureError(f"{folder}: {error}{hint}", path=folder) from error
    except Exception as error:
        raise ProcedureError(
            f"{folder}: the procedure is damaged ({type(error).__name__}: {error}).{way_out}",
            path=folder,
        ) from error


# ---------- revisions


class Opened(NamedTuple):
    name: str
    place: Place
    record: dict[str, Any]
    """config.json, with digests of the other files."""
    learned: Learned
    log: Log


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def seal(config: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in config.items() if key != "digest"}
    return digest(json.dumps(rest, sort_keys=True).encode())


def current(folder: Place) -> str:
    text = files.read_bytes(folder / CURRENT).decode().strip()
    if not NAME.fullmatch(text):
        raise ValueError(f"{CURRENT} does not name a revision")
    return text


def point(folder: Place, name: str) -> None:
    files.write_bytes(folder / CURRENT, f"{name}\n".encode(), follow=False)


def open_at(place: Place, log: Log) -> Opened:
    record = read_sealed(place)
    saved = msgspec.convert(json.loads(read_checked(place, record, "procedure.json")), Saved)
    learned = read_learned(msgspec.convert(record, Config), saved)
    return Opened(place.name, place, record, learned, log)


def read_sealed(place: Place) -> dict[str, Any]:
    config: dict[str, Any] = files.read_json(place / "config.json")
    check_version(place, config)
    if config.get("digest") != seal(config):
        raise ValueError("config.json differs from the saved one")
    msgspec.convert(config["files"], dict[str, str])
    return config


def check_version(place: Place, config: Mapping[str, Any]) -> None:
    wrote = f"{place}: stepcut {config['stepcut']} wrote this procedure"
    if not isinstance(config["format"], int) or config["format"] > FORMAT:
        raise ProcedureError(
            f"{wrote} (format {config['format']}); stepcut {__version__} reads formats up to "
            f"{FORMAT}. Update with: pip install --upgrade stepcut",
            path=place,
        )
    if str(config["stepcut"]).startswith(("0.1.", "0.2.")):
        raise ProcedureError(
            f"{wrote}, and this version cannot read it. Save it with stepcut 0.3, or learn it "
            "again with: stepcut learn",
            path=place,
        )


def read_checked(place: Place, config: Mapping[str, Any], name: str) -> bytes:
    data = files.read_bytes(place / name)
    if config["files"].get(name) not in (None, digest(data)):
        raise ValueError(f"{name} differs from the saved one")
    return data


def is_whole(place: Place) -> bool:
    try:
        config = read_sealed(place)
        for name in config["files"]:
            read_checked(place, config, name)
    except MISFITS:
        return False
    return True


def put_revision(fresh: Path, place: Place, settings: Config) -> None:
    """Seal and rename or upload a revision; an equal one stays, a damaged one is moved aside."""
    about: dict[str, Any] = {"format": FORMAT, "stepcut": __version__}
    about["files"] = {file.name: digest(files.read_bytes(file)) for file in sorted(fresh.iterdir())}
    config = about | json.loads(json.dumps(msgspec.to_builtins(settings)))
    files.write_json(fresh / "config.json", {**config, "digest": seal(config)})
    if is_whole(place):
        return
    if isinstance(place, Address):
        for file in sorted(fresh.iterdir(), key=lambda file: (file.name == "config.json", file)):
            put(file, place / file.name)
        return
    if place.exists():
        set_aside(place)
    os.rename(fresh, place)
    files.sync_folder(place.parent)


def set_aside(path: Path) -> None:
    os.rename(path, place_aside(path))


def place_aside(path: Path) -> Path:
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    return aside
