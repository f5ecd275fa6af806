"""The process of one job."""

import contextlib
import os
import signal
import time
from pathlib import Path

from filelock import FileLock, Timeout

from stepcut.app.jobs import Job
from stepcut.errors import in_words
from stepcut.files.atomic import write_json
from stepcut.progress import Event

EVERY = 0.25
"""Seconds between two progress updates."""


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

            result = TASKS[job.kind](job.request["args"], _Progress(job))
            write_json(folder / "result.json", result)
            job.write_state("done", share=1.0)
        except Terminated:
            job.write_state("cancelled" if job.is_cancelled else "waiting", starts=starts - 1)
        except Exception as error:  # the page must always see that the job has ended
            job.write_state("failed", error=" ".join(in_words(error).split()))


class _Progress:
    """Progress hook that writes the state of the job a few times per second."""

    def __init__(self, job: Job) -> None:
        self.job, self.last, self.stage = job, 0.0, ""

    def __call__(self, event: Event) -> None:
        now = time.monotonic()
        if now - self.last < EVERY and event.stage == self.stage:
            return
        self.last, self.stage = now, event.stage
        share = min(event.done / event.total, 1.0) if event.total else 0.0
        self.job.write_state("running", share=round(share, 3), stage=event.stage, item=event.item)


def _terminate(*_: object) -> None:
    raise Terminated


def main(folder: str) -> None:
    """Be the process of the job in this folder."""
    with contextlib.suppress(AttributeError, OSError):
        os.nice(5)  # keeps the page responsive
    run(Path(folder))
    # Exit at once: decoder threads would crash during a normal interpreter shutdown.
    os._exit(0)
