"""Slow work for the page, one piece after another in the background, with progress to ask for."""

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from stepcut.errors import in_words
from stepcut.progress import Event, Hook

Work = Callable[[Hook], Any]


@dataclass
class Job:
    """How one piece of work stands."""

    state: str = "waiting"
    """waiting, running, done or failed."""
    share: float = 0.0
    error: str = ""
    result: Any = None

    def to_json(self) -> dict[str, Any]:
        """What the page asks for again and again."""
        return {"state": self.state, "share": round(self.share, 3), "error": self.error}


class Jobs:
    """Work by key; asking twice for the same key does it once, unless it failed."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="stepcut-view")
        self._jobs: dict[object, Job] = {}
        self._lock = threading.Lock()
        self._ending = threading.Event()

    def start(self, key: object, work: Work, again: bool = False) -> Job:
        """Queue the work, or give the job that does it already; with `again`, also when it was done before."""
        with self._lock:
            job = self._jobs.get(key)
            if job is None or job.state == "failed" or (again and job.state == "done"):
                job = self._jobs[key] = Job()
                self._pool.submit(self._run, job, work)
            return job

    def get(self, key: object) -> Job | None:
        """The job of this key, when there is one."""
        return self._jobs.get(key)

    def close(self) -> None:
        """Stop what runs at its next sign of progress, and forget what waits."""
        self._ending.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _run(self, job: Job, work: Work) -> None:
        def hook(event: Event) -> None:
            if self._ending.is_set():
                raise CancelledError  # the server ends
            job.share = min(event.done / event.total, 1.0) if event.total else 0.0

        job.state = "running"
        try:
            job.result, job.state = work(hook), "done"
        except Exception as error:  # whatever it is, the page must hear that the work is over
            job.error, job.state = " ".join(in_words(error).split()), "failed"
