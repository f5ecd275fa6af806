"""The folder of the app: its procedures, videos and labels, and learning from them."""

import contextlib
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Self

from stepcut.app.checks import short_hash
from stepcut.app.folder import UPLOADS, Folder, without_path
from stepcut.app.jobs import Job, Jobs
from stepcut.app.state import Viewer, is_file, recordings
from stepcut.errors import (
    OptionError,
    StepcutError,
    as_items,
    check_kind,
    in_words,
    printable,
    wrong,
)
from stepcut.features.find import natural
from stepcut.features.video.container import probe
from stepcut.files.names import VIDEO_SUFFIXES, safe_name
from stepcut.formats import FORMATS
from stepcut.methods.inputs import read_step_count
from stepcut.methods.stepcut.method import StepCut
from stepcut.procedure.corrections import EVENTS
from stepcut.procedure.edits import diagnose, restore
from stepcut.procedure.folder import CONVERTED, CURRENT, check_output, folder_here, is_procedure
from stepcut.procedure.labels import read_labels, read_recipe
from stepcut.procedure.learning import read_cycles, read_outline
from stepcut.settings import check_chosen

VAGUE = {"videos", "video", "films", "recordings", "clips", "data", UPLOADS}
FIXED = ("steps", "rate")
DEEPEST = 3
THUMBS = 3
LABEL_SUFFIXES = {form.suffix.lower() for form in FORMATS.values()}


class Workspace:
    """Nothing outside the folder `root` is listed or written."""

    def __init__(self, root: Path, trust: bool = False) -> None:
        if not root.is_dir():
            raise OptionError(f"{root}: no such folder. Create it, or choose another one.")
        self.files, self.trust = Folder(root), trust
        self.jobs = Jobs(self.files.root)
        self.only: Viewer | None = None
        self._viewers: dict[str, Viewer] = {}
        self._read: dict[Path, tuple[float, dict[str, Any]]] = {}

    @classmethod
    def around(cls, folder: Path, trust: bool = False, **shown: Any) -> Self:
        place = folder_here(folder).resolve()
        space = cls(place.parent if place.parent.is_dir() else Path(place.anchor), trust)
        space.files.closed, space.jobs = True, Jobs(place)
        space.only = Viewer(folder, space.files, space.jobs, trust, **shown)
        return space

    def open(self) -> None:
        if not self.files.closed:
            self.files.clear({job.id[-8:] for job in self.jobs.all() if not job.is_finished})
        self.jobs.open()

    # ---------- procedures

    def folders(self) -> list[Path]:
        if self.only is not None:
            return [self.only.folder.resolve()]
        found = []
        for folder, inner, files in os.walk(self.files.root):
            path = Path(folder)
            depth = len(path.relative_to(self.files.root).parts)
            inner[:] = [name for name in inner if not name.startswith(".") and depth < DEEPEST]
            named = path.suffix == ".proc" and "config.json" in files  # of 0.3, damaged
            if depth and (named or is_procedure(path)):
                inner.clear()
                if not path.name.endswith(CONVERTED):
                    found.append(path)
        return sorted(found, key=lambda path: -_changed(path))

    def folder_of(self, name: str) -> Path | None:
        return next((path for path in self.folders() if self.id_of(path) == name), None)

    def id_of(self, folder: Path) -> str:
        return short_hash(folder.resolve().relative_to(self.files.root).as_posix(), 6)

    def procedures(self) -> list[dict[str, Any]]:
        return [self._about(folder) for folder in self.folders()]

    def _about(self, folder: Path) -> dict[str, Any]:
        stamp = _changed(folder)
        if self._read.get(folder, (0.0, {}))[0] != stamp:
            about: dict[str, Any] = {
                "id": self.id_of(folder),
                "title": folder.name.removesuffix(".proc"),
                "path": self.files.shown(folder),
                "changed": stamp,
            }
            try:
                outline = read_outline(folder)
                there = [key for key, (_, path) in recordings(outline).items() if is_file(path)]
                about |= {
                    "steps": len(outline.steps),
                    "videos": len(outline.samples),
                    "seconds": sum(timeline.end for timeline in outline.learned.timelines.values()),
                    "thumbs": there[:THUMBS],
                }
            except Exception as error:  # one damaged procedure must not hide the others
                about["error"] = " ".join(in_words(error).split())
                with contextlib.suppress(StepcutError, OSError):
                    damage = diagnose(folder)
                    about["restore"] = damage and damage.to is not None and str(damage)
            self._read[folder] = (stamp, about)
        return self._read[folder][1]

    def restore(self, name: str) -> None:
        folder = self.folder_of(name)
        if folder is None:
            raise OptionError("this procedure no longer exists.", setting="id", value=name)
        restore(folder)

    def viewer(self, name: str) -> Viewer | None:
        found = self.only or self._viewers.get(name)
        if self.only is not None and name != self.id_of(self.only.folder):
            return None
        if found is None or not is_procedure(found.folder):
            folder = self.folder_of(name)
            if folder is None:
                self._viewers.pop(name, None)
                return None
            found = self._viewers[name] = Viewer(folder, self.files, self.jobs, self.trust)
        found.refresh()
        return found

    # ---------- files

    def listing(self, name: str) -> dict[str, Any]:
        files, here = self.files, self.files.find(name or ".", folder=True)
        found: dict[str, list[dict[str, Any]]] = {"folders": [], "videos": [], "labels": []}
        kinds = {"videos": VIDEO_SUFFIXES, "labels": LABEL_SUFFIXES}
        for entry in sorted(here.iterdir(), key=natural):
            if entry.name.startswith(".") or not files.holds(entry):
                continue
            shown = {"name": printable(entry.name), "path": files.shown(entry)}
            if not entry.is_dir():
                if kind := next((k for k in kinds if entry.suffix.lower() in kinds[k]), None):
                    found[kind].append(shown)
            elif not is_procedure(entry):
                counts = {kind: _count_files(entry, kinds[kind]) for kind in kinds}
                found["folders"].append({**shown, **counts})
        return {
            "path": "" if here == files.root else files.shown(here),
            "parent": "" if files.root in (here, here.parent) else files.shown(here.parent),
            **found,
        }

    def probe(self, names: list[str]) -> list[dict[str, Any]]:
        found = []
        for name in names:
            answer: dict[str, Any] = {"path": name, "duration": None, "problem": None}
            try:
                answer["duration"] = probe(self.files.find(name)).duration
            except StepcutError as error:
                answer["problem"] = without_path(error, self.files.root / name)
            found.append(answer)
        return found

    # ---------- learning

    def learn(self, request: Mapping[str, Any]) -> Job:
        files = self.files
        videos = as_items("videos", request.get("videos", ()), str, "a list of videos")
        paths = [files.find(name) for name in videos]
        if cycles := request.get("cycles"):
            cycles = files.find(str(cycles), folder=True)
            read_cycles(paths[0], cycles)
        elif len(paths) < 2:
            raise OptionError(
                f"videos has {len(paths)} entries; choose at least two videos of the same task."
            )
        name = str(request.get("name") or _name_of(paths[0]))
        plain = safe_name(name.replace("/", "_")).name.removesuffix(".proc")
        output = files.place(f"{plain}.proc")
        check_output(output)
        if os.path.lexists(output):
            raise wrong("name", name[:200], "already exists. Choose another name.")
        steps = read_step_count(str(request.get("steps") or "auto"))
        labels = None
        if given := request.get("labels"):
            labels = files.find_labels(str(given))
            read_labels(str(labels))
        recipe = [line for line in str(request.get("recipe") or "").splitlines() if line.strip()]
        if recipe:
            read_recipe(recipe)
        if labels and recipe:
            raise OptionError("recipe and labels cannot be combined; give one of them.")
        chosen = request.get("settings") or {}
        check_kind("settings", chosen, dict, "an object, {name: value}")
        own = {name: one for name, one in StepCut.described().items() if name not in FIXED}
        check_chosen(chosen, own)
        args: dict[str, Any] = {
            "videos": [str(path) for path in paths],
            "output": str(output),
            "root": str(files.root),
            "steps": list(steps) if isinstance(steps, tuple) else steps,
            "labels": labels and str(labels),
            "recipe": recipe or None,
            "cycles": cycles and str(cycles),
            "settings": chosen,
        }
        for job in self.jobs.all():
            same_name = job.request["about"] == str(output) and not job.is_finished
            if same_name and job.request["args"] != args:
                why = "is being learned now. Choose another name, or cancel that job first."
                raise wrong("name", name[:200], why)
        return self.jobs.start("learn", args, output, plain)

    def cycles(self, request: Mapping[str, Any]) -> Job:
        video = self.files.find(str(request.get("video", "")))
        output = self.files.place(f"{safe_name(video.stem)} cycles.proc")
        if os.path.lexists(output):
            why = f"has cycles already: open {output.stem}, or remove {output.name}."
            raise wrong("video", video.name, why)
        args = {"video": str(video), "output": str(output)}
        return self.jobs.start("cycles", args, output, video.name)


def _name_of(video: Path) -> str:
    telling = (folder.name for folder in video.parents if folder.name.lower() not in VAGUE)
    return next(telling, "") or "procedure"


def _count_files(folder: Path, suffixes: Collection[str]) -> int:
    with contextlib.suppress(OSError):
        return sum(path.suffix.lower() in suffixes for path in folder.iterdir())
    return 0


def _changed(folder: Path) -> float:
    files = [folder / name for name in (CURRENT, EVENTS, "config.json", "edits.json")]
    return max((file.stat().st_mtime for file in files if file.exists()), default=0.0)
