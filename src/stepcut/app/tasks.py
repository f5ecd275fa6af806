"""Tasks of jobs: learn, teach, check, suggest, make copies for browsers, export."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from stepcut.app.checks import Checks, look
from stepcut.app.export import write_export
from stepcut.app.folder import Folder, beside, without_path
from stepcut.errors import OptionError, StepcutError
from stepcut.procedure.learning import learn
from stepcut.procedure.loading import changes, load, teach_folder
from stepcut.procedure.procedure import Procedure
from stepcut.procedure.store import read_config
from stepcut.progress import Event, Hook, Stage
from stepcut.show.clips import make_proxy

Args = Mapping[str, Any]


def _learn(args: Args, progress: Hook) -> dict[str, Any]:
    """Learn a new procedure; one that has got its name in the meantime is never replaced."""
    options = {key: args[key] for key in ("labels", "recipe") if args.get(key)}
    steps, output = args["steps"], Path(args["output"])
    files = Folder(Path(args.get("root", output.parent)))
    if args.get("labels"):
        files.check_links(Path(args["labels"]))  # links may have come since the request
    procedure = learn(
        [files.find(path) for path in args["videos"]],
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
                "Learn again under another name; finished work is reused.",
                path=output,
            )
    return {
        "steps": procedure.steps,
        "videos": len(procedure.timelines),
        "skipped": procedure.config.skipped,
    }


def _teach(args: Args, progress: Hook) -> dict[str, Any]:
    """Learn from annotations, and repeat the checks."""
    folder = Path(args["folder"])
    before, after = teach_folder(folder, trust=args["trust"], progress=progress)
    checks = Checks(folder)
    for video in checks.all():
        if Path(video.path).is_file():
            checks.add(look(after, video.path, progress))
    whole = {name for name, one in after.annotations.videos.items() if one.whole}
    shares = sorted(changes(before, after).items(), key=lambda item: -item[1])
    found = [{"video": name, "share": share, "labelled": name in whole} for name, share in shares]
    return {"changes": found, "before": _segments(before), "after": _segments(after)}


def _segments(procedure: Procedure) -> dict[str, list[list[Any]]]:
    """Segments of all videos: start, end, name and colour."""
    return {
        name: [[s.start, s.end, s.step, procedure.colours[s.step]] for s in timeline]
        for name, timeline in procedure.timelines.items()
    }


def _one_by_one(
    stage: str, videos: Sequence[str], work: Callable[[str, Hook], object], progress: Hook
) -> dict[str, str]:
    """Call `work(path, hook)` for every video; return errors by path, which stop no other."""
    failed = {}
    with Stage(progress, stage, total=len(videos), unit="videos") as counted:
        for path in videos:

            def within(event: Event, place: float = counted.done, path: str = path) -> None:
                share = min(event.done / event.total, 1.0) if event.total else 0.0
                progress(Event(stage, place + share, len(videos), "videos", Path(path).name))

            try:
                work(path, within)
            except StepcutError as error:
                failed[path] = without_path(error, path)
            counted.advance(item=Path(path).name)
    return failed


def _check(args: Args, progress: Hook) -> dict[str, Any]:
    folder, videos = Path(args["folder"]), list(args["videos"])
    procedure, checks = load(folder, trust=args["trust"]), Checks(folder)
    failed = _one_by_one(
        "check", videos, lambda path, hook: checks.add(look(procedure, path, hook)), progress
    )
    return {"checked": len(videos) - len(failed), "failed": failed}


def _suggest(args: Args, _: Hook) -> list[tuple[str, str]]:
    """Suggest videos to annotate next, with reasons."""
    return load(args["folder"], trust=args["trust"]).suggest_why(int(args["count"]))


def _copies(args: Args, progress: Hook) -> dict[str, str]:
    """Make copies for browsers; return errors by path."""
    kind = args["kind"]
    return _one_by_one(
        "copies", list(args["videos"]), lambda path, hook: make_proxy(path, kind, hook), progress
    )


TASKS: dict[str, Callable[[Args, Hook], Any]] = {
    "learn": _learn,
    "teach": _teach,
    "check": _check,
    "suggest": _suggest,
    "copies": _copies,
    "export": write_export,
}
