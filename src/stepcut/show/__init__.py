"""Look at a procedure: plots for papers and notebooks, a report in one file, a viewer in the browser."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepcut.procedure.procedure import Procedure
    from stepcut.show.viewer.server import RunningViewer

__all__ = ["view"]


def view(
    procedure: Procedure | str | os.PathLike[str],
    port: int = 0,
    browser: bool = True,
    block: bool | None = None,
) -> RunningViewer:
    """Look at a procedure in the browser, and correct it: `stepcut.view("sandwich.proc")`.

    `port` 0 takes a free one. It blocks until Ctrl+C, but not in a notebook; `block` says otherwise. What it gives has
    an `address` and a `close()`. Edits are kept in the procedure's folder; a procedure that has none is saved to the
    cache first, and the same procedure finds its edits there again.
    """
    from stepcut.show.viewer.server import RunningViewer, kept
    from stepcut.show.viewer.state import Viewer

    folder = Path(procedure) if isinstance(procedure, str | os.PathLike) else kept(procedure)
    running = RunningViewer(Viewer(folder), port)
    if block is None:
        block = "ipykernel" not in sys.modules  # a notebook goes on
    if browser:
        running.open_browser()
    if not block:
        return running.start()
    log = logging.getLogger("stepcut")
    log.warning(
        "the viewer is at %s (Ctrl+C ends it); edits are kept in %s", running.address, folder
    )
    running.run()
    return running
