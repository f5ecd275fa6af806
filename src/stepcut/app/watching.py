"""Watch folders: find each new video once it has stopped growing, and keep a journal of them."""

import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from stepcut.app.checks import Checks
from stepcut.app.jobs import Job, Loop
from stepcut.app.workspace import Workspace
from stepcut.errors import OptionError, OutputError, in_words
from stepcut.features.find import all_files
from stepcut.files import output_errors, state_folder, sync_folder, wall_clock
from stepcut.files.names import VIDEO_SUFFIXES, is_hole
from stepcut.procedure.folder import OURS
from stepcut.procedure.store import read_config

Stamp = tuple[int, int, int]
"""Bytes, mtime in ns, ctime in ns."""
EVERY = 2.0
SETTLED = 3.0


def journal_of(folder: Path, procedure: Path | None = None) -> Path:
    """Outside of the watched folder, since others may write there."""
    places = [folder.resolve(), *([procedure.resolve()] if procedure else [])]
    digest = hashlib.sha256(b"\n".join(map(os.fsencode, places))).hexdigest()[:16]
    return state_folder() / "watch" / f"{digest}.jsonl"


class Journal:
    """An append-only file of JSON lines that only this user can change."""

    def __init__(self, path: Path, make_folder: bool = False) -> None:
        self.path = path
        self.done: dict[tuple[str | int, ...], str] = {}
        """Verdict by path, basis, size, mtime; for a failed video also ctime."""
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT
        flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        try:
            if make_folder:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if path.is_symlink():  # where the system has no O_NOFOLLOW
                raise self._refused("is a symbolic link, which stepcut does not follow")
            handle = os.open(path, flags, 0o600)
        except OSError as error:
            if isinstance(error, OutputError):
                raise
            raise self._refused(f"cannot be written ({error.strerror})") from error
        self.file = os.fdopen(handle, "r+b", buffering=0)
        if why := _distrust(os.fstat(handle)):
            self.close()
            raise self._refused(why)
        sync_folder(self.path.parent)
        content = self.file.read()
        if content and not content.endswith(b"\n"):  # a watch was killed while writing
            self.file.write(b"\n")
        for line in content.decode(errors="replace").splitlines():
            with suppress(ValueError, RecursionError):  # an incomplete or a hostile line
                self._take(json.loads(line))

    def lock(self) -> None:
        with suppress(ImportError):  # Windows has no such locks
            import fcntl

            try:
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise OutputError(
                    f"{self.path}: another watch uses this journal. End it, or use another "
                    "journal with --journal FILE."
                ) from error
            except OSError:
                pass  # some network disks have no locks

    def write(self, entry: Mapping[str, Any]) -> None:
        with output_errors(self.path):
            self.file.write(json.dumps({"time": wall_clock(), **entry}).encode() + b"\n")
            os.fsync(self.file.fileno())
        self._take(entry)

    def close(self) -> None:
        self.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take(self, entry: Mapping[str, Any]) -> None:
        with suppress(KeyError, TypeError):  # another kind of line
            stamp = tuple(entry["stamp"])
            if len(stamp) > 2:  # otherwise the line is damaged
                self.done[stamp] = str(entry["verdict"])

    def _refused(self, why: str) -> OutputError:
        return OutputError(f"{self.path}: the journal {why}. Name another with --journal FILE.")


def _distrust(state: os.stat_result) -> str:
    if not stat.S_ISREG(state.st_mode) or is_hole(state):
        return "is not a regular file"
    if sys.platform == "win32":
        return ""
    if state.st_uid != os.geteuid():
        return "belongs to another user, who could hide videos from the watch"
    if state.st_nlink != 1:
        return "has a second name (a hard link), whose file it would change"
    if state.st_mode & 0o022:
        return "can be changed by other users (chmod 600 prevents that)"
    return ""


def stamp_of(path: Path) -> Stamp | None:
    try:
        state = path.stat()
    except OSError:
        return None
    stamp = (state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    return stamp if stat.S_ISREG(state.st_mode) else None


class Arrivals:
    """Videos below a `folder` that the journal lacks on a `basis`, such as a fingerprint."""

    def __init__(
        self,
        folder: Path,
        journal: Journal,
        settle: float = 5.0,
        basis: Callable[[], str] = str,
        suffixes: Collection[str] = VIDEO_SUFFIXES,
    ) -> None:
        self.folder, self.settle, self.journal = folder, settle, journal
        self.basis, self.suffixes = basis, suffixes
        self.seen: dict[tuple[Path, Stamp], float] = {}
        self.running: dict[str, list[tuple[Path, Stamp]]] = {}

    def ready(self) -> Iterator[tuple[Path, Stamp]]:
        now, waiting = time.monotonic(), self.waiting()
        self.seen = {each: self.seen.get(each, now) for each in waiting}
        for path, stamp in waiting:
            # The clock of a camera or of another machine may be ahead of this one.
            still = time.monotonic() - self.seen[path, stamp]
            if time.time_ns() - stamp[1] < self.settle * 1e9 and still < self.settle:
                continue
            if stamp_of(path) == stamp:  # it did not change while others were checked
                yield path, stamp

    def finish(self, path: Path, stamp: Stamp, record: Mapping[str, Any]) -> None:
        # A failed video is tried again when anything changes, including its permissions.
        version = stamp if "error" in record else stamp[:2]
        done = (str(path.absolute()), self.basis(), *version)
        self.journal.write({"stamp": done, **record})

    def waiting(self) -> list[tuple[Path, Stamp]]:
        found = [(path, stamp) for path, stamp, verdict in self._videos() if not verdict]
        return sorted(found, key=lambda each: each[1][1])

    def verdicts(self) -> list[str]:
        return [verdict for _, _, verdict in self._videos() if verdict]

    def _videos(self) -> Iterator[tuple[Path, Stamp, str]]:
        basis, done = self.basis(), self.journal.done
        # Includes folders that look like a procedure, so that such files cannot hide a video.
        for path in map(Path, map(str, all_files(self.folder, procedures=True))):
            # Their model.safetensors and loss.csv are not recordings.
            fits = path.suffix.lower() in self.suffixes and path.name not in OURS
            if fits and not path.name.startswith(".") and (stamp := stamp_of(path)):
                whole = (str(path.absolute()), basis, *stamp)
                yield path, stamp, done.get(whole) or done.get(whole[:4]) or ""


class Watching:
    """Check new videos of all procedures; a problem with one stops no other."""

    def __init__(self, workspace: Workspace, settle: float = SETTLED) -> None:
        self.workspace, self.settle = workspace, settle
        self.problems: dict[Path, str] = {}
        self._watched: dict[Path, Arrivals] = {}
        self._loop = Loop(self.look, EVERY)
        self.open = self._loop.open

    def close(self) -> None:
        self._loop.close()
        for arrivals in self._watched.values():
            arrivals.journal.close()

    def look(self) -> None:
        if self.workspace.files.closed:
            return
        folders = self.workspace.folders()
        for gone in self._watched.keys() - set(folders):
            self._watched.pop(gone).journal.close()
        for procedure in folders:
            try:
                problems = self._look_at(procedure)
            except Exception as error:
                problems = [" ".join(in_words(error).split())]
            before, arrivals = self.problems.get(procedure, ""), self._watched.get(procedure)
            for problem in problems:
                if problem not in before.splitlines() and arrivals is not None:
                    with suppress(OSError):
                        arrivals.journal.write({"procedure": str(procedure), "problem": problem})
            self.problems[procedure] = "\n".join(problems)

    def _look_at(self, procedure: Path) -> list[str]:
        """Return why some files of one procedure are not checked."""
        checks, jobs, files = Checks(procedure), self.workspace.jobs, self.workspace.files
        folder, before = checks.watched, self._watched.get(procedure)
        if before is not None and before.folder != folder:
            self._watched.pop(procedure).journal.close()
        if folder is None:
            return []
        if not files.holds(folder):
            raise OptionError(f"{folder}: this watched folder is not in the folder of the app.")
        if procedure not in self._watched:
            journal = Journal(journal_of(folder, procedure), make_folder=True)
            try:
                journal.lock()
            except OutputError:
                journal.close()
                raise
            self._watched[procedure] = Arrivals(folder, journal, self.settle)
        arrivals = self._watched[procedure]
        for name in list(arrivals.running):
            job = jobs.get(name)
            if job is None or job.is_finished:
                for path, stamp in arrivals.running.pop(name):
                    arrivals.finish(path, stamp, _result(job, path, checks))
        if not folder.is_dir():
            raise OptionError(f"{folder}: this watched folder does not exist. Create it again.")
        read_config(procedure)  # a damaged procedure cannot check
        busy = {path for started in arrivals.running.values() for path, _ in started}
        fresh, refused = list[tuple[Path, Stamp]](), list[str]()
        for path, stamp in arrivals.ready():
            if not files.holds(path):
                why = "is a link that leaves the folder of the app; it is not checked."
                refused.append(f"{path.name} {why}")
            elif path not in busy:
                fresh.append((path, stamp))
        if fresh:
            viewer = self.workspace.viewer(self.workspace.id_of(procedure))
            title = procedure.name.removesuffix(".proc") if viewer is None else viewer.title
            paths = [str(path.resolve()) for path, _ in fresh]
            args = {"folder": str(procedure), "trust": self.workspace.trust, "videos": paths}
            arrivals.running[jobs.start("check", args, procedure, title).id] = fresh
        return refused


def _result(job: Job | None, path: Path, checks: Checks) -> dict[str, Any]:
    whole, record = str(path.resolve()), {"path": str(path)}
    state = job.state if job else {"state": "cancelled"}
    error = (job.result or {}).get("failed", {}).get(whole) if job else None
    if state["state"] != "done":
        error = state.get("error") or "the check was cancelled."
    if error:
        return {**record, "verdict": "error", "error": error}
    report = next((video.report for video in checks.all() if video.path == whole), {})
    return {**record, "verdict": str(report.get("verdict", "checked"))}
