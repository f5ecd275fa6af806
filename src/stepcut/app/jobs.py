"""Jobs: slow work in separate processes. Each job is a folder, so it survives page and server.

    job.json     the request, written once by the server
    state.json   the progress, written by the process
    result.json  the result
    cancel       exists once the job is cancelled
    lock         held by the process that runs the job

Interrupted jobs are started again; finished parts come from the cache.
"""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from stepcut.errors import OptionError, in_words
from stepcut.files.atomic import read_json, write_json
from stepcut.files.cache import cache_dir
from stepcut.parallel.engine import isolated
from stepcut.progress import Event

FINISHED = ("done", "failed", "cancelled")
MOST_STARTS = 3
"""A job whose process crashes this often fails."""
KEPT = 50
"""Finished jobs that are kept."""
GRACE = 3.0
"""Seconds that a cancelled process has to stop by itself."""
TICK = 0.1
UPDATE = 0.25
"""Seconds between two progress updates."""
SURE = 2.0
"""Seconds of a stage after which the time that it still takes is estimated."""
_CODE = "from stepcut.app.jobs import main; main(sys.argv[1])"


class Job:
    """One job, read from its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.id = folder, folder.name
        self.request: dict[str, Any] = read_json(folder / "job.json")

    def __repr__(self) -> str:
        return f"<Job {self.id}: {self.kind}, {self.state['state']}>"

    @property
    def kind(self) -> str:
        """learn, teach, check, export, copies or suggest."""
        return str(self.request["kind"])

    @property
    def state(self) -> dict[str, Any]:
        """The latest state that its process wrote."""
        found = _read(self.folder / "state.json") or {"state": "waiting"}
        if self.is_cancelled and found["state"] not in FINISHED:
            found["state"] = "cancelled"
        return found

    @property
    def is_cancelled(self) -> bool:
        return (self.folder / "cancel").exists()

    @property
    def is_finished(self) -> bool:
        return self.state["state"] in FINISHED

    @property
    def result(self) -> Any:
        return _read(self.folder / "result.json")

    def write_state(self, state: str, **more: Any) -> None:
        before = _read(self.folder / "state.json") or {}
        write_json(self.folder / "state.json", {**before, **more, "state": state})

    def to_json(self) -> dict[str, Any]:
        """Return what the page polls."""
        state = self.state
        return {
            "id": self.id,
            **{key: self.request[key] for key in ("kind", "title", "about")},
            "state": state["state"],
            "share": state.get("share", 0.0),
            "left": state.get("left") if state["state"] == "running" else None,
            **{key: state.get(key, "") for key in ("stage", "item", "error")},
            "result": self.result if state["state"] == "done" else None,
        }


class Jobs:
    """The jobs of a folder and everything below it; one job of each kind runs at a time."""

    def __init__(self, about: Path) -> None:
        self.about = about.resolve()
        self.folder = cache_dir() / "jobs"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._read = lru_cache(maxsize=1000)(Job)
        self._lock = threading.RLock()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    # ------------------------------------------------------------------ requests

    def start(self, kind: str, args: Mapping[str, Any], about: Path, title: str) -> Job:
        """Queue a job, or return an identical job that is waiting or running."""
        with self._lock:
            same = {"kind": kind, "args": dict(args), "about": str(about.resolve())}
            for job in self.all():
                if not job.is_finished and same.items() <= job.request.items():
                    return job
            folder = self.folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"
            write_json(folder / "job.json", {**same, "title": title, "created": time.time()})
            self._prune()
            self.tend()
            return self._read(folder)

    def all(self) -> list[Job]:
        """All jobs, oldest first."""
        found = []
        for path in self.folder.glob("*/job.json"):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                job = self._read(path.parent)
                if Path(job.request["about"]).is_relative_to(self.about):
                    found.append(job)
        return sorted(found, key=lambda job: job.request["created"])

    def get(self, name: str) -> Job | None:
        """The job of this name, or None."""
        return next((job for job in self.all() if job.id == name), None)

    def cancel(self, job: Job) -> None:
        """Stop a job; finished parts are kept, and it can be resumed."""
        if job.is_finished:
            raise OptionError(f"this job is {job.state['state']} and cannot be cancelled.")
        with self._lock:
            (job.folder / "cancel").touch()
            self._signal(job, signal.SIGTERM)

    def resume(self, job: Job) -> None:
        """Continue a job that was cancelled or has failed."""
        if job.state["state"] not in ("cancelled", "failed"):
            raise OptionError(f"this job is {job.state['state']} and cannot be resumed.")
        with self._lock:
            job.write_state("waiting", starts=0, error="")
            (job.folder / "cancel").unlink(missing_ok=True)
            self.tend()

    def forget(self, job: Job) -> None:
        """Remove a finished job from the list."""
        if not job.is_finished:
            raise OptionError(f"this job is {job.state['state']}. Cancel it first.")
        until = time.monotonic() + GRACE  # the process may still be exiting
        while self._is_alive(job):
            if time.monotonic() > until:
                raise OptionError("this job is still stopping. Try again in a moment.")
            time.sleep(TICK)
        shutil.rmtree(job.folder, ignore_errors=True)

    # ------------------------------------------------------------------ processes

    def open(self) -> None:
        """Run jobs until `close`, including those of an earlier server."""
        self._ending.clear()
        self._thread = threading.Thread(target=self._run, daemon=True, name="stepcut-jobs")
        self._thread.start()

    def close(self) -> None:
        """Stop the processes; their jobs continue when a server starts again."""
        self._ending.set()
        if self._thread is not None:
            self._thread.join()
        for process in self._processes.values():
            process.terminate()
        end = time.monotonic() + GRACE
        for process in self._processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, end - time.monotonic()))
            process.kill()
            process.wait()
            with contextlib.suppress(AttributeError, OSError):  # its children
                os.killpg(process.pid, signal.SIGKILL)

    def tend(self) -> None:
        """Start waiting jobs, kill cancelled ones that go on, and fail jobs that keep crashing."""
        with self._lock:
            if self._ending.is_set():
                return
            jobs = self.all()
            alive = [job for job in jobs if self._is_alive(job)]
            for job in alive:
                with contextlib.suppress(OSError):  # it was resumed
                    if time.time() - (job.folder / "cancel").stat().st_mtime > GRACE:
                        self._signal(job, getattr(signal, "SIGKILL", signal.SIGTERM))
            busy = {job.kind for job in alive}
            for job in jobs:
                if job in alive or job.kind in busy or job.is_finished:
                    continue
                if job.state.get("starts", 0) >= MOST_STARTS:
                    job.write_state("failed", error="The process crashed several times.")
                    continue
                busy.add(job.kind)
                self._processes[job.id] = subprocess.Popen(
                    isolated(_CODE, str(job.folder)),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C stops the server, which stops the process
                )

    def _run(self) -> None:
        while not self._ending.wait(TICK):
            with contextlib.suppress(OSError):  # such as a full disk; try again later
                self.tend()

    def _is_alive(self, job: Job) -> bool:
        """Whether a process of this or another server runs the job."""
        process = self._processes.get(job.id)
        if process is not None:
            if process.poll() is None:
                return True
            del self._processes[job.id]
        if job.state.get("pid") is None:
            return False
        try:
            with FileLock(job.folder / "lock", timeout=0):
                return False
        except Timeout:
            return True

    def _signal(self, job: Job, number: int) -> None:
        """Send a signal to the process of a job, if there is one."""
        if self._is_alive(job):
            process = self._processes.get(job.id)
            with contextlib.suppress(OSError):
                os.kill(process.pid if process else int(job.state["pid"]), number)

    def _prune(self) -> None:
        """Delete finished jobs that a later one of the same kind follows, and the oldest."""
        jobs = self.all()
        last = {(job.kind, job.request["about"]): job for job in jobs}
        finished = [job for job in jobs if job.is_finished]
        for place, job in enumerate(finished):
            # What could not be copied is known from all earlier jobs.
            outdated = job.kind != "copies" and last[job.kind, job.request["about"]] is not job
            if outdated or place < len(finished) - KEPT:
                shutil.rmtree(job.folder, ignore_errors=True)


def _read(path: Path) -> Any:
    with contextlib.suppress(OSError, ValueError):
        return read_json(path)
    return None


# ---------------------------------------------------------------------- the process of a job


class Terminated(BaseException):
    """SIGTERM: the job was cancelled, or the server stops."""


def run(folder: Path) -> None:
    """Run the job in this folder, unless another process runs it already."""
    job = Job(folder)
    with contextlib.suppress(Timeout), FileLock(folder / "lock", timeout=0):
        signal.signal(signal.SIGTERM, _terminate)
        starts = int(job.state.get("starts", 0)) + 1
        job.write_state("running", pid=os.getpid(), starts=starts, share=0.0, stage="", item="")
        try:
            from stepcut.app.tasks import TASKS  # slow imports

            args = {**job.request["args"], "job": job.id}
            result = TASKS[job.kind](args, Progress(job))
            write_json(folder / "result.json", result)
            job.write_state("done", share=1.0, pid=None)
        except Terminated:  # the file `cancel` says whether it continues
            job.write_state("waiting", starts=starts - 1, pid=None)
        except Exception as error:  # the page must always see that the job has ended
            job.write_state("failed", error=" ".join(in_words(error).split()), pid=None)


class Progress:
    """Progress hook that writes the state of the job a few times per second."""

    def __init__(self, job: Job) -> None:
        self.job, self.stage = job, ""
        self.last = self.began = self.first = 0.0

    def __call__(self, event: Event) -> None:
        now = time.monotonic()
        share = min(event.done / event.total, 1.0) if event.total else 0.0
        if event.stage != self.stage:
            self.stage, self.began, self.first = event.stage, now, share
        elif now - self.last < UPDATE:
            return
        self.last, spent = now, now - self.began
        left = None  # seconds that this stage still takes
        if share > self.first and spent > SURE:
            left = round(spent * (1 - share) / (share - self.first))
        more = {"share": round(share, 3), "stage": event.stage, "item": event.item}
        self.job.write_state("running", **more, left=left)


def _terminate(*_: object) -> None:
    raise Terminated


def main(folder: str) -> None:
    """Be the process of the job in this folder."""
    with contextlib.suppress(AttributeError, OSError):
        os.nice(5)  # keeps the page responsive
    run(Path(folder))
    # Exit at once: decoder threads would crash during a normal interpreter shutdown.
    os._exit(0)
