"""Tasks of jobs: learn, teach, check, suggest, make copies for browsers, export."""

import io
import os
import shutil
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from stepcut.app.checks import Checks, check_video, outline_of
from stepcut.app.folder import Folder, beside, without_path
from stepcut.errors import OptionError, ProcedureError, StepcutError, as_items, choose
from stepcut.evaluation.times import Times
from stepcut.features.cycles import CYCLE, Cycle, find_cycles
from stepcut.features.extract import extract
from stepcut.files import output_errors, write_json, write_text
from stepcut.files.names import Fragment
from stepcut.formats import FORMATS, choose_format, write, write_folder
from stepcut.procedure.learning import changes, learn, load, read_cycles, teach_folder
from stepcut.procedure.procedure import Procedure
from stepcut.procedure.store import read_config
from stepcut.progress import Event, Hook, Stage, silent
from stepcut.settings import as_rate
from stepcut.show.clips import flat, make_proxy, write_clips
from stepcut.show.instructions import make_instructions
from stepcut.show.report import make_report
from stepcut.tables import save_figure
from stepcut.timeline import Segment, Timeline

Args = Mapping[str, Any]


def _learn(args: Args, progress: Hook) -> dict[str, Any]:
    """Never replace a procedure that has got the name in the meantime."""
    options = {key: args[key] for key in ("labels", "recipe") if args.get(key)}
    steps, output = args["steps"], Path(args["output"])
    files = Folder(Path(args.get("root", output.parent)))
    if args.get("labels"):
        files.check_links(Path(args["labels"]))  # links may have come since the request
    videos = [files.find(path) for path in args["videos"]]
    procedure = learn(
        read_cycles(videos[0], args["cycles"]) if args.get("cycles") else videos,
        steps=tuple(steps) if isinstance(steps, list) else steps,
        progress=progress,
        **options,
        **args.get("settings", {}),
    )
    with beside(output, args["job"]) as fresh:
        procedure.save(fresh)
        if not os.path.lexists(output):
            os.rename(fresh, output)  # fails if something else comes first
        elif output.is_symlink() or read_config(output).fingerprint != procedure.config.fingerprint:
            raise OptionError(
                f"{output.name} was made by something else in the meantime, and stays as it is. "
                "Learn again under another name; finished work is reused."
            )
    return {
        "steps": procedure.steps,
        "videos": len(procedure.timelines),
        "skipped": procedure.config.skipped,
    }


def _teach(args: Args, progress: Hook) -> dict[str, Any]:
    folder = Path(args["folder"])
    keep = args.get("keep", ())
    before, after = teach_folder(folder, trust=args["trust"], progress=progress, keep=keep)
    checks = Checks(folder)
    for video in checks.all():
        if Path(video.path).is_file():
            checks.add(check_video(after, video.source, progress))
    whole = {name for name, one in after.annotations.videos.items() if one.whole}
    shares = sorted(changes(before, after).items(), key=lambda item: -item[1])
    found = [{"video": name, "share": share, "labelled": name in whole} for name, share in shares]
    return {"changes": found, "before": _segments(before), "after": _segments(after)}


def _cycles(args: Args, progress: Hook) -> dict[str, Any]:
    """Show the cycles of a recording to be corrected; where none is found, to be tapped."""
    output, video = Path(args["output"]), args["video"]
    [features], _ = extract([video], progress=progress, strict=True)
    cycles, notes = list[Cycle](), list[str]()
    try:
        cycles, _, notes = find_cycles(features)
    except OptionError as error:
        notes = [str(error)]
    segments = [Segment(one.start, one.end, CYCLE, one.confidence) for one in cycles]
    timeline = Timeline(segments, features.end, [CYCLE], features.name)
    outline_of({features.name: timeline}, {features.name: video}, output.stem).save(output)
    return {"cycles": len(cycles), "notes": notes}


def _segments(procedure: Procedure) -> dict[str, list[list[Any]]]:
    return {
        name: [[s.start, s.end, s.step, procedure.colours[s.step]] for s in timeline]
        for name, timeline in procedure.timelines.items()
    }


def _one_by_one(
    stage: str, videos: Sequence[str], work: Callable[[str, Hook], object], progress: Hook
) -> dict[str, str]:
    failed, began = {}, time.monotonic()
    with Stage(progress, stage, total=len(videos), unit="videos") as counted:
        for path in videos:

            def within(event: Event, place: float = counted.done, path: str = path) -> None:
                share = min(event.done / event.total, 1.0) if event.total else 0.0
                spent, name = time.monotonic() - began, Path(path).name
                done = place + share
                progress(Event(stage, done, len(videos), "videos", name, elapsed=spent))

            try:
                work(path, within)
            except StepcutError as error:
                failed[path] = without_path(error, path)
            counted.advance(item=Path(path).name)
    return failed


def _check(args: Args, progress: Hook) -> dict[str, Any]:
    folder, videos = Path(args["folder"]), list(args["videos"])
    procedure, checks = load(folder, trust=args["trust"]), Checks(folder)

    def work(path: str, hook: Hook) -> None:
        checks.add(check_video(procedure, path, hook))

    failed = _one_by_one("check", videos, work, progress)
    return {"checked": len(videos) - len(failed), "failed": failed}


def _adopt(args: Args, progress: Hook) -> dict[str, Any]:
    """Make videos part of the procedure, to be corrected and learned from."""
    folder = Path(args["folder"])
    before = load(folder, trust=args["trust"])
    after = before.add(args["videos"], progress=progress)
    after.save(folder)
    for video in Checks(folder).all():
        if video.path in args["videos"]:
            Checks(folder).remove(video.key)
    added = [name for name in after.samples if name not in before.samples]
    skipped = after.config.skipped.items() - before.config.skipped.items()
    return {"video": added[0], "added": added, "failed": dict(skipped)}


def _suggest(args: Args, _: Hook) -> list[tuple[str, str]]:
    return load(args["folder"], trust=args["trust"]).suggest_why(int(args["count"]))


def _copies(args: Args, progress: Hook) -> dict[str, str]:
    kind, videos = args["kind"], list(args["videos"])
    with suppress(StepcutError, OSError):  # reported with the whole copy
        make_proxy(videos[0], kind, beginning=True)
    return _one_by_one("copies", videos, lambda path, hook: make_proxy(path, kind, hook), progress)


# ---------- export

LINKED = ("elan", "boris", "label-studio")
"""Their programs open the video by the path in the file."""
THINGS = (
    "labels",
    "clips",
    "times-csv",
    "times-xlsx",
    "times-svg",
    "report",
    "instructions",
    "plan",
)
FILES = {
    "times-csv": ("times.csv", "seconds per step and recording"),
    "times-xlsx": ("times.xlsx", "seconds per step and recording, run chart, stacked bars"),
    "times-svg": ("times.svg", "run chart and stacked bars"),
    "report": ("report.html", "the procedure as one page"),
    "instructions": ("work-instruction.html", "a part per step, to print"),
    "plan": ("plan.json", "steps and preconditions for planners"),
}


class Wish(NamedTuple):
    what: Sequence[str]
    formats: Sequence[str] = ()
    rate: str | None = None


def read_wish(request: Mapping[str, Any]) -> Wish:
    what = as_items("what", request.get("what", ()), str, f"a list of {', '.join(THINGS)}")
    if not what:
        raise OptionError(f"what=[] exports nothing; choose from {', '.join(THINGS)}.")
    for one in what:
        choose("what", one, dict.fromkeys(THINGS))
    formats = as_items("formats", request.get("formats", ()), str, "a list of label formats")
    chosen = [choose_format(one) for one in formats]
    if "labels" in what and not formats:
        raise OptionError(f"labels need a format; choose from {', '.join(FORMATS)}.")
    rate = str(request["rate"]) if request.get("rate") else None
    if rate is not None:
        as_rate(rate, "rate")
    elif counting := [form.title for form in chosen if form.frames]:
        raise OptionError(
            f"{' and '.join(counting)}: set the rate, the frames per second of the videos, "
            "such as 30 or 30000/1001."
        )
    return Wish(what, formats, rate)


def preview(
    outline: Procedure, videos: Mapping[str, str | None], wish: Wish
) -> list[dict[str, Any]]:
    found: list[tuple[str, str]] = []
    if "labels" in wish.what:
        with tempfile.TemporaryDirectory() as folder:
            for format in wish.formats:
                files = write_labels(outline.timelines, videos, format, wish.rate, Path(folder))
                title = FORMATS[format].title
                found += [(path.relative_to(folder).as_posix(), title) for path in files]
    if "clips" in wish.what:
        for name, timeline in outline.timelines.items():
            there = Path(videos.get(name) or "").is_file()
            for place, segment in enumerate(timeline if there else ()):
                clip = f"clips/{flat(segment.step)}/{flat(name)}-{place + 1:02d}"
                found.append((f"{clip}.mp4", segment.step))
                found.append((f"{clip}.jpg", f"picture of {segment.step}"))
        found.append(("clips/times.csv", FILES["times-csv"][1]))
    found += [FILES[thing] for thing in FILES if thing in wish.what]
    return [{"path": path, "about": about} for path, about in found]


def check_target(target: Path, files: Iterable[str]) -> None:
    places = Folder(target.parent)
    for file in files:
        places.place(target.name, *PurePosixPath(file).parts)


def write_export(args: Args, progress: Hook = silent) -> dict[str, Any]:
    folder, target, wish = Path(args["folder"]), Path(args["target"]), read_wish(args["wish"])
    procedure = load(folder, trust=args["trust"])
    if args.get("fingerprint") not in (None, procedure.config.fingerprint):
        raise ProcedureError(
            f"{folder}: this procedure was learned again after the export was requested. "
            "Export again."
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
                written.append(target / "clips" / "times.csv")
            else:
                file = target / FILES[thing][0]
                if thing == "plan":
                    write_json(file, procedure.plan())
                elif thing == "instructions":
                    make_instructions(procedure, title).save(file)
                elif thing == "report":
                    write_text(file, make_report(procedure, title=title))
                else:
                    classes, paths = procedure.annotations.classes, procedure.videos
                    times = Times({"": timelines}, procedure.steps, classes, paths=paths)
                    if thing == "times-svg":
                        save_figure(times.draw(), file)
                    else:
                        (times if thing == "times-xlsx" else times.per_recording).save(file)
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
    chosen = FORMATS[format]
    if format in LINKED:
        timelines = {
            name: replace(one, video=Fragment.of(name).at(videos.get(name)))
            for name, one in timelines.items()
        }
    path = target / f"labels-{format}{chosen.suffix if chosen.many else ''}"
    if chosen.many:
        write(path, timelines, format, rate, spreadsheet=True)
        return [path]
    write_folder(path, timelines, format, rate, spreadsheet=True)
    return sorted(file for file in path.rglob("*") if file.is_file())


def pack(result: Mapping[str, Any]) -> tuple[str, bytes]:
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


TASKS: dict[str, Callable[[Args, Hook], Any]] = {
    "learn": _learn,
    "teach": _teach,
    "cycles": _cycles,
    "check": _check,
    "adopt": _adopt,
    "suggest": _suggest,
    "copies": _copies,
    "export": write_export,
}
