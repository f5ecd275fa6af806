"""The app and the viewer: web pages that learn, show, annotate, check, compare and export."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stepcut.app.server import Running
    from stepcut.procedure.procedure import Procedure

__all__ = ["view"]


def view(
    procedure: Procedure | str | os.PathLike[str],
    port: int = 0,
    browser: bool = True,
    block: bool | None = None,
) -> Running:
    """Show a procedure in the browser, and correct it there: `stepcut.view("sandwich.proc")`.

    Edits are saved in the procedure's folder. A procedure without a folder is saved to the cache
    first, and finds its edits there the next time.

    Parameters
    ----------
    procedure
        A procedure, or the path of one.
    port
        Port of the server; 0 takes a free one.
    browser
        Whether to open the browser.
    block
        Whether to wait until Ctrl+C; by default yes, except in notebooks.

    Returns
    -------
    Running
        The server, with an `address` and a `close()` method.

    Raises
    ------
    OptionError
        If the port cannot be used.

    Examples
    --------
    >>> viewer = sc.view(proc, browser=False, block=False)
    >>> viewer.address.startswith("http://127.0.0.1:")
    True
    >>> viewer.close()
    """
    from stepcut.app.server import Running, kept
    from stepcut.app.workspace import Workspace

    folder = Path(procedure) if isinstance(procedure, str | os.PathLike) else kept(procedure)
    running = Running(Workspace.around(folder), port)
    if browser:
        running.open_browser()
    if block is False or (block is None and "ipykernel" in sys.modules):
        return running.start()
    log = logging.getLogger("stepcut")
    log.warning("viewer: %s (stop with Ctrl+C); edits are saved in %s", running.address, folder)
    running.run()
    return running
