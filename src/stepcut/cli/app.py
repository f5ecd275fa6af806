"""stepcut app: learn, correct, check, compare and export in the browser."""

import argparse
from pathlib import Path

from stepcut.app.server import Running
from stepcut.app.workspace import Workspace


def run(args: argparse.Namespace) -> int:
    running = Running(Workspace(Path(args.folder or "."), args.trust), args.port, args.host)
    print(running.address, flush=True)
    if not args.no_browser:
        running.open_browser()
    running.run()
    return 0
