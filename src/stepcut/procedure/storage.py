"""A procedure as a folder `name.proc`: readable JSON beside one safetensors file; no pickle, whole or not at all.

config.json        every setting, seed and version
model.safetensors  what the method learned
steps.json         number, name and colour of each step
timelines.json     which step is done when in each video, in seconds
orders.json        the ranked orders (for reading; made anew on loading, as is graph.json)
graph.json         what must precede what
check.json         what a normal video looks like
loss.csv           the loss and its parts after every training step, where the method trains
README.md          a model card
edits.json         what a person corrected in the viewer, beside what was learned
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

from stepcut.colours import colour
from stepcut.errors import OutputError, ProcedureError
from stepcut.files.addresses import Address, AnyPath, as_path, files_below, put, remove
from stepcut.files.atomic import output_errors, read_json, write_bytes, write_json, write_text
from stepcut.procedure.procedure import Procedure
from stepcut.timeline import Segment, Timeline
from stepcut.version import __version__

FORMAT = 1
"""Raised when an older stepcut could not read what a newer one writes."""


def save(procedure: Procedure, path: AnyPath) -> None:
    """Write the folder beside its place, then give it its name; a procedure that stood there makes way."""
    target = as_path(path)
    if procedure.config["method"] is None:
        kind = type(procedure.method).__name__
        raise OutputError(f"{target}: method {kind} is an object of your own, which stepcut could not load again.")
    if target.exists() and not is_procedure(target):
        raise OutputError(
            f"{target}: it exists and is not a procedure, so it is left alone. Choose another name with -o."
        )
    if isinstance(target, Address):
        _save_at(procedure, target)
        return
    with output_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part"))
        try:
            write_files(procedure, fresh)
            fresh.chmod(0o755)
            if target.exists():
                old = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}.", suffix=".old"))
                os.replace(target, old / target.name)
                os.replace(fresh, target)
                shutil.rmtree(old)
            else:
                os.replace(fresh, target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)


def _save_at(procedure: Procedure, target: Address) -> None:
    """Put the files at an address, config.json last: a folder without it is no procedure, so none is ever half one."""
    with tempfile.TemporaryDirectory(prefix="stepcut-") as folder:
        write_files(procedure, Path(folder))
        (target / "config.json").unlink(missing_ok=True)
        remove(target)
        for file in sorted(Path(folder).iterdir(), key=lambda file: (file.name == "config.json", file.name)):
            put(file, target / file.name)


def write_files(procedure: Procedure, folder: Path) -> None:
    """All files of the folder."""
    from safetensors.numpy import save_file

    number = {name: k for k, name in enumerate(procedure.steps)}
    write_json(folder / "config.json", {"format": FORMAT, "stepcut": __version__, **procedure.config})
    save_file({key: array.copy() for key, array in procedure.method.state().items()}, folder / "model.safetensors")
    write_json(
        folder / "steps.json",
        [{"step": k, "name": name, "colour": colour(k)} for k, name in enumerate(procedure.steps)],
    )
    write_json(
        folder / "timelines.json",
        {
            name: {
                "path": procedure.videos[name],
                "duration": timeline.duration,
                "samples": procedure.samples[name],
                "segments": [
                    {"start": s.start, "end": s.end, "step": number[s.step], "confidence": s.confidence}
                    for s in timeline
                ],
            }
            for name, timeline in procedure.timelines.items()
        },
    )
    write_json(folder / "orders.json", procedure.orders.to_json())
    write_json(folder / "graph.json", procedure.graph.to_json())
    write_json(folder / "check.json", procedure.expectations.to_json())
    if procedure.method.curve_ is not None:
        procedure.method.curve_.save(folder / "loss.csv")
    write_text(folder / "README.md", model_card(procedure))


def load(path: AnyPath) -> Procedure:
    """Read a procedure that `save` wrote."""
    where = as_path(path)
    if isinstance(where, Path):
        return _load(where)
    read_config(where)
    with tempfile.TemporaryDirectory(prefix="stepcut-") as folder:
        for file in files_below(where):
            write_bytes(Path(folder, file.name), file.read_bytes())
        return _load(Path(folder))


def _load(folder: Path) -> Procedure:
    from stepcut.checking.calibrate import Expectations
    from stepcut.methods import METHODS

    config = read_config(folder)
    try:
        method = METHODS[config["method"]].restore(config["settings"], _read_arrays(folder / "model.safetensors"))
        steps = [step["name"] for step in read_json(folder / "steps.json")]
        saved = read_json(folder / "timelines.json")
        expectations = Expectations.from_json(read_json(folder / "check.json"))
        timelines = {name: _timeline(name, entry, steps) for name, entry in saved.items()}
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise ProcedureError(
            f"{folder}: the procedure is damaged ({error}). Learn it again, or restore the folder."
        ) from error
    procedure = Procedure(
        steps=steps,
        timelines=timelines,
        samples={name: entry["samples"] for name, entry in saved.items()},
        videos={name: entry["path"] for name, entry in saved.items()},
        rate=Fraction(config["rate"]),
        method=method,
        expectations=expectations,
        config={key: value for key, value in config.items() if key not in ("format", "stepcut")},
    )
    if (folder / "edits.json").exists():  # the names that a person gave to the steps in the viewer
        from stepcut.procedure.corrections.edits import edited_names

        procedure.rename(edited_names(folder))
    return procedure


def read_config(path: AnyPath) -> dict[str, Any]:
    """The config.json of a procedure, or an error that says why it cannot be one."""
    folder = as_path(path)
    if not folder.exists():
        raise ProcedureError(f"{folder}: there is no such procedure. Make one with stepcut learn VIDEOS... -o {folder}")
    if not is_procedure(folder):
        raise ProcedureError(f"{folder}: this is not a procedure: it has no config.json written by stepcut learn.")
    config: dict[str, Any] = read_json(folder / "config.json")
    if config["format"] > FORMAT:
        raise ProcedureError(
            f"{folder}: it was made by stepcut {config['stepcut']} (format {config['format']}); this is {__version__}, "
            f"which reads up to format {FORMAT}. Update with: pip install --upgrade stepcut"
        )
    return config


def is_procedure(folder: Path | Address) -> bool:
    """Whether the folder was written by `save`, whatever version it is of."""
    try:
        config = read_json(folder / "config.json")
    except (OSError, ValueError):
        return False
    return isinstance(config, dict) and {"format", "stepcut", "method"} <= config.keys()


def _timeline(name: str, entry: dict[str, Any], steps: list[str]) -> Timeline:
    segments = [Segment(s["start"], s["end"], steps[s["step"]], s["confidence"]) for s in entry["segments"]]
    return Timeline(segments, duration=entry["duration"], steps=steps, video=name)


def _read_arrays(path: Path) -> dict[str, Any]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        arrays: dict[str, Any] = load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path.name}: {error}") from error
    return arrays


def model_card(procedure: Procedure) -> str:
    """README.md: what this is, in the form of a model card."""
    config = procedure.config
    steps = "\n".join(f"- {k}: {name}" for k, name in enumerate(procedure.steps))
    settings = json.dumps(config["settings"], indent=1)
    videos = "\n".join(f"- {name} ({timeline.end:.0f} s)" for name, timeline in procedure.timelines.items())
    return f"""# A procedure learned by stepcut {__version__}

{len(procedure.steps)} steps, learned from {len(procedure.timelines)} videos without labels.

## Steps
{steps}

## Use
```
stepcut check THIS_FOLDER new.mp4
stepcut segment THIS_FOLDER new.mp4 -o new.vtt
stepcut view THIS_FOLDER
```

## Learned from
{videos}

## How
Method `{config["method"]}`, seed {config["seed"]}, backbone `{config["backbone"]["name"]}`,
{procedure.rate} rows of features per second.
```json
{settings}
```

## Limits
The steps were found by what the videos share; nobody has named or confirmed them. A score against true timelines
(`stepcut evaluate`) says how far to trust them, and should be read beside the row `uniform`.
"""
