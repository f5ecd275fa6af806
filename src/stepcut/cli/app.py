"""stepcut app: learn, correct, check, compare and export in the browser."""

import argparse
from functools import partial
from pathlib import Path

from stepcut.app.home import make_app
from stepcut.app.server import Running
from stepcut.app.workspace import Workspace


def run(args: argparse.Namespace) -> int:
    workspace = Workspace(Path(args.folder or "."), args.trust)
    running = Running(partial(make_app, workspace), args.port, args.host)
    print(running.address, flush=True)
    if not args.no_browser:
        running.open_browser()
    running.run()
    return 0
