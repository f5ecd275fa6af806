"""Watched folders: check each new video once it has stopped growing."""

import threading
from pathlib import Path

from stepcut.app.workspace import Workspace
from stepcut.files.names import VIDEO_SUFFIXES

EVERY = 2.0
SETTLED = 3.0
"""Seconds without a change after which a file counts as complete."""


class Watching:
    """Watch the folders of all procedures until it is closed."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._sizes: dict[Path, tuple[tuple[int, int], float]] = {}
        self._requested: set[tuple[str, Path, tuple[int, int]]] = set()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._clock = 0.0

    def open(self) -> None:
        self._thread = threading.Thread(target=self._run, daemon=True, name="stepcut-watch")
        self._thread.start()

    def close(self) -> None:
        self._ending.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._ending.wait(EVERY):
            self._clock += EVERY
            try:
                self.look()
            except OSError:
                continue  # the disk may be unavailable for a moment

    def look(self) -> None:
        """Start checks of new videos."""
        space = self.workspace
        for folder in space.folders():
            viewer = space.viewer(space.id_of(folder))
            watched = viewer.checks.watched if viewer else None
            if viewer is None or watched is None or not watched.is_dir():
                continue
            if not watched.resolve().is_relative_to(space.root):
                continue
            checked = {video.path for video in viewer.checks.all()}
            fresh = [
                path
                for path in sorted(watched.iterdir())
                if path.suffix.lower() in VIDEO_SUFFIXES
                and str(path.resolve()) not in checked
                and self._is_settled(viewer.title, path)
            ]
            if fresh:
                args = {"folder": str(viewer.folder.resolve()), "trust": viewer.trust}
                paths = [str(path.resolve()) for path in fresh]
                space.jobs.start("check", {**args, "videos": paths}, viewer.folder, viewer.title)

    def _is_settled(self, title: str, path: Path) -> bool:
        """Whether a file has stopped growing, and no check was requested before."""
        state = path.stat()
        stamp = (state.st_size, state.st_mtime_ns)
        before, since = self._sizes.get(path, (stamp, self._clock))
        self._sizes[path] = (stamp, since if before == stamp else self._clock)
        if before != stamp or self._clock - since < SETTLED:
            return False
        request = (title, path, stamp)
        if request in self._requested:
            return False
        self._requested.add(request)
        return True
