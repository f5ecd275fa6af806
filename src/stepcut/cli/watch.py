"""`stepcut watch`: each new video of a folder is checked once it has stopped growing; a broken one is told."""

import argparse
import json
import os
import stat
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stepcut.cli import say
from stepcut.errors import OptionError, OutputError, in_words
from stepcut.features.find import all_files
from stepcut.files.addresses import Address, as_path, files_below, version
from stepcut.files.atomic import output_errors
from stepcut.files.names import VIDEO_SUFFIXES
from stepcut.procedure.procedure import Procedure, load

JOURNAL = ".stepcut-watch.jsonl"
"""What has been checked, in the folder itself, so that a watch that starts again begins where it ended."""
Stamp = tuple[int, int, int]
"""Bytes; in nanoseconds the time of change, and that of a change of rights, or of contents under an old date."""


def run(args: argparse.Namespace) -> int:
    """Look, check, tell; the exit code is that of `stepcut check` of the same videos."""
    if args.webhook is not None:
        check_webhook(args.webhook)
    procedures = reopen(args.procedure, args.trust)
    next(procedures)  # one that is not there is told before any video

    def check(path: Path) -> dict[str, Any]:
        return next(procedures).check(path, args.device).to_json()

    journal = Path(args.journal) if args.journal else None
    watch, codes = Watch(Path(args.folder), check, args.settle, journal), [0]
    with alone(watch.journal), suppress(KeyboardInterrupt):  # the only end of a watch
        while True:
            for record in watch.poll():
                codes.append(
                    2
                    if "error" in record
                    else 3
                    if record["other_task"]
                    else 0
                    if record["ok"]
                    else 1
                )
                print(json.dumps(record, ensure_ascii=False), flush=True)
                if args.webhook and (trouble := post(args.webhook, record)):
                    say(trouble)
            if args.once and not watch.waiting():
                break
            time.sleep(args.every)
    return 2 if 2 in codes else max(codes)


def reopen(place: str, trust: bool) -> Iterator[Procedure]:
    """The procedure at `place`, with `trust` as `load` has it, as often as it is asked for: read again when it changed.

    Where it cannot be read again, that is told, and what was read before stays.
    """
    folder, seen, procedure = as_path(place), None, None
    while True:
        try:
            if isinstance(folder, Address):
                stamps: list[Any] = [version(file) for file in files_below(folder)]
            else:
                stamps = [(file.name, stamp_of(file)) for file in sorted(folder.glob("*"))]
            if seen != (seen := stamps):
                procedure = load(folder, trust=trust)
                if procedure.untaught:
                    say(procedure.untaught)
        except Exception as error:
            if procedure is None:
                raise
            say(f"{in_words(error)} Until it can be read again, it is used as it was.")
        assert procedure is not None
        yield procedure


@contextmanager
def alone(journal: Path) -> Iterator[None]:
    """Inside, no other watch has this `journal`: each would check and tell every video."""
    with open(journal, "ab") as file:
        with suppress(ImportError):  # Windows has no such locks
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                told = "another watch is at work with this journal. End it, or name another with --journal FILE"
                raise OutputError(f"{journal}: {told}.") from error
            except OSError:
                pass  # nor have some network disks
        yield


def stamp_of(path: Path) -> Stamp | None:
    """Size, time of change, and time of any change at all, of the file at `path`; None where there is none."""
    try:
        state = path.stat()
    except OSError:
        return None
    return (
        (state.st_size, state.st_mtime_ns, state.st_ctime_ns)
        if stat.S_ISREG(state.st_mode)
        else None
    )


class Watch:
    """The videos of a `folder` and its sub-folders as they arrive: `check` gives a report on each, as plain values,
    once the file has not changed for `settle` seconds, and the `journal` says which are finished. An error is told and
    the watch goes on, unless nothing can be written.
    """

    def __init__(
        self,
        folder: Path,
        check: Callable[[Path], dict[str, Any]],
        settle: float = 5.0,
        journal: Path | None = None,
    ) -> None:
        if not folder.is_dir():
            raise OptionError(f"{folder}: there is no such folder to watch. Make it first.")
        self.folder, self.check, self.settle = folder, check, settle
        self.journal = journal or folder / JOURNAL
        self.seen: dict[tuple[Path, Stamp], float] = {}
        self.done = {tuple(entry["stamp"]) for entry in self._read()}

    def poll(self) -> Iterator[dict[str, Any]]:
        """Check every video that is new and has stopped growing; gives a record for each, written down first."""
        now, waiting = time.monotonic(), self.waiting()
        self.seen = {each: self.seen.get(each, now) for each in waiting}
        for path, stamp in waiting:
            # The clock of a camera or of another machine may be ahead of ours.
            still = time.monotonic() - self.seen[path, stamp]
            if time.time_ns() - stamp[1] < self.settle * 1e9 and still < self.settle:
                continue
            if stamp_of(path) != stamp:  # it grew, or went, while others were checked
                continue
            began = time.monotonic()
            try:
                found = self.check(path)
            except OSError:  # a full disk is not the video's fault
                raise
            except Exception as error:
                if stamp_of(path) != stamp:
                    continue
                found = {"video": path.stem, "error": in_words(error)}
            record = {**found, "path": str(path), "took": round(time.monotonic() - began, 3)}
            # One that failed is tried again when anything of it changes, as its rights.
            done = (str(path.absolute()), *(stamp if "error" in record else stamp[:2]))
            self.done.add(done)
            with output_errors(self.journal), open(self.journal, "a", encoding="utf-8") as file:
                file.write(json.dumps({"stamp": done, **record}) + "\n")
                file.flush()
                os.fsync(file.fileno())
            yield record

    def waiting(self) -> list[tuple[Path, Stamp]]:
        """The videos that have not been checked as they are now, in the order of arrival."""
        found = []
        for path in map(Path, map(str, all_files(self.folder))):
            if path.suffix.lower() not in VIDEO_SUFFIXES or path.name.startswith("."):
                continue
            stamp = stamp_of(path)
            whole = (str(path.absolute()), *(stamp or ()))
            if stamp is not None and self.done.isdisjoint((whole, whole[:3])):
                found.append((path, stamp))
        return sorted(found, key=lambda each: each[1][1])

    def _read(self) -> Iterator[dict[str, Any]]:
        try:
            with open(
                self.journal, "a+", encoding="utf-8", errors="replace"
            ) as file:  # it will be written to
                file.seek(0)
                text = file.read()
                if text and not text.endswith("\n"):  # a watch was killed while writing
                    file.write("\n")
        except OSError as error:
            raise OutputError(
                f"{self.journal}: the journal cannot be written ({error.strerror}). Name another with --journal FILE."
            ) from error
        for line in text.splitlines():
            try:
                entry = json.loads(line)
                if len(entry["stamp"]) in (3, 4):
                    yield entry
            except (ValueError, KeyError, TypeError):
                continue  # half a line, or none of ours


def check_webhook(address: str) -> None:
    """Refuse a web `address` that nothing can be sent to, before any video; what may be a password is not shown."""
    if "@" in address.partition("://")[2].partition("/")[0]:
        raise OptionError(
            "--webhook holds a user or a password before an @, which is not sent. Give it without them."
        )
    try:
        parts = urlsplit(address)
        fine = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        fine = False
    if not fine or not address.isprintable() or " " in address:
        raise OptionError(
            f"--webhook {address!r} is no web address; it begins with http:// or https://, then a host."
        )


def post(address: str, record: dict[str, Any], patience: float = 10.0) -> str:
    """Send a `record` as JSON to a web `address`, waiting `patience` seconds; gives what went wrong, or nothing."""
    said = [f"{address}: the webhook did not take it (no whole answer in {patience:g} s)."]
    # In a thread: the patience of a connection begins again with every byte that comes.
    sender = threading.Thread(
        target=lambda: said.append(_send(address, record, patience)), daemon=True
    )
    sender.start()
    sender.join(patience)
    return said[-1]


def _send(address: str, record: dict[str, Any], patience: float) -> str:
    request = urllib.request.Request(
        address,
        json.dumps(record).encode(),
        {"Content-Type": "application/json", "User-Agent": "stepcut"},
    )
    try:
        with urllib.request.urlopen(request, timeout=patience):
            return ""
    except (OSError, ValueError, HTTPException) as error:  # the last, where no web server answers
        return f"{address}: the webhook did not take it ({error})."
