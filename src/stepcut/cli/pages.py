"""`stepcut app` and `stepcut view`: the pages, for a folder or for one procedure or labels."""

import argparse
from pathlib import Path
from urllib.parse import quote

from stepcut.app.checks import check_video, outline_of
from stepcut.app.server import Running, kept
from stepcut.app.state import OtherTimelines
from stepcut.app.workspace import Workspace
from stepcut.cli import common, say
from stepcut.errors import OptionError, unknown
from stepcut.files.names import match_videos
from stepcut.procedure.folder import folder_here, is_procedure
from stepcut.procedure.learning import load, read_outline


def app(args: argparse.Namespace, space: Workspace | None = None, place: str = "") -> int:
    space = space or Workspace(Path(args.folder or "."), args.trust)
    running = Running(space, args.port, args.host)
    print(running.address + place, flush=True)
    if not args.no_browser:
        running.open_browser(place)
    running.run()
    return 0


def view(args: argparse.Namespace) -> int:
    folder = folder_here(args.procedure)
    ours, theirs = (
        {**common.label_options(args), "annotator": name}
        for name in args.annotators or (None, None)
    )
    if folder.exists() and not is_procedure(folder):
        labels = common.read_timelines(args.procedure, **ours)
        outline = outline_of(
            labels, common.find_moved(dict.fromkeys(labels), args.videos), folder.stem
        )
        folder = kept(outline, f"{ours['annotator']} {folder.resolve()}")
    stored = read_outline(folder)
    videos = common.find_moved(stored.videos, args.videos)
    common.warn_changed(stored, videos)
    procedure = load(folder, trust=args.trust) if args.check else None
    checked = [
        check_video(procedure, video, common.progress_hook(args))
        for video in args.check
        if procedure
    ]
    beside = None
    if args.beside:
        found = common.read_timelines(args.beside, **theirs)
        beside = OtherTimelines.of(Path(args.beside).name, found, videos)
    names = [*videos, *(video.name for video in checked)]
    wanted, at, seconds = (args.at or "").rpartition("@")
    shown = match_videos([wanted], names, OptionError).get(wanted)
    if args.at and shown is None:
        raise unknown("video", wanted, names, f"--at {args.at!r}", "Write VIDEO@SECONDS.")

    space = Workspace.around(folder, args.trust, checked=checked, videos=videos, beside=beside)
    app(args, space, f"#{quote(f'{shown}{at}{seconds}')}" if args.at else "")
    assert space.only is not None
    if folder != Path(args.procedure) and (made := len(space.only.edits.corrections.done)):
        say(
            f"{made} corrections of {args.procedure} are saved in {folder}. The viewer shows them "
            "again while the labels stay unchanged. Export writes them to label files."
        )
    return 0
