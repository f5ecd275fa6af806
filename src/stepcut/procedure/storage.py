"""A procedure as a folder `name.proc`: readable JSON beside one safetensors file; no pickle, whole or not at all.

config.json        every setting, seed and version
model.safetensors  what the method learned
steps.json         number, name and colour of each learned step
timelines.json     which learned step is done when in each video, in seconds
orders.json        the ranked orders (for reading; made anew on loading, as is graph.json)
graph.json         what must precede what
check.json         what a normal video looks like
loss.csv           the loss and its parts after every training iteration, where the method trains
README.md          a model card
labels.json        what a person said of some videos before it was learned: rows and step, -1 background, -2 open
edits.json         what a person corrected since, beside what was learned and never over it
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stepcut.checking.severity import FILE, parse_severity
from stepcut.colours import colour
from stepcut.errors import OptionError, OutputError, ProcedureError, StepcutError
from stepcut.features.spec import FeatureSpec
from stepcut.files.addresses import Address, AnyPath, as_path, files_below, put, remove
from stepcut.files.atomic import output_errors, read_json, write_bytes, write_json, write_text
from stepcut.methods import METHODS
from stepcut.plugins import find, is_own, name_of, trusting
from stepcut.procedure.card import model_card
from stepcut.procedure.corrections.log import Corrections, settle
from stepcut.procedure.folder import FORMAT, check_output, locked, put_in_place, read_config
from stepcut.procedure.record import Record
from stepcut.procedure.values import digest, read_arrays, read_given, read_timeline, runs_of
from stepcut.timeline import Timeline
from stepcut.version import __version__

if TYPE_CHECKING:
    from stepcut.checking.calibrate import Expectations
    from stepcut.methods.contract import Method

EDITS = "edits.json"


def save(record: Record, path: AnyPath) -> None:
    """Write the folder beside its place, then give it its name; a procedure that stood there makes way.

    Corrections that lie there are kept, or saving is refused: see `settle`. They are looked at in the moment of
    writing, under a lock, so that none that is made meanwhile is lost.
    """
    target = as_path(path)
    check_keepable(record.method, target)
    check_output(target)
    if isinstance(target, Address):
        _save_at(record, target)
        return
    with output_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.parent / f".{target.name}.{uuid.uuid4().hex}.part"
        fresh.mkdir()
        try:
            write_files(record, fresh)
            with locked(target):
                check_output(target)
                kept = _settled(record, target)
                if kept.history:
                    write_json(fresh / EDITS, kept.to_json())
                put_in_place(fresh, target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    record.corrections = kept.on_disk()


def check_keepable(method: Method, target: AnyPath) -> None:
    """A method whose class cannot be imported again cannot be loaded again."""
    name = name_of("method", method, METHODS)
    if name not in METHODS and ":" in name and not is_own(name):
        raise OutputError(
            f"{target}: method {type(method).__name__} is an object of your own whose class cannot be imported "
            f"({name}), so it could not be loaded again. Put the class at the top of a module."
        )


def _settled(record: Record, target: Path | Address) -> Corrections:
    if not target.exists():
        return record.corrections
    there = read_corrections(target, read_config(target).get("fingerprint", ""))
    try:
        return settle(there, record.corrections, record.config.get("absorbed"))
    except OutputError as error:
        raise OutputError(f"{target}: {error}") from error


def _save_at(record: Record, target: Address) -> None:
    """Put the files at an address, config.json last: a folder without it is no procedure, so none is ever half one."""
    with tempfile.TemporaryDirectory(prefix="stepcut-") as folder:
        write_files(record, Path(folder))
        kept = _settled(record, target)
        if kept.history:
            write_json(Path(folder, EDITS), kept.to_json())
        (target / "config.json").unlink(missing_ok=True)
        remove(target)
        for file in sorted(Path(folder).iterdir(), key=lambda file: (file.name == "config.json", file.name)):
            put(file, target / file.name)
    record.corrections = kept.on_disk()


def write_files(record: Record, folder: Path) -> None:
    """All files of the folder but the corrections."""
    from safetensors.numpy import save as to_bytes

    number = {name: k for k, name in enumerate(record.learned_steps)}
    model = to_bytes({key: np.array(array, order="C") for key, array in record.method.state().items()})
    write_bytes(folder / "model.safetensors", model)
    about = {"format": FORMAT, "stepcut": __version__, "model": digest(model)}
    write_json(folder / "config.json", {**about, **record.config})
    write_json(
        folder / "steps.json",
        [{"step": k, "name": name, "colour": colour(k)} for k, name in enumerate(record.learned_steps)],
    )
    write_json(
        folder / "timelines.json",
        {
            name: {
                "path": record.videos[name],
                "duration": timeline.duration,
                "samples": record.samples[name],
                "segments": [
                    {"start": s.start, "end": s.end, "step": number[s.step], "confidence": s.confidence}
                    for s in timeline
                ],
            }
            for name, timeline in record.learned_timelines.items()
        },
    )
    write_json(folder / "orders.json", record.orders.to_json())
    write_json(folder / "graph.json", record.graph.to_json())
    write_json(folder / "check.json", record.expectations.to_json())
    wishes = record.expectations.severity.to_json(record.learned_steps)
    if any(wishes.values()):
        write_json(folder / "severity.json", wishes)
    if record.given:
        write_json(folder / "labels.json", {name: runs_of(rows) for name, rows in record.given.items()})
    if record.method.curve_ is not None:
        record.method.curve_.save(folder / "loss.csv")
    write_text(folder / "README.md", model_card(record))


@dataclass(frozen=True)
class Outline:
    """A procedure without its model: quick to read, and enough to look at it and to correct it."""

    config: dict[str, Any]
    steps: list[str]
    timelines: dict[str, Timeline]
    samples: dict[str, int]
    videos: dict[str, str | None]
    corrections: Corrections
    given: dict[str, NDArray[np.int64]]
    """The labels that it was taught, by video."""


def read_outline(folder: Path) -> Outline:
    """Read all of a folder but the model."""
    config = read_config(folder)
    with damaged(folder):
        steps = [str(step["name"]) for step in read_json(folder / "steps.json")]
        saved: Mapping[str, Any] = read_json(folder / "timelines.json")
        timelines = {name: read_timeline(name, entry, steps) for name, entry in saved.items()}
        samples = {name: int(entry["samples"]) for name, entry in saved.items()}
        videos = {name: None if entry["path"] is None else str(entry["path"]) for name, entry in saved.items()}
        if not steps or len(set(steps)) != len(steps) or not timelines or min(samples.values()) < 1:
            raise ValueError("steps.json or timelines.json lacks names or videos")
        if Fraction(config["rate"]) <= 0:
            raise ValueError(f"rate {config['rate']}")
        given = read_given(folder / "labels.json", samples, len(steps))
    corrections = read_corrections(folder, config.get("fingerprint", ""))
    return Outline(config, steps, timelines, samples, videos, corrections, given)


def read(path: AnyPath, method: type[Method] | None = None, trust: bool = False) -> Record:
    """Read a procedure that `save` wrote; see `stepcut.load`."""
    where = as_path(path)
    if isinstance(where, Path):
        with locked(where, shared=True):
            return _read(where, method, trust)
    read_config(where)
    with tempfile.TemporaryDirectory(prefix="stepcut-") as folder:
        for file in files_below(where):
            write_bytes(Path(folder, file.name), file.read_bytes())
        return _read(Path(folder), method, trust)


def _read(folder: Path, method: type[Method] | None, trust: bool) -> Record:

    outline = read_outline(folder)
    config = outline.config
    kind = method or method_class(config["method"], folder, trust)
    with damaged(folder), trusting(trust):
        FeatureSpec.from_json(config["backbone"])
        model = (folder / "model.safetensors").read_bytes()
        if config.get("model", digest(model)) != digest(model):
            raise ValueError("model.safetensors is not the one that was saved")
        return Record(
            learned_steps=outline.steps,
            learned_timelines=outline.timelines,
            samples=outline.samples,
            videos=outline.videos,
            rate=Fraction(config["rate"]),
            method=kind.restore(config["settings"], read_arrays(model)),
            expectations=_expectations(folder, outline.steps),
            config={key: value for key, value in config.items() if key not in ("format", "stepcut", "model")},
            corrections=outline.corrections,
            given=outline.given,
            trusted=trust,
        )


def _expectations(folder: Path, steps: Sequence[str]) -> Expectations:
    """What a normal video looks like, with what a user says of the steps in severity.json."""
    from stepcut.checking.calibrate import Expectations

    expected = Expectations.from_json(read_json(folder / "check.json"))
    if not (folder / FILE).exists():
        return expected
    return replace(expected, severity=parse_severity(read_json(folder / FILE), steps))


def method_class(name: object, folder: Path | Address, trust: bool) -> type[Method]:
    """The class of a saved method. A procedure is data: code that it names runs only by the user's word."""
    if isinstance(name, str) and name in METHODS:
        return METHODS[name]
    if not trust:
        raise ProcedureError(
            f"{folder}: its method is {name}, code that is not stepcut's. If you trust it, load it with trust=True "
            "(--trust), or hand the class over: load(path, method=TheClass)."
        )
    try:
        return find("method", str(name), METHODS)
    except OptionError as error:
        raise ProcedureError(f"{folder}: {error}") from error


def read_corrections(folder: Path | Address, fingerprint: str) -> Corrections:
    """What a person corrected; none where there is no file."""
    path = folder / EDITS
    if not path.exists():
        return Corrections(fingerprint)
    try:
        corrections = Corrections.from_json(read_json(path))
    except ProcedureError as error:
        raise ProcedureError(f"{path}: {error}") from error
    except _BROKEN as error:
        raise ProcedureError(
            f"{path}: the corrections cannot be read ({error}). Restore the file, or move it away to start anew."
        ) from error
    if corrections.of != fingerprint:
        raise ProcedureError(
            f"{path}: these corrections were made on another learned state ({corrections.of}; this is {fingerprint}): "
            "the procedure was learned again since. Move the file away, or restore the procedure that it belongs to."
        )
    return corrections


_BROKEN = (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, AssertionError)


@contextmanager
def damaged(folder: AnyPath) -> Iterator[None]:
    """Turn whatever a damaged file causes into one sentence."""
    try:
        yield
    except ProcedureError as error:
        raise ProcedureError(f"{folder}: {error}") from error
    except (*_BROKEN, StepcutError) as error:
        raise ProcedureError(
            f"{folder}: the procedure is damaged ({type(error).__name__}: {error}). "
            "Learn it again, or restore the folder."
        ) from error
