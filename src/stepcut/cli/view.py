"""stepcut view: look at a procedure in the browser, and correct it."""

from __future__ import annotations

import argparse
from pathlib import Path

from stepcut.cli.common import add_progress, progress_hook
from stepcut.errors import OptionError

EXAMPLES = """examples:
  stepcut view sandwich.proc                     opens the browser
  stepcut view sandwich.proc --check new.mp4     with a new video, cut and checked
  stepcut view sandwich.proc --port 8000 --no-browser
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of `stepcut view`."""
    parser.add_argument("procedure", help="a folder made by stepcut learn")
    parser.add_argument("--port", type=int, default=0, help="where to serve (default: any free port)")
    parser.add_argument("--no-browser", action="store_true", help="print the address, open nothing")
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="the address to bind to (default 127.0.0.1: this machine only; others see videos unencrypted)",
    )
    parser.add_argument(
        "--check", action="append", default=[], metavar="VIDEO", help="a new video to show, checked; may be repeated"
    )
    parser.add_argument(
        "--videos",
        nargs="+",
        metavar="DIR",
        help="where its videos are, when it was learned from features or they moved",
    )
    parser.add_argument("--trust", action="store_true", help="run code of others that the procedure names")
    add_progress(parser)


def run(args: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    from stepcut.show.viewer.checks import Checker
    from stepcut.show.viewer.server import Running, open_browser

    folder = Path(args.procedure)
    checker = Checker(folder, args.trust)
    checked = [checker.look(video, progress_hook(args)) for video in args.check]

    def ready(address: str) -> None:
        print(address, flush=True)
        if not args.no_browser:
            open_browser(address)

    Running(folder, args.port, args.host, checked, args.trust, _attach(folder, args.videos)).run(ready)
    return 0


def _attach(folder: Path, videos: list[str] | None) -> dict[str, str]:
    """Where the videos of a procedure lie, found by their names in the folders that were given."""
    from stepcut.features.video.find import find_videos
    from stepcut.procedure.storage import read_outline

    if not videos:
        return {}
    known = read_outline(folder).videos
    found = {path.stem: str(Path(str(path)).resolve()) for path in find_videos(videos)}
    there = {name: found[name] for name in known if name in found}
    if not there:
        raise OptionError(f"--videos {' '.join(videos)}: none of its videos ({', '.join(list(known)[:5])}) is there.")
    return there
