"""Export labels, clips, the time budget, the report and the plan into one folder."""

import io
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from stepcut.app.folder import Folder, beside
from stepcut.errors import OptionError, ProcedureError, as_items, choose
from stepcut.evaluation.budget import time_budget
from stepcut.files.atomic import output_errors, write_json, write_text
from stepcut.formats import FORMATS, choose_format, write, write_folder
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

FILES = {
    "budget-csv": ("time-budget.csv", "seconds per step and video"),
    "budget-xlsx": ("time-budget.xlsx", "seconds per step and video"),
    "report": ("report.html", "the procedure as one page"),
    "plan": ("plan.json", "steps and preconditions for planners"),
}
"""Name and description of the things that are one file."""


class Wish(NamedTuple):
    """What to export: some of `THINGS`; labels need formats, and some of these a frame rate."""

    what: Sequence[str]
    formats: Sequence[str] = ()
    rate: str | None = None


def read_wish(request: Mapping[str, Any]) -> Wish:
    """Read a request; raises OptionError if it is invalid."""
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
    chosen = [choose_format(one) for one in formats]
    if "labels" in what and not formats:
        raise OptionError(
            f"labels need a format; choose from {', '.join(FORMATS)}.",
            setting="formats",
            allowed=list(FORMATS),
        )
    rate = str(request["rate"]) if request.get("rate") else None
    if rate is not None:
        as_rate(rate, "rate")
    elif counting := [form.title for form in chosen if form.frames]:
        raise OptionError(
            f"{' and '.join(counting)}: set the rate, the frames per second of the videos, "
            "such as 30 or 30000/1001.",
            setting="rate",
        )
    return Wish(what, formats, rate)


def preview(
    outline: Procedure, videos: Mapping[str, str | None], wish: Wish
) -> list[dict[str, Any]]:
    """List the files that an export would write, with a description of each."""
    found: list[tuple[str, str]] = []
    if "labels" in wish.what:
        with tempfile.TemporaryDirectory() as folder:
            for format in wish.formats:
                files = write_labels(outline.timelines, videos, format, wish.rate, Path(folder))
                about = FORMATS[format].title
                found += [(path.relative_to(folder).as_posix(), about) for path in files]
    if "clips" in wish.what:
        for name, timeline in outline.timelines.items():
            there = Path(videos.get(name) or "").is_file()
            for place, segment in enumerate(timeline if there else ()):
                clip = f"clips/{flat(segment.step)}/{flat(name)}-{place + 1:02d}"
                found.append((f"{clip}.mp4", segment.step))
                found.append((f"{clip}.jpg", f"picture of {segment.step}"))
        found.append(("clips/time-budget.csv", FILES["budget-csv"][1]))
    found += [FILES[thing] for thing in FILES if thing in wish.what]
    return [{"path": path, "about": about} for path, about in found]


def check_target(target: Path, files: Iterable[str]) -> None:
    """Refuse to write `files` into `target` through links, which may lead elsewhere."""
    places = Folder(target.parent)
    for file in files:
        places.place(target.name, *PurePosixPath(file).parts)


def write_export(args: Mapping[str, Any], progress: Hook = silent) -> dict[str, Any]:
    """Export a procedure into a folder, as a job; return the files and the problems.

    The files are made in a folder beside it, named after the job, and moved when they are whole.
    """
    folder, target, wish = Path(args["folder"]), Path(args["target"]), read_wish(args["wish"])
    procedure = load(folder, trust=args["trust"])
    if args.get("fingerprint") not in (None, procedure.config.fingerprint):
        raise ProcedureError(
            f"{folder}: this procedure was learned again after the export was requested. "
            "Export again.",
            path=folder,
        )
    procedure = procedure.moved(args["videos"])
    title = folder.resolve().name.removesuffix(".proc")
    with beside(target, args["job"]) as fresh:
        with output_errors(target):
            fresh.mkdir()
        written, problems = _write_all(procedure, wish, fresh, title, progress)
        files = [file.relative_to(fresh).as_posix() for file in written]
        check_target(target, files)
        with output_errors(target):
            for file in files:
                (target / file).parent.mkdir(parents=True, exist_ok=True)
                os.replace(fresh / file, target / file)
    return {"folder": str(target), "files": files, "problems": problems}


def _write_all(
    procedure: Procedure, wish: Wish, target: Path, title: str, progress: Hook
) -> tuple[list[Path], list[str]]:
    """Write everything that was requested; return the files and the problems."""
    timelines, written, problems = procedure.timelines, list[Path](), list[str]()
    with Stage(progress, "export", total=len(wish.what), unit="files") as stage:
        for thing in wish.what:
            if thing == "labels":
                for format in wish.formats:
                    written += write_labels(timelines, procedure.videos, format, wish.rate, target)
            elif thing == "clips":
                for _, clip in write_clips(timelines, procedure.videos, target / "clips"):
                    if isinstance(clip, Exception):
                        problems.append(str(clip))
                    else:
                        written += [clip, clip.with_suffix(".jpg")]
                written.append(target / "clips" / "time-budget.csv")
            else:
                file = target / FILES[thing][0]
                if thing == "plan":
                    write_json(file, procedure.plan())
                elif thing == "report":
                    write_text(file, make_report(procedure, title=title))
                else:
                    time_budget({"": timelines}, procedure.steps, per_video=True).save(file)
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
