"""view() from Python: find or make the folder, then serve in the foreground or in the background."""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
from pathlib import Path

from stepcut.files.cache import cache_dir
from stepcut.procedure.procedure import Procedure
from stepcut.show.viewer.server import Running, open_browser

log = logging.getLogger("stepcut")


def view_procedure(
    procedure: Procedure | str | os.PathLike[str], port: int = 0, browser: bool = True, block: bool | None = None
) -> Running:
    """What `stepcut.view` does."""
    folder = kept(procedure) if isinstance(procedure, Procedure) else Path(procedure)
    running = Running(folder, port)
    if block is None:
        block = not _in_notebook()

    def ready(address: str) -> None:
        log.warning("the viewer is at %s (Ctrl+C ends it); edits are kept in %s", address, folder)
        if browser:
            open_browser(address)

    if block:
        running.run(ready)
        return running
    running.start()
    if browser:
        open_browser(running.address)
    return running


def kept(procedure: Procedure) -> Path:
    """The folder of a procedure that was handed over as an object: in the cache, named by what it holds."""
    cuts = {name: [(s.start, s.end, s.step) for s in timeline] for name, timeline in procedure.timelines.items()}
    held = json.dumps([procedure.config.get("fingerprint"), procedure.steps, cuts], sort_keys=True)
    name = hashlib.blake2b(held.encode(), digest_size=8).hexdigest()
    folder = cache_dir() / "viewed" / f"{name}.proc"
    if not folder.exists():
        procedure.save(folder)
    return folder


def _in_notebook() -> bool:
    """Whether an event loop runs already, as it does in Jupyter."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
