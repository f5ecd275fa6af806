"""The part of a procedure's folder that needs no model: settings, steps, timelines, labels and corrections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from stepcut.colours import colour
from stepcut.errors import ExtraNeeded, ProcedureError, StepcutError
from stepcut.files.addresses import Address, AnyPath
from stepcut.files.atomic import read_json, write_json
from stepcut.methods.contract import Labels
from stepcut.procedure.corrections.log import Corrections
from stepcut.procedure.folder import FORMAT, read_config
from stepcut.procedure.record import Outline
from stepcut.timeline import Segment, Timeline
from stepcut.version import __version__

EDITS = "edits.json"


def write_outline(outline: Outline, folder: Path, more: Mapping[str, Any] | None = None) -> None:
    """Write the `outline` into `folder`: settings (and what `more` says), steps and timelines."""
    number = {name: k for k, name in enumerate(outline.learned_steps)}
    about = {"format": FORMAT, "stepcut": __version__, **(more or {})}
    write_json(folder / "config.json", {**about, **outline.config})
    write_json(
        folder / "steps.json",
        [{"step": k, "name": name, "colour": colour(k)} for k, name in enumerate(outline.learned_steps)],
    )
    write_json(
        folder / "timelines.json",
        {
            name: {
                "path": outline.videos[name],
                "duration": timeline.duration,
                "samples": outline.samples[name],
                "segments": [
                    {"start": s.start, "end": s.end, "step": number[s.step], "confidence": s.confidence}
                    for s in timeline
                ],
            }
            for name, timeline in outline.learned_timelines.items()
        },
    )


def read_outline(folder: Path) -> Outline:
    """Read all of a folder but the model."""
    config = read_config(folder)
    with damaged(folder):
        steps = [str(step["name"]) for step in read_json(folder / "steps.json")]
        saved: Mapping[str, Any] = read_json(folder / "timelines.json")
        samples = {name: int(entry["samples"]) for name, entry in saved.items()}
        if not steps or len(set(steps)) != len(steps) or not saved or min(samples.values()) < 1:
            raise ValueError("steps.json or timelines.json lacks names or videos")
        if (rate := Fraction(config["rate"])) <= 0:
            raise ValueError(f"rate {rate}")
        outline = Outline(
            learned_steps=steps,
            learned_timelines={name: _read_timeline(name, entry, steps) for name, entry in saved.items()},
            samples=samples,
            videos={name: None if entry["path"] is None else str(entry["path"]) for name, entry in saved.items()},
            rate=rate,
            config={key: value for key, value in config.items() if key not in ("format", "stepcut", "model")},
            given=_read_given(folder / "labels.json", samples, len(steps)),
        )
    outline.corrections = read_corrections(folder, config.get("fingerprint", ""))
    return outline


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
    if timeline.overlapping() or not all(0 <= s.start <= s.end <= timeline.end + 1e-6 for s in timeline):
        raise ValueError(f"the timeline of {name}")
    return timeline


def _read_given(path: Path, samples: Mapping[str, int], count: int) -> dict[str, Labels]:
    """The labels that a procedure was taught; none where it was not."""
    found = {}
    for name, pairs in (read_json(path) if path.exists() else {}).items():
        counts, steps = zip(*pairs, strict=True)
        if sum(counts) != samples[name] or not all(-2 <= step < count for step in steps):
            raise ValueError(f"labels.json does not fit {name}")
        found[name] = np.repeat(np.array(steps, dtype=np.int64), counts)
    return found


def read_corrections(folder: Path | Address, fingerprint: str) -> Corrections:
    """What a person corrected in `folder`, of the state with this `fingerprint`; none where there is no file."""
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
    """Turn whatever a damaged file of `folder` causes into one sentence."""
    try:
        yield
    except ExtraNeeded:
        raise
    except ProcedureError as error:
        raise ProcedureError(f"{folder}: {error}") from error
    except (*_BROKEN, StepcutError) as error:
        raise ProcedureError(
            f"{folder}: the procedure is damaged ({type(error).__name__}: {error}). "
            "Learn it again, or restore the folder."
        ) from error
