"""A procedure as a folder `name.proc`: readable JSON beside one safetensors file; no pickle, whole or not at all.

config.json        every setting, seed and version
model.safetensors  what the method learned
steps.json         number, name and colour of each learned step
timelines.json     which learned step is done when in each video, in seconds
annotations.json   what people had said when it was learned: labels, clicks, transcripts, mistakes
orders.json        the ranked orders (for reading; made anew on loading, as is graph.json)
graph.json         what must precede what
check.json         what a normal video looks like
loss.csv           the loss and its parts after every training iteration, where the method trains
README.md          a model card
severity.json      which steps are critical, optional or free in order; a user may write it, too
edits.json         what a person corrected since, beside what was learned and never over it
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

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
from stepcut.methods.inputs import plain_numbers
from stepcut.methods.method import Method
from stepcut.order import Orders, ProcedureGraph
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
from stepcut.rate import as_rate
from stepcut.timeline import Segment, Timeline
from stepcut.version import __version__

EDITS, ANNOTATIONS = "edits.json", "annotations.json"
ABOUT = ("format", "stepcut", "model", "card", "mistakes")
"""What config.json says beside the settings."""
LABELS = "labels"
"""The method of a folder that holds labels to look at, and no model."""


class Outline(Protocol):
    """What is kept of a procedure without its model."""

    learned_steps: list[str]
    learned_timelines: dict[str, Timeline]
    samples: dict[str, int]
    videos: dict[str, str | None]
    config: dict[str, Any]
    learned_annotations: Annotations
    digests: dict[str, Digest]


class Record(Outline, Protocol):
    """What is kept of a procedure."""

    corrections: Corrections
    method: Method
    learned_expectations: Expectations

    @property
    def orders(self) -> Orders: ...
    @property
    def graph(self) -> ProcedureGraph: ...
    def card(self) -> str: ...


def save(record: Record, path: AnyPath) -> None:
    """Write the folder of a `record` beside `path`, then give it that name; a procedure that stood there makes way.

    Corrections that lie there are kept, or saving is refused: see `settle`. They are looked at in the moment of
    writing, under a lock, so that none that is made meanwhile is lost.
    """
    target = as_path(path)
    check_keepable(record.method, target)
    with new_folder(target) as fresh:
        write_files(record, fresh)
        with locked(target):
            check_output(target)
            kept = _keep_corrections(record, target, fresh)
            if (target / FILE).exists() and read_fingerprint(target) == record.config.get(
                "fingerprint"
            ):
                write_bytes(
                    fresh / FILE, read_bytes(target / FILE)
                )  # what somebody says of these steps stands
            put_in_place(fresh, target)
    record.corrections = kept


def check_keepable(method: Method, target: AnyPath) -> None:
    """Refuse to keep at `target` a `method` whose class cannot be imported, since it could not be loaded again."""
    name = name_of("method", method, METHODS)
    if name not in METHODS and ":" in name and not is_own(name):
        raise OutputError(
            f"{target}: method {type(method).__name__} is an object of your own whose class cannot be imported "
            f"({name}), so it could not be loaded again. Put the class at the top of a module."
        )
    try:
        json.dumps(plain_numbers(method.settings()))
    except TypeError as error:
        raise OutputError(
            f"{target}: a setting of method {type(method).__name__} cannot be written down and loaded again "
            f"({error}). Give it as numbers and words."
        ) from error


def _keep_corrections(record: Record, target: Path | Address, fresh: Path) -> Corrections:
    """Write into the folder `fresh` the corrections that are kept when a `record` is saved to `target`; gives them."""
    kept = record.corrections
    if target.exists():
        try:
            kept = settle(read_corrections(target), kept, record.config.get("absorbed"))
        except OutputError as error:
            raise OutputError(f"{target}: {error}") from error
    if kept.history:
        write_json(fresh / EDITS, kept.to_json())
    return kept.on_disk()


def write_files(record: Record, folder: Path) -> None:
    """Write all of a `record` but its corrections into `folder`."""
    model = safetensors.numpy.save(
        {key: np.array(array, order="C") for key, array in record.method.state().items()}
    )
    write_bytes(folder / "model.safetensors", model)
    card = record.card()
    write_text(folder / CARD, card)
    write_outline(record, folder, {"model": digest(model), "card": digest(card.encode())})
    write_json(folder / "orders.json", record.orders.to_json())
    write_json(folder / "graph.json", record.graph.to_json())
    write_json(folder / "check.json", record.learned_expectations.to_json())
    wishes = record.learned_expectations.severity.to_json()
    if any(wishes.values()):
        write_json(folder / FILE, wishes)
    if record.method.curve_ is not None:
        record.method.curve_.save(folder / "loss.csv")


def read(path: AnyPath, method: type[Method] | None = None, trust: bool = False) -> dict[str, Any]:
    """The fields of a procedure that `save` wrote; `path`, `method` and `trust` are those of `stepcut.load`."""
    folder = as_path(path)
    with locked(folder, shared=True):
        fields = read_timelines(folder)
        saved, config = read_config(folder).get("model"), fields["config"]
        if config["method"] == LABELS:
            raise ProcedureError(
                f"{folder}: these are labels to look at; nothing was learned from them. See: stepcut learn"
            )
        with damaged(folder), trusting(trust):
            kind = method or find_saved("method", str(config["method"]), METHODS)
            beside = [folder.absolute().parent] if isinstance(folder, Path) else []
            config["backbone"] = find_files(config["backbone"], [*beside, Path.cwd()])
            FeatureSpec.from_json(config["backbone"])
            model = read_bytes(folder / "model.safetensors")
            if saved not in (None, digest(model)):
                raise ValueError("model.safetensors is not the one that was saved")
            arrays = safetensors.numpy.load(model)
            if not all(np.isfinite(array).all() for array in arrays.values()):
                raise ValueError("model.safetensors holds values that are no numbers")
            learned = kind.restore(config["settings"], arrays)
            if [len(cut) for cut in learned.labels_] != list(fields["samples"].values()):
                raise ValueError("the model was learned from other videos")
            expectations = Expectations.from_json(read_json(folder / "check.json"))
    return {**fields, "method": learned, "learned_expectations": expectations, "trusted": trust}


def write_outline(outline: Outline, folder: Path, more: Mapping[str, Any] | None = None) -> None:
    """Write the `outline` into `folder`: settings (and what `more` says), steps, timelines and annotations."""
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
    write_json(
        folder / "timelines.json",
        {
            name: {
                "path": outline.videos[name],
                "duration": timeline.duration,
                "samples": outline.samples[name],
                "digest": outline.digests.get(name, Digest())._asdict(),
                "segments": [
                    {
                        "start": s.start,
                        "end": s.end,
                        "step": number[s.step],
                        "confidence": s.confidence,
                    }
                    for s in timeline
                ],
            }
            for name, timeline in outline.learned_timelines.items()
        },
    )
    if outline.learned_annotations != Annotations():
        write_json(folder / ANNOTATIONS, outline.learned_annotations.to_json())


def read_timelines(path: AnyPath) -> dict[str, Any]:
    """The fields of the procedure at `path`, a folder or an address, but for the model."""
    folder = as_path(path)
    config = read_config(folder)
    with damaged(folder):
        steps = [str(step["name"]) for step in read_json(folder / "steps.json")]
        saved: Mapping[str, Any] = read_json(folder / "timelines.json")
        samples = {name: int(entry["samples"]) for name, entry in saved.items()}
        if not steps or len(set(steps)) != len(steps) or not saved or min(samples.values()) < 1:
            raise ValueError("steps.json or timelines.json lacks names or videos")
        timelines = {name: _read_timeline(name, entry, steps) for name, entry in saved.items()}
        digests = {
            name: Digest(**{key: None if of is None else str(of) for key, of in kept.items()})
            for name, entry in saved.items()
            if (kept := entry.get("digest"))
        }
        fields = {
            "learned_steps": steps,
            "learned_timelines": timelines,
            "samples": samples,
            "videos": {
                name: None if entry["path"] is None else str(entry["path"])
                for name, entry in saved.items()
            },
            "rate": as_rate(config["rate"], "rate"),
            "config": {key: value for key, value in config.items() if key not in ABOUT},
            "learned_annotations": _read_annotations(folder, saved, timelines, config),
            "digests": digests,
        }
    return {**fields, "corrections": read_corrections(folder)}


def _read_annotations(
    folder: Path | Address,
    saved: Mapping[str, Any],
    timelines: Mapping[str, Timeline],
    config: Mapping[str, Any],
) -> Annotations:
    """What people had said when the procedure in `folder` was learned."""
    path = folder / ANNOTATIONS
    if path.exists():
        found = Annotations.from_json(read_json(path))
        steps = {step for timeline in timelines.values() for step in timeline.steps}
        if not found.videos.keys() <= timelines.keys() or not {*found.steps} <= steps:
            raise ValueError("annotations.json is of other videos or steps")
        return found
    # Version 0.2.0 kept the stretches that are labelled beside the timelines, and the mistakes in config.json.
    marked = config.get("mistakes", [])
    if not isinstance(marked, list) or not all(isinstance(name, str) for name in marked):
        raise ValueError(f"mistakes {marked!r}")
    record = {
        name: {
            "end": timeline.end,
            "segments": [
                {"start": one.start, "end": one.end, "step": one.step}
                for one in timeline
                if any(one.start < end and one.end > start for start, end in saved[name]["known"])
            ]
            if "known" in saved[name]
            else [],
            "annotated": saved[name].get("known", []),
            "mistake": name in marked,
        }
        for name, timeline in timelines.items()
        if "known" in saved[name] or name in marked
    }
    return Annotations.from_json({"videos": record})


def _read_timeline(name: str, entry: Mapping[str, Any], steps: list[str]) -> Timeline:
    """One timeline of timelines.json, checked: a damaged file is found here."""
    segments = []
    for one in entry["segments"]:
        if not isinstance(one["step"], int) or one["step"] < 0:
            raise ValueError(f"step {one['step']!r}")
        sure = None if one["confidence"] is None else float(one["confidence"])
        segments.append(Segment(float(one["start"]), float(one["end"]), steps[one["step"]], sure))
    duration = None if entry["duration"] is None else float(entry["duration"])
    timeline = Timeline(segments, duration=duration, steps=steps, video=name)
    inside = all(0 <= s.start <= s.end <= timeline.end + 1e-6 for s in timeline)
    if not (inside and math.isfinite(timeline.end)) or timeline.overlapping():
        raise ValueError(f"the timeline of {name}")
    return timeline


def read_corrections(folder: Path | Address) -> Corrections:
    """What a person corrected in the procedure of `folder`; none where there is no file."""
    path, fingerprint = folder / EDITS, read_fingerprint(folder)
    if not path.exists():
        return Corrections(fingerprint)
    try:
        corrections = Corrections.from_json(read_json(path))
    except ProcedureError as error:
        raise ProcedureError(f"{path}: {error}") from error
    except Exception as error:
        raise ProcedureError(
            f"{path}: the corrections cannot be read ({error}). Restore the file, or move it away to start anew."
        ) from error
    if corrections.of != fingerprint:
        raise ProcedureError(
            f"{path}: these corrections were made on another learned state ({corrections.of}; this is {fingerprint}): "
            "the procedure was learned again since. Move the file away, or restore the procedure that it belongs to."
        )
    return corrections
