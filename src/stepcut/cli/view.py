"""stepcut view: look at a procedure in the browser, and correct it."""

from __future__ import annotations

import argparse
from pathlib import Path

from stepcut.cli.common import progress_hook
from stepcut.errors import OptionError
from stepcut.features.find import find_videos
from stepcut.procedure.outline import read_outline
from stepcut.procedure.procedure import load
from stepcut.show.viewer.server import Running, open_browser
from stepcut.show.viewer.state import look


def run(args: argparse.Namespace) -> int:
    """Serve until a signal comes."""
    folder = Path(args.procedure)
    procedure = load(folder, trust=args.trust) if args.check else None
    checked = [look(procedure, video, progress_hook(args)) for video in args.check if procedure]

    def ready(address: str) -> None:
        print(address, flush=True)
        if not args.no_browser:
            open_browser(address)

    Running(folder, args.port, args.host, checked, args.trust, _attach(folder, args.videos)).run(ready)
    return 0


def _attach(folder: Path, videos: list[str] | None) -> dict[str, str]:
    """Where the videos of a procedure lie, found by their names in the folders that were given."""
    if not videos:
        return {}
    known = read_outline(folder).videos
    found = {path.stem: str(Path(str(path)).resolve()) for path in find_videos(videos)}
    there = {name: found[name] for name in known if name in found}
    if not there:
        raise OptionError(f"--videos {' '.join(videos)}: none of its videos ({', '.join(list(known)[:5])}) is there.")
    return there
