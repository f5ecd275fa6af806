"""stepcut app: learn, correct, check, compare and export in the browser."""

import argparse
from functools import partial
from pathlib import Path

from stepcut.show.app.routes import make_app
from stepcut.show.app.workspace import Workspace
from stepcut.show.viewer.server import Running


def run(args: argparse.Namespace) -> int:
    workspace = Workspace(Path(args.folder or "."), args.trust)
    running = Running(partial(make_app, workspace), args.port, args.host)
    print(running.address, flush=True)
    if not args.no_browser:
        running.open_browser()
    running.run()
    return 0
