"""Export labels, clips, the time budget, the report and the plan into one folder."""

import io
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from stepcut.app.folder import Folder
from stepcut.errors import OptionError, ProcedureError, as_items, choose
from stepcut.evaluation.budget import time_budget
from stepcut.files.atomic import output_errors, write_json, write_text
from stepcut.formats import FORMATS, write, write_folder
from stepcut.formats.registry import choose_format
from stepcut.procedure.loading import load
from stepcut.procedure.procedure import Procedure
from stepcut.progress import Hook, Stage, silent
from stepcut.rate import as_rate
from stepcut.show.clips import flat, write_clips
from stepcut.show.report import make_report
from stepcut.timeline import Timeline

LINKED = ("elan", "boris", "label-studio")
"""Formats whose program opens the video by the path in the file."""
THINGS = ("labels", "clips", "budget-csv", "budget-xlsx", "report", "plan")

ExportRequest = Mapping[str, Any]
"""A request: `what` lists some of `THINGS`; labels need `formats`, and `rate` for frame numbers."""


def check_request(request: ExportRequest) -> tuple[list[str], list[str], str | None]:
    """Return things, label formats and frame rate of a request; raises OptionError if it is
    invalid."""
    what = as_items("what", request.get("what", ()), str, f"a list of {', '.join(THINGS)}")
    if not what:
        raise OptionError(
            f"what=[] exports nothing; choose from {', '.join(THINGS)}.",
            setting="what",
            value=what,
            allowed=list(THINGS),
        )
    for one in what:
        choose("what", one, dict.fromkeys(THINGS))
    formats = as_items("formats", request.get("formats", ()), str, "a list of label formats")
    for one in formats:
        choose_format(one)
    if "labels" in what and not formats:
        raise OptionError(
            f"labels need a format; choose from {', '.join(FORMATS)}.",
            setting="formats",
            allowed=list(FORMATS),
        )
    rate = str(request["rate"]) if request.get("rate") else None
    if rate is not None:
        as_rate(rate, "rate")
    elif counting := [FORMATS[one].title for one in formats if FORMATS[one].frames]:
        raise OptionError(
            f"{' and '.join(counting)}: set the rate, the frames per second of the videos, "
            "such as 30 or 30000/1001.",
            setting="rate",
        )
    return what, formats, rate


def preview(
    outline: Procedure, videos: Mapping[str, str | None], request: ExportRequest
) -> list[dict[str, Any]]:
    """List the files that an export would write, with a description of each."""
    what, formats, rate = check_request(request)
    found: list[dict[str, Any]] = []
    if "labels" in what:
        with tempfile.TemporaryDirectory() as folder:
            for format in formats:
                for path in write_labels(outline.timelines, videos, format, rate, Path(folder)):
                    name = path.relative_to(folder).as_posix()
                    found.append({"path": name, "about": FORMATS[format].title})
    if "clips" in what:
        for name, timeline in outline.timelines.items():
            video = videos.get(name)
            if video is None or not Path(video).exists():
                continue
            for place, segment in enumerate(timeline):
                clip = f"clips/{flat(segment.step)}/{flat(name)}-{place + 1:02d}"
                found.append({"path": f"{clip}.mp4", "about": segment.step})
                found.append({"path": f"{clip}.jpg", "about": f"picture of {segment.step}"})
        found.append({"path": "clips/time-budget.csv", "about": FILES["budget-csv"][1]})
    for thing, (file, about) in FILES.items():
        if thing in what:
            found.append({"path": file, "about": about})
    return found


FILES = {
    "budget-csv": ("time-budget.csv", "seconds per step and video"),
    "budget-xlsx": ("time-budget.xlsx", "seconds per step and video"),
    "report": ("report.html", "the procedure as one page"),
    "plan": ("plan.json", "steps and preconditions for planners"),
}


def check_target(target: Path, files: Iterable[str]) -> None:
    """Refuse to write `files` into `target` through links, which may lead elsewhere."""
    places = Folder(target.parent)
    for file in files:
        places.place(target.name, *PurePosixPath(file).parts)


def write_export(
    folder: Path,
    videos: Mapping[str, str | None],
    request: ExportRequest,
    target: Path,
    token: str,
    trust: bool = False,
    progress: Hook = silent,
    fingerprint: str | None = None,
) -> dict[str, Any]:
    """Export the procedure in `folder` into `target`; return the files and the problems.

    The files are made in a folder beside it, named with a `token`, and moved when they are whole.
    """
    check_request(request)
    procedure = load(folder, trust=trust)
    if fingerprint not in (None, procedure.config.get("fingerprint", "")):
        raise ProcedureError(
            f"{folder}: this procedure was learned again after the export was requested. "
            "Export again.",
            path=folder,
        )
    procedure.videos = {**procedure.videos, **videos}
    title = folder.resolve().name.removesuffix(".proc")
    fresh = target.with_name(f".{target.name}.{token}.part")
    shutil.rmtree(fresh, ignore_errors=True)  # of an earlier start of this job
    try:
        with output_errors(target):
            fresh.mkdir()
        written, problems = _write_all(procedure, request, fresh, title, progress)
        files = [file.relative_to(fresh).as_posix() for file in written]
        check_target(target, files)
        with output_errors(target):
            for file in files:
                (target / file).parent.mkdir(parents=True, exist_ok=True)
                os.replace(fresh / file, target / file)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return {"folder": str(target), "files": files, "problems": problems}


def _write_all(
    procedure: Procedure, request: ExportRequest, target: Path, title: str, progress: Hook
) -> tuple[list[Path], list[str]]:
    """Write everything that was requested; return the files and the problems."""
    what, formats, rate = check_request(request)
    timelines, written, problems = procedure.timelines, list[Path](), list[str]()
    with Stage(progress, "export", total=len(what), unit="files") as stage:
        for thing in what:
            if thing == "labels":
                for format in formats:
                    written += write_labels(timelines, procedure.videos, format, rate, target)
            elif thing == "clips":
                for _, clip in write_clips(timelines, procedure.videos, target / "clips"):
                    if isinstance(clip, Exception):
                        problems.append(str(clip))
                    else:
                        written += [clip, clip.with_suffix(".jpg")]
                written.append(target / "clips" / "time-budget.csv")
            else:
                file = target / FILES[thing][0]
                if thing.startswith("budget"):
                    table = time_budget({"": timelines}, procedure.steps, per_video=True)
                    table.save(file)
                elif thing == "plan":
                    write_json(file, procedure.plan())
                else:
                    write_text(file, make_report(procedure, title=title))
                written.append(file)
            stage.advance(item=thing)
    return written, problems


def write_labels(
    timelines: Mapping[str, Timeline],
    videos: Mapping[str, str | None],
    format: str,
    rate: str | None,
    target: Path,
) -> list[Path]:
    """Write timelines in one format, safe for spreadsheets; return the files."""
    chosen = FORMATS[format]
    if format in LINKED:
        timelines = {
            name: replace(one, video=videos.get(name) or name) for name, one in timelines.items()
        }
    if chosen.many:
        path = target / f"labels-{format}{chosen.suffix}"
        write(path, timelines, format, rate, spreadsheet=True)
        return [path]
    folder = target / f"labels-{format}"
    write_folder(folder, timelines, format, rate, spreadsheet=True)
    return sorted(path for path in folder.rglob("*") if path.is_file())


def pack(result: Mapping[str, Any]) -> tuple[str, bytes]:
    """Return name and bytes of a download: the only exported file, or a zip of all."""
    folder, files = Path(result["folder"]), list(result["files"])
    places = Folder(folder.parent)
    if len(files) == 1:
        with places.open(folder / files[0]) as source:
            return Path(files[0]).name, source.read()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            with places.open(folder / file) as source, archive.open(file, "w") as copy:
                shutil.copyfileobj(source, copy)
    return f"{folder.name}.zip", packed.getvalue()
