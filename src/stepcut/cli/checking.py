"""`stepcut segment`, `check`, `watch` and `guide`: use a procedure on new videos."""

import argparse
import json
import logging
import os
import shutil
import threading
import time
import urllib.request
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from stepcut.app.watching import Arrivals, Journal, journal_of, stamp_of
from stepcut.checking.guide import Alert, Guide, State
from stepcut.checking.report import EXIT_CODES, Report
from stepcut.checking.rules import read_sentences
from stepcut.cli import say
from stepcut.cli.common import ask_procedure
from stepcut.cli.main import explain
from stepcut.errors import OptionError, in_words
from stepcut.features.backbones import load_backbone
from stepcut.features.backbones.runtime import Backbone
from stepcut.features.extract import clip_length, frames_per_row, make_clips
from stepcut.features.spec import FeatureSpec, need_spec
from stepcut.features.video.live import (
    Outage,
    Picture,
    Sample,
    hide_password,
    is_live,
    is_pipe,
    open_samples,
)
from stepcut.files import Address, as_path, files_below, version, wall_clock
from stepcut.files.names import FEATURE_SUFFIXES, VIDEO_SUFFIXES, safe_name
from stepcut.formats import format_to_write, write
from stepcut.order.orders import name_of
from stepcut.procedure.folder import digest
from stepcut.procedure.learning import load, read_outline
from stepcut.procedure.procedure import Procedure
from stepcut.settings import check_number
from stepcut.timeline import Timeline, clock

OPERATIONAL = 5
WORSE = (0, 4, 1, 3, 2)
Record = Mapping[str, Any]


def to_line(record: Record) -> str:
    return json.dumps(record, ensure_ascii=False)


def segment(args: argparse.Namespace) -> int:
    if args.output:
        if len(args.video) > 1 and "{name}" not in args.output:
            raise OptionError(
                f"-o {args.output} is one file for {len(args.video)} videos. "
                "Use {name} for the name of the video, for example -o 'out/{name}.vtt'."
            )
        format_to_write(Path(args.output))  # refuse an unknown suffix before any work
        video, count = Counter(args.video).most_common(1)[0]
        if count > 1:
            raise OptionError(
                f"{video} is listed twice, so one timeline would overwrite the other. List it once."
            )

    def show(video: str, timeline: Timeline) -> None:
        if args.output:
            place = args.output.replace("{name}", str(safe_name(timeline.video or "video")))
            if Path(video).suffix.lower() in VIDEO_SUFFIXES:
                timeline = replace(timeline, video=video)  # ELAN links the video file
            write(place, timeline)
        else:
            print(timeline, flush=True)

    return 2 if ask_procedure(args, "segment", args.video, show)[1] else 0


# ---------- check


def check(args: argparse.Namespace) -> int:
    if note := read_outline(args.procedure).untaught:
        say(note)

    def show(_: str, report: Report) -> None:
        report = report.in_file()
        # A note that concerns all videos is printed once, at the end.
        text = str(report).removesuffix(f"\n  ({report.note})")
        print(to_line(report.to_json()) if args.json else text, flush=True)

    def show_failed(name: str, error: Exception) -> None:
        if args.json:
            failed = {"video": name, "verdict": "error", "error": in_words(error)}
            print(to_line(failed), flush=True)

    limits = chosen_limits(args)
    reports, failed = ask_procedure(args, "check", args.video, show, show_failed, **limits)
    notes = [report.note for _, report in reports if report.note and not args.json]
    for note in dict.fromkeys(notes):
        print(note)
    codes = [report.exit_code for _, report in reports]
    return worst([*codes, EXIT_CODES["error"]] if failed else codes)


def chosen_limits(args: argparse.Namespace) -> dict[str, Any]:
    if args.alarm_at is not None:
        check_number("--alarm-at", args.alarm_at, 0, 1, above=True)
    if args.min_detection is not None:
        check_number("--min-detection", args.min_detection, 0, 1)
    found = {"alarm_at": args.alarm_at, "min_detection": args.min_detection}
    if args.rules is not None:
        if not Path(args.rules).is_file():
            raise OptionError(f"{args.rules}: this file of rules does not exist.")
        found["rules"] = read_sentences(Path(args.rules))
    return found | {"must_find": args.for_}


def worst(codes: Iterable[int]) -> int:
    return max(codes, key=WORSE.index, default=0)


# ---------- watch


def watch(args: argparse.Namespace) -> int:
    """With --once, the exit code is that of `check` for all videos in the folder."""
    if args.webhook is not None:
        check_webhook(args.webhook)
    limits = chosen_limits(args)
    procedures = reopen(args.procedure, args.trust)
    procedure = next(procedures)  # fail before any video if the procedure cannot be opened
    basis = fingerprint(procedure, limits)
    folder = Path(args.folder)
    if not folder.is_dir():
        raise OptionError(f"{folder}: this folder to watch does not exist. Create it first.")

    def check(path: Path) -> dict[str, Any]:
        nonlocal procedure, basis
        if (now := next(procedures)) is not procedure:
            procedure, basis = now, fingerprint(now, limits)
        return procedure.check(path, args.device, **limits).to_json()

    own = args.journal is None
    try:
        with Journal(journal_of(folder) if own else Path(args.journal), own) as journal:
            journal.lock()
            suffixes = suffixes_of(procedure.spec)
            arrivals = Arrivals(folder, journal, args.settle, lambda: basis, suffixes)
            lost = _watch(arrivals, check, args)
            verdicts = arrivals.verdicts() if args.once else []
            if args.once and not verdicts:
                files = ", ".join(["videos", *sorted({*suffixes} - {*VIDEO_SUFFIXES})])
                say(f"{folder}: nothing to check. With this procedure, watch looks for: {files}.")
            return OPERATIONAL if lost else worst(EXIT_CODES[verdict] for verdict in verdicts)
    except Exception as error:  # a full disk, a journal that cannot be written, a bug
        if os.environ.get("STEPCUT_DEBUG"):
            raise
        say(explain(error))
        return OPERATIONAL


def _watch(
    arrivals: Arrivals, check: Callable[[Path], dict[str, Any]], args: argparse.Namespace
) -> bool:
    """Return whether a delivery was lost; the journal has its video."""
    webhook = Webhook(args.webhook) if args.webhook else None
    lost = False

    def note_lost() -> None:
        nonlocal lost
        while webhook and webhook.lost:
            lost = True
            record, why = webhook.lost.pop(0)
            arrivals.journal.write({"undelivered": record["path"], "why": why})

    try:
        while True:
            for record in poll(arrivals, check, args.procedure):
                print(to_line(record), flush=True)
                if webhook:
                    webhook.add(record)
            note_lost()
            if args.once and not arrivals.waiting():
                if webhook:
                    webhook.finish()
                break
            time.sleep(args.every)
    except KeyboardInterrupt:  # the normal end of a watch, except with --once
        if args.once:
            raise
    finally:
        if webhook:
            webhook.lost += [(record, "the watch ended") for _, _, record in webhook.waiting]
            note_lost()
    return lost


def poll(
    arrivals: Arrivals, check: Callable[[Path], dict[str, Any]], procedure: str = ""
) -> Iterator[dict[str, Any]]:
    for path, stamp in arrivals.ready():
        began = time.monotonic()
        try:
            found = check(path)
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
            "procedure": procedure,
            "took": round(time.monotonic() - began, 3),
        }
        arrivals.finish(path, stamp, record)
        yield record


def reopen(place: str, trust: bool) -> Iterator[Procedure]:
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
    """Return a hash of what determines a verdict."""
    expected = procedure.expectations
    held = [
        procedure.config.fingerprint,
        expected.to_json(),
        expected.severity.to_json(procedure.model_steps),
        list(map(str, expected.rules)),
        sorted(expected.mistakes),
        sorted(expected.kept),
        sorted(map(str, procedure.document.fine)),
        dict(limits),
    ]
    return digest(json.dumps(held, sort_keys=True, default=str).encode())


def suffixes_of(spec: FeatureSpec | None) -> Collection[str]:
    if spec is None or not spec.of_videos:
        return {*VIDEO_SUFFIXES, *FEATURE_SUFFIXES}
    return VIDEO_SUFFIXES


# ---------- webhook

RETRY_AFTER = (2.0, 10.0, 60.0)


def check_webhook(address: str) -> None:
    """Refuse an invalid address without showing it, since it may contain secrets."""
    why = ""
    if "@" in address.partition("://")[2].partition("/")[0]:
        why = "contains a user or a password before an @, which stepcut does not send. Remove them."
    try:
        parts = urlsplit(address)
        fine = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        fine = False
    if not fine or not address.isascii() or not address.isprintable() or " " in address:
        why = why or ("is not a web address. Use http:// or https:// and a host, without spaces.")
    if why:
        raise OptionError(f"--webhook {why}", setting="webhook")


class Webhook(threading.Thread):
    def __init__(self, address: str) -> None:
        super().__init__(name="stepcut-webhook", daemon=True)
        self.address = address
        self.waiting: list[tuple[float, int, Record]] = []
        """Time of the next attempt, attempts so far, record."""
        self.lost: list[tuple[Record, str]] = []
        self._ending = threading.Event()
        self.start()

    def add(self, record: Record) -> None:
        self.waiting.append((time.monotonic(), 0, record))

    def finish(self) -> None:
        self._ending.set()
        self.join()

    def run(self) -> None:
        while self.waiting or not self._ending.is_set():
            for one in [one for one in self.waiting if one[0] <= time.monotonic()]:
                _, tried, record = one
                if trouble := post(self.address, record):
                    last = tried == len(RETRY_AFTER)
                    more = "This was the last attempt." if last else "It will be tried again."
                    say(f"{trouble} {more}")
                    if last:
                        self.lost.append((record, trouble))
                    else:
                        then = time.monotonic() + RETRY_AFTER[tried]
                        self.waiting.append((then, tried + 1, record))
                self.waiting.remove(one)
            time.sleep(0.05)


def post(address: str, record: Record, patience: float = 10.0) -> str:
    """Return the error, or an empty string."""
    parts = urlsplit(address)
    shown = f"{parts.scheme}://{parts.netloc}"  # the rest may be a secret
    found = [f"no complete answer within {patience:g} s"]
    # In a thread, because the timeout of a connection restarts with every received byte.
    sender = threading.Thread(
        target=lambda: found.append(_send(address, record, patience)), daemon=True
    )
    sender.start()
    sender.join(patience)
    return found[-1] and f"{shown}: the webhook was not delivered ({found[-1]})."


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    # A redirected POST would become an empty GET.

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _send(address: str, record: Record, patience: float) -> str:
    headers = {"Content-Type": "application/json", "User-Agent": "stepcut"}
    request = urllib.request.Request(address, json.dumps(record).encode(), headers)
    opener = urllib.request.build_opener(_NoRedirects)
    try:
        with opener.open(request, timeout=patience):
            return ""
    except HTTPError as error:
        error.close()
        why = f"it answered {error.code} {error.reason}".rstrip()
        if 300 <= error.code < 400:
            why += "; stepcut does not follow redirects, so use the final address with --webhook"
        return why
    except URLError as error:
        return f"{error.reason}"
    except (OSError, HTTPException) as error:  # the last, where no web server answers
        return f"{error}"


# ---------- guide

HOME, CLEAR = "\x1b[H", "\x1b[2J"
REST_OF_LINE, REST_OF_SCREEN = "\x1b[K", "\x1b[J"
HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
BAR = 24
KEPT = 4
SHOWN = 0.005


def guide(args: argparse.Namespace) -> int:
    if args.webhook is not None:
        check_webhook(args.webhook)
    title = hide_password(args.source)
    screen = Screen(title) if args.view else None
    if screen is not None:
        # The view already shows messages of the source; printing them would break its layout.
        logging.getLogger("stepcut").addHandler(logging.NullHandler())

    def lost(outage: Outage) -> None:
        text = json.dumps(outage.to_json()) + "\n" if screen is None else screen.wait(outage)
        print(text, end="", flush=True)

    procedure = load(args.procedure, trust=args.trust)
    for note in filter(None, (procedure.untaught, procedure.guide().note)):
        say(note)
    waits = {"patience": args.patience, "stall": args.stall, "lost": lost}
    states = follow(procedure, args.source, args.realtime, args.device, **waits)
    webhook = Webhook(args.webhook) if args.webhook else None
    with ExitStack() as stack:
        if webhook:
            stack.callback(webhook.finish)
        if screen is not None:  # the last view stays above the cursor
            stack.callback(print, SHOW_CURSOR, end="", flush=True)
        try:
            for state in states:
                record = state.to_json()
                text = to_line(record) + "\n" if screen is None else screen.draw(state)
                print(text, end="", flush=True)
                if webhook and state.alerts:
                    place = {"source": title, "procedure": args.procedure}
                    webhook.add({"clock": wall_clock(), **place, **record})
        except KeyboardInterrupt:
            pass  # the normal end of a live source
    return OPERATIONAL if webhook and webhook.lost else 0


def follow(
    procedure: Procedure, source: str, realtime: bool = False, device: str = "auto", **waits: Any
) -> Iterator[State]:
    guide = procedure.guide()
    live = is_live(source) or is_pipe(source)
    if not live and Path(source).suffix.lower() in FEATURE_SUFFIXES:
        for number, row in enumerate(procedure.features(source).rows):
            yield guide.push(number / guide.rate, row)
    else:
        backbone = load_backbone(need_spec(procedure.spec), device)
        yield from follow_pictures(guide, source, procedure.rate, backbone, realtime, **waits)
    if (last := guide.end()).alerts:
        yield last


def follow_pictures(
    guide: Guide,
    source: str,
    rate: Fraction,
    backbone: Backbone,
    realtime: bool = False,
    **waits: Any,
) -> Iterator[State]:
    """With a clip model, states are half a clip late."""
    length, per_row = clip_length(backbone), frames_per_row(backbone, rate)
    waiting: deque[Sample] = deque()  # until their clips are complete
    notes: list[str] = []

    def pictures(samples: Iterator[Sample]) -> Iterator[Picture]:
        for number, sample in enumerate(samples):
            waiting.extend([sample] if number % per_row == 0 else [])
            notes.extend(sample.notes)
            yield sample.picture

    with open_samples(source, rate * per_row, backbone.size, realtime, **waits) as samples:
        for clip in make_clips(pictures(samples), length, per_row):
            sample, alerts = waiting.popleft(), [Alert("source", note) for note in notes]
            notes.clear()
            row = backbone.extract(clip if length == 1 else clip[None])[0]
            yield guide.push(sample.time, row, sample.skipped, alerts)


class Screen:
    def __init__(self, title: str) -> None:
        self.title = title
        self.alerts: list[tuple[float, Alert]] = []
        self.state: State | None = None
        self._start = HIDE_CURSOR + CLEAR + HOME

    def draw(self, state: State) -> str:
        self.state = state
        self.alerts = [*self.alerts, *((state.time, alert) for alert in state.alerts)][-KEPT:]
        return self._show(self.lines(state))

    def wait(self, outage: Outage) -> str:
        waiting = f"  no frames for {outage.waited:.0f} s ({outage.reason}); waiting"
        last = [self.title] if self.state is None else self.lines(self.state)
        return self._show([last[0], waiting, *last[1:]])

    def _show(self, lines: list[str]) -> str:
        start, self._start = self._start, HOME
        width, height = shutil.get_terminal_size()
        # A line that wraps, or one too many, would shift the others.
        cut = [x if len(x) <= width else x[: max(width - 1, 0)] + "…" for x in lines[: height - 1]]
        return start + "".join(f"{line}{REST_OF_LINE}\n" for line in cut) + REST_OF_SCREEN

    def lines(self, state: State) -> list[str]:
        now = f"  now   {_bar(state.confidence)}  {state.name}"
        lines = [f"{clock(state.time)}  {self.title}", "", now, ""]
        likely = [(step, chance) for step, chance in state.next[:3] if chance >= SHOWN]
        for place, (step, chance) in enumerate(likely):
            head = "" if place else "next"
            lines.append(f"  {head:<5} {_bar(chance)}  {name_of(step, state.names)}")
        if not likely:
            lines.append("  next  all steps are done")
        done = ", ".join(name_of(step, state.names) for step in state.done)
        lines += ["", f"  done  {done or '–'}"]
        if state.skipped:
            samples = "sample" if state.skipped == 1 else "samples"
            lines.append(f"        {state.skipped} {samples} skipped to keep up")
        alerts = (f"  ! {clock(time)}  {alert.reason}" for time, alert in reversed(self.alerts))
        return [*lines, "", *alerts]


def _bar(share: float) -> str:
    full = round(share * BAR)
    return "█" * full + "░" * (BAR - full) + f" {share:4.0%}"
