"""A procedure as a folder `name.proc`: JSON files and one safetensors file, written atomically.

config.json        every setting, seed and version
model.safetensors  the fitted method
steps.json         number, name and colour of each learned step
timelines.json     the segments of each video, in seconds, before corrections
annotations.json   the annotations used for learning: labels, clicks, transcripts, mistakes
check.json         the reference statistics of `check`
loss.csv           the loss and its parts after every training iteration, if the method trains
README.md          a model card
severity.json      which steps are critical, optional or free in order; users may edit it
edits.json         corrections made since learning; they never change the other files
"""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import safetensors.numpy

from stepcut.annotations import Annotations
from stepcut.checking.expectations import Expectations
from stepcut.checking.severity import FILE
from stepcut.colours import colour
from stepcut.errors import OutputError, ProcedureError
from stepcut.features.spec import FeatureSpec, find_files
from stepcut.files.addresses import Address, AnyPath, as_path
from stepcut.files.atomic import read_bytes, read_json, write_bytes, write_json, write_text
from stepcut.methods import METHODS
from stepcut.methods.hierarchy import Hierarchy
from stepcut.methods.inputs import plain_numbers
from stepcut.methods.method import Method, adapt
from stepcut.methods.quality import Quality
from stepcut.plugins import find_saved, is_own, name_of, trusting
from stepcut.procedure.content import Digest
from stepcut.procedure.corrections.log import Corrections, settle
from stepcut.procedure.folder import (
    CARD,
    FORMAT,
    check_output,
    damaged,
    digest,
    locked,
    new_folder,
    put_in_place,
    read_config,
    read_fingerprint,
)
from stepcut.procedure.state import ProcedureState
from stepcut.rate import as_rate
from stepcut.timeline import Segment, Timeline, clip_segments
from stepcut.version import __version__

EDITS, ANNOTATIONS = "edits.json", "annotations.json"
ABOUT = ("format", "stepcut", "model", "card", "mistakes")
"""Keys of config.json that are not settings."""
LABELS = "labels"
"""The method name of a folder that contains labels to view, and no model."""


class SavedSegment(msgspec.Struct):
    """A segment in timelines.json."""

    start: float
    end: float
    step: Annotated[int, msgspec.Meta(ge=0)]
    confidence: float | None


class SavedVideo(msgspec.Struct, omit_defaults=True):
    """A video in timelines.json."""

    path: str | None
    duration: float | None
    samples: Annotated[int, msgspec.Meta(ge=1)]
    segments: list[SavedSegment]
    digest: Digest = Digest()
    known: list[tuple[float, float]] | None = None
    """Labelled intervals, of version 0.2.0."""


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
    absorbed: str = ""
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


def save(record: ProcedureState, path: AnyPath) -> None:
    """Write a `record` to a new folder, then replace the procedure at `path` with it.

    Corrections at `path` are kept, or saving is refused; see `settle`. They are read under a lock,
    so that a correction made in the meantime is not lost.
    """
    target = as_path(path)
    check_keepable(record.method, target)
    with new_folder(target) as fresh:
        write_files(record, fresh)
        with locked(target):
            check_output(target)
            kept = _keep_corrections(record, target, fresh)
            same = target.exists() and read_fingerprint(target) == record.config.get("fingerprint")
            if same and (target / FILE).exists():
                write_bytes(fresh / FILE, read_bytes(target / FILE))
            put_in_place(fresh, target)
    record.corrections = kept


def check_keepable(method: Method, target: AnyPath) -> None:
    """Refuse a `method` that cannot be loaded again from `target`."""
    name = name_of("method", method, METHODS)
    if name not in METHODS and ":" in name and not is_own(name):
        raise OutputError(
            f"{target}: the class of the custom method {type(method).__name__} cannot be imported "
            f"({name}), so the procedure could not be loaded. Move the class to the top level of "
            "a module.",
            path=target,
        )
    try:
        json.dumps(plain_numbers(method.settings()))
    except TypeError as error:
        raise OutputError(
            f"{target}: a setting of method {type(method).__name__} cannot be saved as JSON "
            f"({error}). Use numbers and strings.",
            path=target,
        ) from error


def _keep_corrections(record: ProcedureState, target: Path | Address, fresh: Path) -> Corrections:
    """Merge the corrections of `record` and `target`, write them to `fresh` and return them."""
    kept = record.corrections
    if target.exists():
        try:
            kept = settle(read_corrections(target), kept, record.config.get("absorbed"))
        except OutputError as error:
            raise OutputError(f"{target}: {error}", path=target) from error
    if kept.history:
        write_json(fresh / EDITS, kept.to_json())
    return kept.on_disk()


def write_files(record: ProcedureState, folder: Path) -> None:
    """Write all of a `record` except its corrections into `folder`."""
    model = safetensors.numpy.save(
        {key: np.array(array, order="C") for key, array in record.method.state().items()}
    )
    write_bytes(folder / "model.safetensors", model)
    card = record.card()
    write_text(folder / CARD, card)
    write_outline(record, folder, {"model": digest(model), "card": digest(card.encode())})
    write_json(folder / "check.json", record.learned_expectations.to_json())
    severity = record.learned_expectations.severity.to_json()
    if any(severity.values()):
        write_json(folder / FILE, severity)
    if record.method.curve_ is not None:
        record.method.curve_.save(folder / "loss.csv")


def read(path: AnyPath, method: type[Method] | None = None, trust: bool = False) -> dict[str, Any]:
    """Read the fields of a saved procedure; the arguments are those of `stepcut.load`."""
    folder = as_path(path)
    with locked(folder, shared=True):
        fields = read_timelines(folder)
        saved, config = read_config(folder).get("model"), fields["config"]
        if config["method"] == LABELS:
            raise ProcedureError(
                f"{folder}: this folder contains labels, not a learned procedure. "
                "Learn one with: stepcut learn",
                path=folder,
            )
        with damaged(folder), trusting(trust):
            kind = method or find_saved("method", str(config["method"]), METHODS)
            beside = [folder.absolute().parent] if isinstance(folder, Path) else []
            config["backbone"] = find_files(config["backbone"], [*beside, Path.cwd()])
            FeatureSpec.from_json(config["backbone"])
            model = read_bytes(folder / "model.safetensors")
            if saved not in (None, digest(model)):
                raise ValueError("model.safetensors differs from the saved one")
            arrays = safetensors.numpy.load(model)
            if not all(np.isfinite(array).all() for array in arrays.values()):
                raise ValueError("model.safetensors contains NaN or infinite values")
            learned = adapt(kind.restore(config["settings"], arrays))
            if [len(labels) for labels in learned.labels_] != list(fields["samples"].values()):
                raise ValueError("the model was learned from other videos")
            expectations = Expectations.from_json(read_json(folder / "check.json"))
    return {**fields, "method": learned, "learned_expectations": expectations, "trusted": trust}


def write_outline(
    outline: ProcedureState, folder: Path, more: Mapping[str, Any] | None = None
) -> None:
    """Write settings (and `more`), steps, timelines and annotations into `folder`."""
    number = {name: k for k, name in enumerate(outline.learned_steps)}
    about = {"format": FORMAT, "stepcut": __version__, **(more or {})}
    write_json(folder / "config.json", {**about, **outline.config})
    write_json(
        folder / "steps.json",
        [
            {"step": k, "name": name, "colour": colour(k)}
            for k, name in enumerate(outline.learned_steps)
        ],
    )
    saved = {
        name: SavedVideo(
            outline.videos[name],
            timeline.duration,
            outline.samples[name],
            [SavedSegment(s.start, s.end, number[s.step], s.confidence) for s in timeline],
            outline.digests.get(name, Digest()),
        )
        for name, timeline in outline.learned_timelines.items()
    }
    write_json(folder / "timelines.json", msgspec.to_builtins(saved))
    if outline.learned_annotations != Annotations():
        write_json(folder / ANNOTATIONS, outline.learned_annotations.to_json())


def read_timelines(path: AnyPath) -> dict[str, Any]:
    """Read the fields of the procedure at `path`, except the model."""
    folder = as_path(path)
    config = read_config(folder)
    with damaged(folder):
        checked = msgspec.convert(config, SavedConfig)
        shown = [checked.title, checked.suggestions, checked.quality, checked.hierarchy]
        msgspec.json.encode(shown)  # raises for text that is not Unicode
        if checked.quality:
            Quality.from_json(checked.quality)
        steps = msgspec.convert(
            [step["name"] for step in read_json(folder / "steps.json")], list[str]
        )
        if checked.hierarchy is not None:
            Hierarchy.from_json(checked.hierarchy, steps)
        saved = msgspec.convert(read_json(folder / "timelines.json"), dict[str, SavedVideo])
        if not steps or len(set(steps)) != len(steps) or not saved:
            raise ValueError("steps.json or timelines.json lacks names or videos")
        timelines = {name: _read_timeline(name, one, steps) for name, one in saved.items()}
        annotations = _read_annotations(folder, saved, timelines, config)
        if config["method"] != LABELS:  # versions before 0.4 made segments of some clicks
            timelines = {
                name: replace(one, segments=one.intervals) for name, one in timelines.items()
            }
        fields = {
            "learned_steps": steps,
            "learned_timelines": timelines,
            "samples": {name: one.samples for name, one in saved.items()},
            "videos": {name: one.path for name, one in saved.items()},
            "rate": as_rate(config["rate"], "rate"),
            "config": {key: value for key, value in config.items() if key not in ABOUT},
            "learned_annotations": annotations,
            "digests": {name: one.digest for name, one in saved.items() if one.digest != Digest()},
        }
    return {**fields, "corrections": read_corrections(folder)}


def _read_annotations(
    folder: Path | Address,
    saved: Mapping[str, SavedVideo],
    timelines: Mapping[str, Timeline],
    config: Mapping[str, Any],
) -> Annotations:
    """Read the annotations that the procedure in `folder` was learned from."""
    path = folder / ANNOTATIONS
    if path.exists():
        annotations = Annotations.from_json(read_json(path))
        steps = {step for timeline in timelines.values() for step in timeline.steps}
        if not annotations.videos.keys() <= timelines.keys() or not {*annotations.steps} <= steps:
            raise ValueError("annotations.json does not match the videos and steps")
        return annotations
    # Version 0.2.0 stored labelled intervals in timelines.json and mistakes in config.json.
    marked = msgspec.convert(config.get("mistakes", []), list[str])
    record = {
        name: {
            "end": timeline.end,
            "segments": [
                {"start": s.start, "end": s.end, "step": s.step}
                for s in timeline
                if any(s.start < end and s.end > start for start, end in saved[name].known or ())
            ],
            "annotated": saved[name].known or (),
            "mistake": name in marked,
        }
        for name, timeline in timelines.items()
        if saved[name].known is not None or name in marked
    }
    return Annotations.from_json({"videos": record})


def _read_timeline(name: str, saved: SavedVideo, steps: list[str]) -> Timeline:
    """Make a timeline of one video of timelines.json, and check it."""
    segments = [Segment(s.start, s.end, steps[s.step], s.confidence) for s in saved.segments]
    end = max((s.end for s in segments), default=0.0) if saved.duration is None else saved.duration
    inside = clip_segments(segments, end, f"the timeline of {name}")
    timeline = Timeline(inside, duration=saved.duration, steps=steps, video=name)
    if not math.isfinite(timeline.end) or timeline.overlapping():
        raise ValueError(f"the timeline of {name}")
    return timeline


def read_corrections(folder: Path | Address) -> Corrections:
    """Read the corrections of the procedure in `folder`; empty without a file."""
    path, fingerprint = folder / EDITS, read_fingerprint(folder)
    if not path.exists():
        return Corrections(fingerprint)
    try:
        corrections = Corrections.from_json(read_json(path))
    except ProcedureError as error:
        raise ProcedureError(f"{path}: {error}", path=path) from error
    except Exception as error:
        raise ProcedureError(
            f"{path}: the corrections cannot be read ({error}). "
            "Restore the file, or delete it to discard the corrections.",
            path=path,
        ) from error
    if corrections.of != fingerprint:
        raise ProcedureError(
            f"{path}: these corrections belong to another learned state ({corrections.of}, not "
            f"{fingerprint}), because the procedure was learned again. Restore that procedure, or "
            "move the file away.",
            path=path,
        )
    return corrections
