"""Folders of versions before 0.4: read them as they are, and convert them at the first change."""

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from stepcut.checking.expectations import MEASURES
from stepcut.checking.rules import SEVERITY_FILE, read_severity
from stepcut.checking.usual import Presence
from stepcut.errors import OptionError, ProcedureError
from stepcut.files import cache_dir, read_bytes, read_json, wall_clock, write_bytes, write_json
from stepcut.methods.quality import Quality
from stepcut.order.graph import ProcedureGraph
from stepcut.procedure.corrections import (
    EVENTS,
    MISFITS,
    Corrections,
    Event,
    Log,
    Made,
    corrections_of,
    edit_event,
    lines_of,
)
from stepcut.procedure.document import Document
from stepcut.procedure.folder import (
    CONVERTED,
    NAME,
    OLD_FILES,
    REVISIONS,
    Opened,
    Place,
    check_version,
    digest,
    is_old,
    new_folder,
    point,
    put_revision,
    set_aside,
)
from stepcut.procedure.learned import LABELS, Config, Learned, Saved, read_learned, saved_of

EDITS, SETTINGS = "edits.json", "config.json"


def first_corrections(learned: Learned) -> Corrections:
    return Corrections(Document.of(learned.steps, learned.timelines, learned.annotations))


def open_old(folder: Place, edits: bool = True) -> Opened:
    config = read_json(folder / SETTINGS)
    check_version(folder, config)
    steps = msgspec.convert([one["name"] for one in read_json(folder / "steps.json")], list[str])
    name_of, videos = dict(enumerate(steps)), read_json(folder / "timelines.json")
    for video in videos.values():
        video["segments"] = [
            {**one, "step": name_of[one["step"]]}
            for one in video["segments"]
            # Versions before 0.4 made segments of some clicks.
            if config["method"] == LABELS or one["end"] > one["start"]
        ]
    record = folder / "annotations.json"
    annotations = read_json(record) if record.exists() else {}
    saved = {"steps": steps, "videos": videos, "annotations": annotations}
    if isinstance(folder, Path) and (folder / "model.safetensors").exists():
        kept = config.get("model")
        if kept not in (None, digest(read_bytes(folder / "model.safetensors"))):
            raise ValueError("model.safetensors differs from the saved one")
    name = str(config.get("fingerprint", ""))
    if not NAME.fullmatch(name):
        name = digest(f"{name} {msgspec.json.encode(steps)!r}".encode())
    settings = {**config, "quality": Quality.from_json(config.get("quality", {})).to_json()}
    log = Log(tuple(_events(folder, name, config, edits)))
    learned = read_learned(msgspec.convert(settings, Config), msgspec.convert(saved, Saved))
    return Opened(name, folder, {"files": {}}, learned, log)


def _events(folder: Place, name: str, config: Mapping[str, Any], edits: bool) -> list[Event]:
    path = folder / EDITS
    made: list[Made] = [("teach" if "absorbed" in config else "learn", {})]
    if edits and path.exists():
        way_out = f"leave them out: stepcut history {folder} --restore"
        try:
            record = read_json(path)
            if record["format"] > 1:
                raise ProcedureError(
                    f"{path}: a newer stepcut wrote this file (format {record['format']}). "
                    "Update with: pip install --upgrade stepcut",
                    path=path,
                )
            undone = list(map(dict, record["undone"]))
            made += map(edit_event, [*map(dict, record["done"]), *reversed(undone)])
            made += [("undo", {})] * len(undone)
            of, wanted = str(record["of"]), str(config.get("fingerprint", ""))
        except (ValueError, TypeError, KeyError, OSError, RecursionError) as error:
            raise ProcedureError(
                f"{path}: the corrections cannot be read ({error}). Restore the file, or {way_out}",
                path=path,
            ) from error
        if of != wanted:
            raise ProcedureError(
                f"{path}: these corrections belong to another learned state ({of}, not {wanted}), "
                f"because the procedure was learned again. Restore that procedure, or {way_out}",
                path=path,
            )
    times = []
    for file in (SETTINGS, EDITS):
        times.append("")
        with suppress(OSError, KeyError, NotImplementedError):
            times[-1] = wall_clock((folder / file).stat().st_mtime)
    return [
        Event(place + 1, times[place > 0], "", name, verb, values)
        for place, (verb, values) in enumerate(made)
    ]


def check_of_0_3(record: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return check.json of version 0.3.0 in today's form: five of its eight measures."""
    if "usual" in record or "paces" not in record:
        return record
    graph = ProcedureGraph.from_json(record["graph"])

    def five(amounts: Mapping[str, Any]) -> dict[str, Any]:
        pairs = zip(amounts["missed"], amounts["misordered"], strict=True)
        missed = [missing + swapped for missing, swapped in pairs]
        kept = {way: amounts[way] for way in MEASURES}
        return kept | {"length": [-one for one in amounts["length"]], "missed": missed}

    amounts = record.get("amounts", {})
    usual = {
        "videos": graph.videos,
        "occurs": graph.occurs,
        "repeats": graph.times,
        "paces": {step: pace for step, *pace in record["paces"]},
        "never": {"fewer": 1.0, **record["never"]},
        "times": dict(record["times"]),
        "orders": [(a, b, count) for (a, b), count in sorted(graph.first.items())],
        "slices": [[one["rows"], one["steps"]] for one in record.get("outlines", [])],
        "presence": record.get("presence", msgspec.to_builtins(Presence())),
        **{name: record[name] for name in ("length", "new", "stretch")},
    }
    return {
        **{name: record[name] for name in ("graph", "false_alarms", "task")},
        "usual": msgspec.to_builtins(usual, str_keys=True),
        "amounts": five(amounts) if amounts else {},
        "invariant": [s for s, videos in graph.occurs.items() if videos == graph.videos],
        "altered": {
            kind: [
                [int(of), amounts, 1.0]
                for of, *amounts in zip(one["of"], *five(one).values(), strict=True)
            ]
            for kind, one in record.get("planted", {}).items()
            if one["of"]
        },
        "videos": record.get("videos", []) if amounts else [],
        "groups": record.get("groups", []),
    }


# ---------- converting


def convert(folder: Path, edits: bool = True) -> None:
    """Keep the original; until the pointer is written, last, the folder is read as before."""
    opened = open_old(folder, edits)
    # An edit that does not fit stops here, before anything changes.
    corrections = corrections_of(opened.log.events, first_corrections(opened.learned))
    _keep_original(folder)
    events = list(opened.log.events)
    _convert_revision(folder, opened, folder)
    if (before := copy_before_teaching(folder)) is not None:
        earlier = open_old(before)
        _convert_revision(before, earlier, folder)
        events[0] = msgspec.structs.replace(events[0], values={"from": earlier.name})
        events += [
            msgspec.structs.replace(event, id=event.id + len(events))
            for event in earlier.log.events
        ]
    if (folder / SEVERITY_FILE).exists():  # version 0.3 replaced the names of steps by numbers
        try:
            names = corrections.document.model_steps
            known = {name: n for n, name in enumerate(opened.learned.steps)}
            text = read_severity(folder / SEVERITY_FILE, names, known).to_json(names)
            write_json(folder / SEVERITY_FILE, text, follow=False)
        except OptionError:
            if not edits:  # it has names that only the lost corrections gave
                set_aside(folder / SEVERITY_FILE)
    write_bytes(folder / EVENTS, lines_of(events), follow=False)
    point(folder, opened.name)


def _convert_revision(source: Path, opened: Opened, folder: Path) -> None:
    place = folder / REVISIONS / opened.name
    with new_folder(place) as fresh:
        write_json(fresh / "procedure.json", saved_of(opened.learned))
        for name in ("model.safetensors", "check.json", "loss.csv", "README.md"):
            if (source / name).is_file():
                write_bytes(fresh / name, read_bytes(source / name))
        put_revision(fresh, place, opened.learned.config)


def copy_before_teaching(folder: Path) -> Path | None:
    fingerprint = read_json(folder / SETTINGS).get("fingerprint", "")
    where = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:16]
    copy = cache_dir() / "before" / f"{fingerprint}-{where}.proc"
    with suppress(*MISFITS):
        if is_old(copy):
            opened = open_old(copy)
            corrections_of(opened.log.events, first_corrections(opened.learned))
            return copy
    return None


def _keep_original(folder: Path) -> None:
    """Copy the files of stepcut to P.0.3, or P-2.0.3 if that is another one."""
    ours = [folder / name for name in (*OLD_FILES, SEVERITY_FILE) if (folder / name).is_file()]
    if any(_has_copies(beside, ours) for beside in _originals(folder)):
        return
    beside, number = folder.with_name(f"{folder.name}{CONVERTED}"), 2
    while beside.exists():
        beside = folder.with_name(f"{folder.name}-{number}{CONVERTED}")
        number += 1
    with new_folder(beside) as fresh:
        for file in ours:
            write_bytes(fresh / file.name, read_bytes(file))
            shutil.copystat(file, fresh / file.name)
        shutil.copymode(folder, fresh)
        os.rename(fresh, beside)


def _originals(folder: Path) -> list[Path]:
    name = re.compile(re.escape(folder.name) + r"(-\d+)?" + re.escape(CONVERTED))
    return [path for path in folder.parent.iterdir() if name.fullmatch(path.name)]


def _has_copies(beside: Path, files: list[Path]) -> bool:
    with suppress(OSError):
        return all((beside / one.name).read_bytes() == one.read_bytes() for one in files)
    return False


def remove_converted(folder: Path) -> None:
    """Remove converted files that have copies beside the folder, config.json last."""
    beside = _originals(folder) if (folder / SETTINGS).is_file() else []
    if not any(_has_copies(one, [folder / SETTINGS]) for one in beside):
        return
    config = read_json(folder / SETTINGS)
    for name in OLD_FILES:
        file = folder / name
        if not file.is_file() or not any(_has_copies(one, [file]) for one in beside):
            continue
        own = name == "README.md" and config.get("card") not in (None, digest(read_bytes(file)))
        if not own:  # a person has written into it
            file.unlink()
