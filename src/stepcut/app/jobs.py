"""Jobs: slow work in separate processes. Each job is a folder, so it survives page and server.

job.json     the request, written once by the server
state.json   the progress, written by the process
result.json  the result
cancel       exists once the job is cancelled
lock         held by the process that runs the job
"""

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from stepcut.errors import OptionError, in_words
from stepcut.files import cache_dir, read_json, write_json
from stepcut.parallel.engine import isolated
from stepcut.progress import Event

FINISHED = ("done", "failed", "cancelled")
MOST_STARTS = 3
KEPT = 7 * 86_400.0
GRACE = 3.0
TICK = 0.1
UPDATE = 0.25
_CODE = "from stepcut.app.jobs import main; main(sys.argv[1])"


class Job:
    def __init__(self, folder: Path) -> None:
        self.folder, self.id = folder, folder.name
        self.request: dict[str, Any] = read_json(folder / "job.json")
        self.kind = str(self.request["kind"])

    @property
    def state(self) -> dict[str, Any]:
        found = self.read("state.json") or {"state": "waiting"}
        if (self.folder / "cancel").exists() and found["state"] not in FINISHED:
            found["state"] = "cancelled"
        return found

    @property
    def is_finished(self) -> bool:
        return self.state["state"] in FINISHED

    @property
    def result(self) -> Any:
        return self.read("result.json")

    def read(self, name: str) -> Any:
        with contextlib.suppress(OSError, ValueError):
            return read_json(self.folder / name)
        return None

    def write_state(self, state: str, **more: Any) -> None:
        before = self.read("state.json") or {}
        write_json(self.folder / "state.json", {**before, **more, "state": state})

    def refuse(self, advice: str) -> OptionError:
        return OptionError(f"this job is {self.state['state']}{advice}")

    def to_json(self) -> dict[str, Any]:
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


class Loop:
    def __init__(self, work: Callable[[], None], pause: float) -> None:
        self.work, self.pause, self.ending = work, pause, threading.Event()
        self.thread: threading.Thread | None = None

    def open(self) -> None:
        self.ending.clear()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.ending.set()
        if self.thread is not None:
            self.thread.join()

    def _run(self) -> None:
        while not self.ending.wait(self.pause):
            with contextlib.suppress(OSError):  # such as a full disk; try again later
                self.work()


class Jobs:
    """The jobs of a folder and everything below it; one job of each kind runs at a time."""

    def __init__(self, about: Path) -> None:
        self.about = about.resolve()
        self.folder = cache_dir() / "jobs"
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._read = lru_cache(maxsize=1000)(Job)
        self._lock = threading.RLock()
        self._loop = Loop(self.tend, TICK)

    # ---------- requests

    def start(self, kind: str, args: Mapping[str, Any], about: Path, title: str) -> Job:
        """Queue a job, or return an identical job that is not finished."""
        with self._lock:
            same = {"kind": kind, "args": dict(args), "about": str(about.resolve())}
            for job in self.all():
                if not job.is_finished and same.items() <= job.request.items():
                    return job
            folder = self.folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(4)}"
            last = max((job.request["created"] for job in self.all()), default=0.0)
            created = max(time.time(), last + 1e-3)  # in order, even if the clock was set back
            write_json(folder / "job.json", {**same, "title": title, "created": created})
            self._prune()
            self.tend()
            return self._read(folder)

    def all(self) -> list[Job]:
        found = []
        for path in self.folder.glob("*/job.json"):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                job = self._read(path.parent)
                if Path(job.request["about"]).is_relative_to(self.about):
                    found.append(job)
        return sorted(found, key=lambda job: job.request["created"])

    def get(self, name: str) -> Job | None:
        return next((job for job in self.all() if job.id == name), None)

    def cancel(self, job: Job) -> None:
        if job.is_finished:
            raise job.refuse(" and cannot be cancelled.")
        with self._lock:
            (job.folder / "cancel").touch()
            self._signal(job, signal.SIGTERM)

    def resume(self, job: Job) -> None:
        if job.state["state"] not in ("cancelled", "failed"):
            raise job.refuse(" and cannot be resumed.")
        with self._lock:
            job.write_state("waiting", starts=0, error="")
            (job.folder / "cancel").unlink(missing_ok=True)
            self.tend()

    def forget(self, job: Job) -> None:
        if not job.is_finished:
            raise job.refuse(". Cancel it first.")
        until = time.monotonic() + GRACE  # the process may still be exiting
        while self._is_alive(job):
            if time.monotonic() > until:
                raise OptionError("this job is still stopping. Try again in a moment.")
            time.sleep(TICK)
        shutil.rmtree(job.folder, ignore_errors=True)

    # ---------- processes

    def open(self) -> None:
        self._prune()
        self._loop.open()

    def close(self) -> None:
        self._loop.close()
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
            if self._loop.ending.is_set():
                return
            jobs = self.all()
            alive = [job for job in jobs if self._is_alive(job)]
            for job in alive:
                with contextlib.suppress(OSError):  # it was resumed
                    asked = (job.folder / "cancel").stat().st_mtime
                    if abs(time.time() - asked) > GRACE:  # the clock may have been set back
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

    def _is_alive(self, job: Job) -> bool:
        """Whether a process of this or another server runs the job."""
        if process := self._processes.get(job.id):
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
        if self._is_alive(job):
            process = self._processes.get(job.id)
            with contextlib.suppress(OSError):
                os.kill(process.pid if process else int(job.state["pid"]), number)

    def _prune(self) -> None:
        jobs = self.all()
        last = {(job.kind, job.request["about"]): job for job in jobs}
        for job in jobs:
            # What could not be copied is known from all earlier jobs.
            followed = job.kind != "copies" and last[job.kind, job.request["about"]] is not job
            old = time.time() - job.request["created"] > KEPT
            if job.is_finished and (followed or old):
                shutil.rmtree(job.folder, ignore_errors=True)


# ---------- the process of a job


class Terminated(BaseException):
    """SIGTERM: the job was cancelled, or the server stops."""


def _terminate(*_: object) -> None:
    raise Terminated


def main(folder: str) -> None:
    with contextlib.suppress(AttributeError, OSError):
        os.nice(5)  # keeps the page responsive
    run(Path(folder))
    # Exit at once: decoder threads would crash during a normal interpreter shutdown.
    os._exit(0)


def run(folder: Path) -> None:
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
    def __init__(self, job: Job) -> None:
        self.job, self.stage, self.last = job, "", 0.0

    def __call__(self, event: Event) -> None:
        now = time.monotonic()
        if event.stage == self.stage and now - self.last < UPDATE:
            return
        self.stage, self.last = event.stage, now
        share = min(event.done / event.total, 1.0) if event.total else 0.0
        left = None if event.left is None else round(event.left)
        about = {"stage": event.stage, "item": event.item, "left": left}
        self.job.write_state("running", share=round(share, 3), **about)
