"""The process of one job: `python -m stepcut.show.viewer.worker FOLDER` does what its job.json says."""

import contextlib
import os
import signal
import sys
import time
from pathlib import Path

from filelock import FileLock, Timeout

from stepcut.errors import in_words
from stepcut.files.atomic import write_json
from stepcut.progress import Event
from stepcut.show.viewer.jobs import Job

EVERY = 0.25
"""Seconds between two reports of progress."""


class Terminated(BaseException):
    """SIGTERM: the job was cancelled, or the server ends."""


def run(folder: Path) -> None:
    """Do the job in this folder, unless another process does it already."""
    job = Job(folder)
    with contextlib.suppress(Timeout), FileLock(folder / "lock", timeout=0):
        signal.signal(signal.SIGTERM, _terminate)
        starts = int(job.state.get("starts", 0)) + 1
        job.write_state("running", pid=os.getpid(), starts=starts, share=0.0, stage="", item="")
        try:
            from stepcut.show.viewer.tasks import TASKS  # what it imports may take a while

            result = TASKS[job.kind](job.request["args"], _Progress(job))
            write_json(folder / "result.json", result)
            job.write_state("done", share=1.0)
        except Terminated:
            job.write_state("cancelled" if job.is_cancelled else "waiting", starts=starts - 1)
        except Exception as error:  # whatever it is, the page must hear that the work is over
            job.write_state("failed", error=" ".join(in_words(error).split()))


class _Progress:
    """A hook that writes down how far the job is, a few times a second."""

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


if __name__ == "__main__":
    with contextlib.suppress(AttributeError, OSError):
        os.nice(5)  # the page must stay quick
    run(Path(sys.argv[1]))
    # At once: a thread inside the decoder or the backbone would die of Python's own end, noisily.
    os._exit(0)
