"""`stepcut watch`: check each new video of a folder once it has stopped growing."""

import argparse
import hashlib
import json
import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from stepcut.app.watching import Arrivals, Journal, journal_of, stamp_of
from stepcut.checking.report import EXIT_CODES
from stepcut.cli import say
from stepcut.cli.check import OPERATIONAL, chosen_limits, worst
from stepcut.cli.main import explain
from stepcut.cli.webhook import Deliveries, check_webhook
from stepcut.errors import OptionError, in_words
from stepcut.features.find import FEATURE_SUFFIXES
from stepcut.features.spec import FeatureSpec
from stepcut.files.addresses import Address, as_path, files_below, version
from stepcut.files.cache import wall_clock
from stepcut.files.names import VIDEO_SUFFIXES
from stepcut.procedure.loading import load
from stepcut.procedure.procedure import Procedure


def run(args: argparse.Namespace) -> int:
    """Scan the folder, check and report until a signal arrives.

    With --once, the exit code is that of `stepcut check` for all videos in the folder, including
    those checked before; otherwise 0. OPERATIONAL if the disk, the journal or the webhook fails.
    """
    if args.webhook is not None:
        check_webhook(args.webhook)
    limits = chosen_limits(args)
    procedures = reopen(args.procedure, args.trust)
    procedure = next(procedures)  # fail before any video if the procedure cannot be opened
    basis = fingerprint(procedure, limits)
    folder = Path(args.folder)
    if not folder.is_dir():
        raise OptionError(
            f"{folder}: this folder to watch does not exist. Create it first.", path=folder
        )

    def check(path: Path) -> dict[str, Any]:
        nonlocal procedure, basis
        if (now := next(procedures)) is not procedure:
            procedure, basis = now, fingerprint(now, limits)
        return procedure.check(path, args.device, **limits).to_json()

    own = args.journal is None
    try:
        with Journal(journal_of(folder) if own else Path(args.journal), own) as journal:
            journal.lock()
            found = suffixes_of(procedure.spec)
            watch = Watch(folder, check, journal, args.settle, lambda: basis, found, args.procedure)
            deliveries = Deliveries(args.webhook) if args.webhook else None
            lost = _watch(watch, deliveries, args.once, args.every)
            verdicts = watch.verdicts() if args.once else []
            if args.once and not verdicts:
                files = ", ".join(["videos", *sorted({*watch.suffixes} - {*VIDEO_SUFFIXES})])
                say(f"{folder}: nothing to check. With this procedure, watch looks for: {files}.")
            code = worst(EXIT_CODES[verdict] for verdict in verdicts)
            return OPERATIONAL if lost else code
    except Exception as error:  # a full disk, a journal that cannot be written, a bug
        if os.environ.get("STEPCUT_DEBUG"):
            raise
        say(explain(error))
        return OPERATIONAL


def _watch(watch: "Watch", deliveries: Deliveries | None, once: bool, every: float) -> bool:
    """Check and deliver until a signal arrives; return whether a delivery was lost.

    With `once`, stop when everything in the folder is done.
    """
    lost = []
    try:
        while True:
            for record in watch.poll():
                print(json.dumps(record, ensure_ascii=False), flush=True)
                if deliveries:
                    deliveries.add(record)
                    lost += _deliver(deliveries, watch.journal)
            if deliveries:
                lost += _deliver(deliveries, watch.journal)
            if once and not watch.waiting() and not (deliveries and deliveries.waiting):
                break
            time.sleep(every)
    except KeyboardInterrupt:  # the normal end of a watch, except with `once`
        if once:
            raise
    finally:
        for _, _, late in deliveries.waiting if deliveries else ():
            lost.append(late["path"])
            watch.journal.write({"undelivered": late["path"], "why": "the watch ended"})
    return bool(lost)


def _deliver(deliveries: Deliveries, journal: Journal) -> list[str]:
    """Send what is due; return the videos whose reports are lost and note them in the journal."""
    lost = []
    for record, trouble, given_up in deliveries.attempt():
        say(f"{trouble} {'This was the last attempt.' if given_up else 'It will be tried again.'}")
        if given_up:
            lost.append(record["path"])
            journal.write({"undelivered": record["path"], "why": trouble})
    return lost


def reopen(place: str, trust: bool) -> Iterator[Procedure]:
    """Yield the procedure at `place`, reloaded whenever it has changed.

    If reloading fails, report it and keep the version loaded before. `trust` goes to `load`.
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
            say(f"{in_words(error)} The version loaded before stays in use.")
        assert procedure is not None
        yield procedure


def fingerprint(procedure: Procedure, limits: Mapping[str, Any]) -> str:
    """Return a hash of what determines a verdict: the procedure and the options."""
    held = [
        procedure.config.fingerprint,
        procedure.expectations.to_json(),
        procedure.expectations.severity.to_json(procedure.model_steps),
        list(map(str, procedure.expectations.rules)),
        sorted(procedure.expectations.mistakes),
        sorted(procedure.expectations.kept),
        sorted(map(str, procedure.document.fine)),
        dict(limits),
    ]
    text = json.dumps(held, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def suffixes_of(spec: FeatureSpec | None) -> Collection[str]:
    """Return the suffixes of videos, and of the files that a procedure was learned from."""
    if spec is None or not spec.of_videos:
        return {*VIDEO_SUFFIXES, *FEATURE_SUFFIXES}
    return VIDEO_SUFFIXES


class Watch(Arrivals):
    """Check the videos of a folder as they arrive.

    `check` returns a report as plain values; it runs once a video is ready. Every record names the
    `procedure`. An error is reported and the watch continues, unless nothing can be written.
    """

    def __init__(
        self,
        folder: Path,
        check: Callable[[Path], dict[str, Any]],
        journal: Journal,
        settle: float = 5.0,
        basis: Callable[[], str] = str,
        suffixes: Collection[str] = VIDEO_SUFFIXES,
        procedure: str = "",
    ) -> None:
        super().__init__(folder, journal, settle, basis, suffixes)
        self.check, self.procedure = check, procedure

    def poll(self) -> Iterator[dict[str, Any]]:
        """Check every video that is ready; yield its record after journaling it."""
        for path, stamp in self.ready():
            began = time.monotonic()
            try:
                found = self.check(path)
            except OSError:  # a full disk is not the video's fault
                raise
            except Exception as error:
                if stamp_of(path) != stamp:
                    continue
                found = {"video": path.stem, "verdict": "error", "error": in_words(error)}
            record = {
                **found,
                "path": str(path),
                "time": wall_clock(),
                "file_time": wall_clock(stamp[1] / 1e9),
                "procedure": self.procedure,
                "took": round(time.monotonic() - began, 3),
            }
            self.finish(path, stamp, record)
            yield record
