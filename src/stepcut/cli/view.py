"""stepcut view: look at a procedure, or at labels, in the browser, and correct it."""

import argparse
from pathlib import Path
from urllib.parse import quote

from stepcut.cli import say
from stepcut.cli.common import find_films, find_moved, progress_hook, read_timelines
from stepcut.errors import OptionError, unknown
from stepcut.files.names import short_names
from stepcut.procedure.folder import folder_here, is_procedure
from stepcut.procedure.procedure import load
from stepcut.procedure.storage import read_outline
from stepcut.show.viewer.server import Running, kept, open_browser, outline_of
from stepcut.show.viewer.state import Beside, Viewer, look


def run(args: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    folder, videos = folder_here(args.procedure), find_films(args.videos)
    ours, theirs = ({"rate": args.rate, "annotator": name} for name in args.annotators or (None, None))
    if folder.exists() and not is_procedure(folder):
        folder = kept(outline_of(read_timelines(args.procedure, **ours), videos, folder.stem))
    known = find_moved(read_outline(folder).videos, args.videos)
    procedure = load(folder, trust=args.trust) if args.check else None
    checked = [look(procedure, video, progress_hook(args)) for video in args.check if procedure]
    beside = Beside(Path(args.beside).name, read_timelines(args.beside, **theirs)) if args.beside else None
    if beside and not set(short_names(list(beside.timelines))) & set(short_names(list(known))):
        there_too = ", ".join(list(beside.timelines)[:5])
        raise OptionError(f"--beside {args.beside}: its videos ({there_too}) are none of those in {args.procedure}.")

    names = [*known, *(video.name for video in checked)]
    if args.at and args.at.rpartition("@")[0] not in names:
        raise OptionError(
            f"--at {args.at!r}: {unknown('video', args.at.rpartition('@')[0], names)} Write VIDEO@SECONDS."
        )

    running = Running(Viewer(folder, checked, args.trust, known, beside), args.port, args.host)
    address = running.address + (f"#{quote(args.at)}" if args.at else "")
    print(address, flush=True)
    if not args.no_browser:
        open_browser(address)
    running.run()
    if folder != Path(args.procedure) and (made := len(running.viewer.edits.corrections.done)):
        say(
            f"{made} corrections of {args.procedure} are kept in {folder}, and shown again as long as these labels "
            "stay as they are. Export writes them to label files."
        )
    return 0
