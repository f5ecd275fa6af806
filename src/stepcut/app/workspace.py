"""The folder of the app: its procedures, videos and labels, and learning from them."""

import contextlib
import hashlib
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from stepcut.app.choice import below, without_path
from stepcut.app.jobs import Job, Jobs
from stepcut.app.state import Viewer
from stepcut.errors import OptionError, StepcutError, as_items
from stepcut.features.find import natural
from stepcut.features.video.probe import probe
from stepcut.files.names import VIDEO_SUFFIXES, safe_name
from stepcut.formats import FORMATS
from stepcut.methods.inputs import as_step_count
from stepcut.procedure.folder import check_output, is_procedure
from stepcut.procedure.labels import read_labels
from stepcut.procedure.loading import read_outline
from stepcut.procedure.naming import read_recipe

DEEPEST = 3
"""Depth of the search for procedures."""
THUMBS = 3
LABEL_SUFFIXES = {form.suffix.lower() for form in FORMATS.values()}


class Workspace:
    """Everything below the folder `root`; nothing outside it is shown or used."""

    def __init__(self, root: Path, trust: bool = False) -> None:
        if not root.is_dir():
            raise OptionError(
                f"{root}: no such folder. Create it, or choose another one.", path=root
            )
        self.root, self.trust = root.resolve(), trust
        self.jobs = Jobs(self.root)
        self._viewers: dict[str, Viewer] = {}
        self._read: dict[Path, tuple[float, dict[str, Any]]] = {}

    # ------------------------------------------------------------------ procedures

    def folders(self) -> list[Path]:
        """Folders of all procedures, last changed first."""
        found = []
        for folder, inner, files in os.walk(self.root):
            path = Path(folder)
            depth = len(path.relative_to(self.root).parts)
            inner[:] = [name for name in inner if not name.startswith(".") and depth < DEEPEST]
            if "config.json" in files and path != self.root and is_procedure(path):
                found.append(path)
                inner.clear()
        return sorted(found, key=lambda path: -_changed(path))

    def procedures(self) -> list[dict[str, Any]]:
        return [self._about(folder) for folder in self.folders()]

    def _about(self, folder: Path) -> dict[str, Any]:
        stamp = _changed(folder)
        if self._read.get(folder, (0.0, {}))[0] != stamp:
            about: dict[str, Any] = {
                "id": self.id_of(folder),
                "title": folder.name.removesuffix(".proc"),
                "path": folder.relative_to(self.root).as_posix(),
                "changed": stamp,
            }
            try:
                outline = read_outline(folder)
                there = [
                    str(place)
                    for place, path in enumerate(outline.videos.values())
                    if path and Path(path).is_file()
                ]
                about |= {
                    "steps": len(outline.steps),
                    "videos": len(outline.samples),
                    "seconds": sum(timeline.end for timeline in outline.learned_timelines.values()),
                    "thumbs": there[:THUMBS],
                }
            except (StepcutError, OSError, ValueError, KeyError) as error:
                about["error"] = " ".join(str(error).split())
            self._read[folder] = (stamp, about)
        return self._read[folder][1]

    def id_of(self, folder: Path) -> str:
        """A short, stable id of a procedure."""
        name = folder.resolve().relative_to(self.root).as_posix()
        return hashlib.blake2b(os.fsencode(name), digest_size=6).hexdigest()

    def viewer(self, name: str) -> Viewer | None:
        """The viewer of a procedure by id, or None."""
        open_viewer = self._viewers.get(name)
        if open_viewer is not None and (open_viewer.folder / "config.json").exists():
            return open_viewer
        folder = next((path for path in self.folders() if self.id_of(path) == name), None)
        if folder is None:
            return None
        self._viewers[name] = Viewer(folder, trust=self.trust, jobs=self.jobs, root=self.root)
        return self._viewers[name]

    # ------------------------------------------------------------------ files

    def listing(self, name: str) -> dict[str, Any]:
        """List one folder for the file picker."""
        here = below(self.root, name or ".", folder=True)
        folders, videos, labels = [], [], []
        for entry in sorted(here.iterdir(), key=natural):
            if entry.name.startswith(".") or not entry.resolve().is_relative_to(self.root):
                continue
            path = entry.relative_to(self.root).as_posix()
            if entry.is_dir():
                if not is_procedure(entry):
                    counts = {
                        "videos": _count_files(entry, VIDEO_SUFFIXES),
                        "labels": _count_files(entry, LABEL_SUFFIXES),
                    }
                    folders.append({"name": entry.name, "path": path, **counts})
            elif entry.suffix.lower() in VIDEO_SUFFIXES:
                videos.append({"name": entry.name, "path": path})
            elif entry.suffix.lower() in LABEL_SUFFIXES:
                labels.append({"name": entry.name, "path": path})
        shown = here.relative_to(self.root).as_posix()
        parent = here.parent if here != self.root else here
        return {
            "path": "" if shown == "." else shown,
            "parent": "" if parent == self.root else parent.relative_to(self.root).as_posix(),
            "folders": folders,
            "videos": videos,
            "labels": labels,
        }

    def probe(self, names: list[str]) -> list[dict[str, Any]]:
        """Duration of each video, or its problem."""
        found = []
        for name in names:
            try:
                info = probe(below(self.root, name))
                found.append({"path": name, "duration": info.duration, "problem": None})
            except StepcutError as error:
                problem = without_path(error, self.root / name)
                found.append({"path": name, "duration": None, "problem": problem})
        return found

    # ------------------------------------------------------------------ learning

    def learn(self, request: Mapping[str, Any]) -> Job:
        """Start to learn a procedure. Errors in the request are raised before any work."""
        videos = as_items("videos", request.get("videos", ()), str, "a list of videos")
        paths = [below(self.root, name) for name in videos]
        if len(paths) < 2:
            raise OptionError(
                f"videos has {len(paths)} entries; choose at least two videos of the same task.",
                setting="videos",
                value=videos,
            )
        name = str(request.get("name") or paths[0].parent.name)
        plain = safe_name(name.replace("/", "_")).name.removesuffix(".proc")
        output = self.root / f"{plain}.proc"
        check_output(output)
        if output.exists():
            raise OptionError(
                f"name={name!r} already exists. Choose another name.", setting="name", value=name
            )
        args: dict[str, Any] = {
            "videos": [str(path) for path in paths],
            "output": str(output),
            "steps": read_steps(request.get("steps")),
            "labels": None,
            "recipe": None,
        }
        if labels := request.get("labels"):
            path = (self.root / str(labels)).resolve()
            args["labels"] = str(below(self.root, str(labels), folder=path.is_dir()))
            read_labels(args["labels"])
        if recipe := [
            line for line in str(request.get("recipe") or "").splitlines() if line.strip()
        ]:
            read_recipe(recipe)
            args["recipe"] = recipe
        if args["labels"] and args["recipe"]:
            raise OptionError(
                "recipe and labels cannot be combined; give one of them.", setting="recipe"
            )
        return self.jobs.start("learn", args, output, plain)


def read_steps(value: Any) -> Any:
    """Parse the number of steps: 7, 8-14, or empty for an automatic choice."""
    text = str(value if value is not None else "").strip()
    if text in ("", "auto"):
        return "auto"
    low, dash, high = text.partition("-")
    try:
        numbers = [int(low), int(high)] if dash and low else int(text)
    except ValueError as error:
        raise OptionError(
            f"steps={text!r} is not a number. Give one such as 7, or a range such as 8-14.",
            setting="steps",
            value=text,
        ) from error
    count = as_step_count(numbers)
    return list(count) if isinstance(count, tuple) else count


def _count_files(folder: Path, suffixes: Collection[str]) -> int:
    with contextlib.suppress(OSError):
        return sum(path.suffix.lower() in suffixes for path in folder.iterdir())
    return 0


def _changed(folder: Path) -> float:
    """Time of the last training or correction of a procedure."""
    files = (folder / "config.json", folder / "edits.json")
    return max((file.stat().st_mtime for file in files if file.exists()), default=0.0)
