"""One revision in the folder of a procedure: its files, their digests, and the pointer to it."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from stepcut.errors import ProcedureError
from stepcut.files.addresses import Address, put
from stepcut.files.atomic import read_bytes, read_json, sync_folder, write_bytes, write_json
from stepcut.procedure.content import Digest
from stepcut.procedure.events import Log
from stepcut.procedure.folder import CURRENT, digest
from stepcut.timeline import Segment
from stepcut.version import __version__

FORMAT = 3
"""The format version; versions of stepcut refuse a higher one."""
ABOUT = ("format", "stepcut", "model", "card", "mistakes", "files", "digest")
"""Keys of config.json that are not settings."""
LABELS = "labels"
"""The method name of a folder that contains labels to view, and no model."""
NAME = re.compile(r"[0-9a-f]{8,64}")


class SavedVideo(msgspec.Struct, omit_defaults=True):
    """A video in procedure.json."""

    path: str | None
    duration: float | None
    samples: Annotated[int, msgspec.Meta(ge=1)]
    segments: list[Segment]
    digest: Digest = Digest()


class Saved(msgspec.Struct, omit_defaults=True):
    """The content of procedure.json."""

    steps: list[str]
    videos: dict[str, SavedVideo]
    annotations: dict[str, Any] = {}


class SavedBackbone(msgspec.Struct, frozen=True):
    """The name of the feature settings in config.json; `FeatureSpec` checks the others."""

    name: str


class SavedConfig(msgspec.Struct):
    """The settings in config.json."""

    method: str
    rate: str
    seed: int = 0
    fingerprint: str = ""
    title: str = ""
    false_alarms: float = 0.0
    settings: dict[str, Any] = {}
    backbone: SavedBackbone | None = None
    shape: list[Annotated[int, msgspec.Meta(ge=1, le=1 << 24)]] = []
    source: list[str] | None = None
    skipped: dict[str, str] = {}
    versions: dict[str, str] = {}
    suggestions: dict[str, list[str]] = {}
    quality: dict[str, Any] = {}
    hierarchy: dict[str, Any] | None = None
    files: dict[str, str] = {}


class Opened(NamedTuple):
    """A learned state on disk, and the events in its folder."""

    name: str
    place: Path | Address
    config: dict[str, Any]
    saved: Saved
    log: Log


def current(folder: Path | Address) -> str:
    """Return the name of the current revision."""
    text = read_bytes(folder / CURRENT).decode().strip()
    if not NAME.fullmatch(text):
        raise ValueError(f"{CURRENT} does not name a revision")
    return text


def read_sealed(place: Path | Address) -> dict[str, Any]:
    """Read the config.json of the revision at `place`, and refuse a changed or a newer one."""
    config: dict[str, Any] = read_json(place / "config.json")
    check_version(place, config)
    if config.get("digest") != seal(config):
        raise ValueError("config.json differs from the saved one")
    return config


def check_version(place: Path | Address, config: Mapping[str, Any]) -> None:
    """Refuse settings that another version of stepcut wrote and this one cannot read."""
    if not isinstance(config["format"], int) or config["format"] > FORMAT:
        raise ProcedureError(
            f"{place}: stepcut {config['stepcut']} wrote this procedure (format "
            f"{config['format']}); stepcut {__version__} reads formats up to {FORMAT}. "
            "Update with: pip install --upgrade stepcut",
            path=place,
        )
    if str(config["stepcut"]).startswith("0.1."):
        raise ProcedureError(
            f"{place}: stepcut {config['stepcut']} wrote this procedure, and this version cannot "
            "read it. Learn it again with: stepcut learn",
            path=place,
        )


def seal(config: Mapping[str, Any]) -> str:
    """Return the digest of the settings in config.json."""
    rest = {key: value for key, value in config.items() if key != "digest"}
    return digest(json.dumps(rest, sort_keys=True).encode())


def read_checked(place: Path | Address, config: Mapping[str, Any], name: str) -> bytes:
    """Read a file of the revision at `place`, and refuse a changed one."""
    data = read_bytes(place / name)
    if config["files"].get(name) not in (None, digest(data)):
        raise ValueError(f"{name} differs from the saved one")
    return data


def put_revision(fresh: Path, place: Path | Address, config: Mapping[str, Any]) -> None:
    """Add the settings and digests to the revision in `fresh`, and rename or upload it to `place`.

    An equal revision stays, and a damaged one is moved aside.
    """
    config = {**config, "format": FORMAT, "stepcut": __version__}
    config["files"] = {file.name: digest(read_bytes(file)) for file in sorted(fresh.iterdir())}
    config = json.loads(json.dumps(config))
    write_json(fresh / "config.json", {**config, "digest": seal(config)})
    if is_whole(place):
        return
    if isinstance(place, Address):
        for file in sorted(fresh.iterdir(), key=lambda file: (file.name == "config.json", file)):
            put(file, place / file.name)
        return
    if place.exists():
        set_aside(place)
    os.rename(fresh, place)
    sync_folder(place.parent)


def is_whole(place: Path | Address) -> bool:
    """Whether all files of the revision at `place` are as they were written."""
    try:
        config = read_sealed(place)
        for name in config["files"]:
            read_checked(place, config, name)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ProcedureError):
        return False
    return True


def set_aside(path: Path) -> Path:
    """Rename a damaged file or folder to NAME.damaged-1, -2, ...; return its new place."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    os.rename(path, aside)
    return aside


def point(folder: Path | Address, name: str) -> None:
    """Make `name` the current revision."""
    write_bytes(folder / CURRENT, f"{name}\n".encode(), follow=False)
