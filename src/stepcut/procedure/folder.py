"""The folder of a procedure: what it is, whether it can be written, and what damage means."""

import contextlib
import hashlib
import shlex
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

from stepcut.errors import ExtraNeeded, OptionError, OutputError, ProcedureError
from stepcut.files.addresses import Address, AnyPath, as_path
from stepcut.files.atomic import check_place, clear_parts, output_errors, read_json
from stepcut.procedure.events import EVENTS

CURRENT, REVISIONS = "CURRENT", "revisions"
OURS = frozenset(
    (
        CURRENT, EVENTS, "config.json", "procedure.json", "model.safetensors", "check.json",
        "loss.csv", "README.md", "severity.json",
        # of versions before 0.4
        "steps.json", "timelines.json", "annotations.json", "orders.json", "graph.json",
        "edits.json",
    )
)  # fmt: skip
"""The names of all files that stepcut writes into the folder of a procedure."""
CONVERTED = ".0.3"
"""The suffix of the folder that keeps the original of a converted procedure."""
ROOM = 1 << 20
"""Free bytes required before learning: the size of a small procedure."""


def is_procedure(folder: Path | Address) -> bool:
    """Whether any version of stepcut wrote the folder."""
    return is_store(folder) or is_old(folder)


def is_store(folder: Path | Address) -> bool:
    """Whether the folder has the format of version 0.4 or later."""
    try:
        return (folder / REVISIONS).is_dir() and any(
            (folder / name).exists() for name in (CURRENT, EVENTS)
        )
    except OSError:
        return False


def is_old(folder: Path | Address) -> bool:
    """Whether a version before 0.4 wrote the folder, and no later one has changed it."""
    if (folder / CURRENT).exists():
        return False
    try:
        config = read_json(folder / "config.json")
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and {"format", "stepcut", "method"} <= config.keys()


def check_procedure(folder: Path | Address) -> None:
    """Refuse a folder that is not a procedure."""
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
    """Return the folder at `path`; refuse an address, where corrections cannot be locked."""
    folder = as_path(path)
    if isinstance(folder, Address):
        raise OptionError(
            f"{folder}: viewing and correcting need a local folder. Copy the procedure here first.",
            path=folder,
        )
    return folder


def check_output(output: AnyPath) -> None:
    """Refuse, before any work, an `output` that cannot be written."""
    folder = as_path(output)
    if folder.exists() and not is_procedure(folder):
        raise OutputError(
            f"{folder}: it exists and is not a procedure. Choose another name with -o.", path=folder
        )
    if isinstance(folder, Address):
        return
    place = folder.resolve()
    clear_parts(place)
    check_place(place if place.exists() else place.parent, folder=True)
    above = next(path for path in (place, *place.parents) if path.exists())
    if shutil.disk_usage(above).free < ROOM:
        raise OutputError(
            f"{folder}: no space left on the disk. Free some, or choose another place with -o.",
            path=folder,
        )


@contextlib.contextmanager
def new_folder(target: Path | Address) -> Iterator[Path]:
    """Yield an empty folder to rename or upload to `target`; it is deleted on exit."""
    if isinstance(target, Address):
        with tempfile.TemporaryDirectory(prefix="stepcut-") as folder:
            yield Path(folder)
        return
    with output_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
        fresh.mkdir()
        try:
            yield fresh
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def digest(data: bytes) -> str:
    """Return a short hash of the content of a file."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@contextlib.contextmanager
def damaged(folder: AnyPath) -> Iterator[None]:
    """Turn any error inside into a `ProcedureError` that names the `folder` and the way out."""
    try:
        yield
    except ExtraNeeded:
        raise
    except ProcedureError as error:
        if error.path:
            raise
        hint = "" if "trust" in str(error) else way_out(folder)
        raise ProcedureError(f"{folder}: {error}{hint}", path=folder) from error
    except Exception as error:
        raise ProcedureError(
            f"{folder}: the procedure is damaged ({type(error).__name__}: {error}).{way_out(folder)}",
            path=folder,
        ) from error


def way_out(folder: AnyPath) -> str:
    """Return the sentence that names the command for a damaged procedure."""
    return f" Show what can be restored: stepcut history {shlex.quote(str(folder))}"
