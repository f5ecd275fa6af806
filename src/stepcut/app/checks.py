"""Checked videos and their reports, in the cache; procedures of labels alone."""

import hashlib
import math
import os
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from stepcut.annotations import refuse_overlaps
from stepcut.checking.report import KINDS, Accepted, is_accepted
from stepcut.errors import VideoError
from stepcut.features.video.container import probe
from stepcut.files import cache_dir, read_json, write_json
from stepcut.files.names import Fragment, short_names
from stepcut.procedure.document import Document
from stepcut.procedure.learned import LABELS, Config, Learned
from stepcut.procedure.procedure import Procedure
from stepcut.progress import Hook
from stepcut.timeline import Timeline


def short_hash(text: str, size: int = 8) -> str:
    return hashlib.blake2b(os.fsencode(text), digest_size=size).hexdigest()


class Part(NamedTuple):
    start: float
    end: float
    step: int
    confidence: float | None = None


@dataclass(frozen=True)
class CheckedVideo:
    name: str
    path: str
    duration: float
    parts: tuple[Part, ...]
    report: dict[str, Any]
    fingerprint: str = ""

    @property
    def key(self) -> str:
        return f"c{short_hash(self.source)}"

    @property
    def source(self) -> str:
        """The path, with the part of the file that was checked."""
        return Fragment.of(self.name).at(self.path)

    def parts_now(self, document: Document, fingerprint: str) -> list[Part]:
        """Another revision of the procedure numbered its steps differently, so its names count."""
        now: Any = dict(enumerate(document.now))
        if self.fingerprint != fingerprint:
            listed = self.report.get("steps", ())
            now = {step["step"]: document.numbers.get(step["name"]) for step in listed}
        moved = [part._replace(step=now.get(part.step)) for part in self.parts]
        return [part for part in moved if part.step is not None and document.step(part.step)]

    def report_now(self, document: Document, fingerprint: str) -> dict[str, Any]:
        """The report with the current names of the steps."""
        steps = self.report.get("steps", ()) if self.fingerprint == fingerprint else ()
        now = {one["name"]: document.model_steps[one["step"]] for one in steps}
        if all(name == new for name, new in now.items()):
            return self.report
        longest_first = sorted(map(re.escape, now), key=len, reverse=True)
        words = re.compile(rf"(?<!\w)({'|'.join(longest_first)})(?!\w)")

        def renamed(value: Any) -> Any:
            if isinstance(value, str):
                return words.sub(lambda found: now[found[0]], value)
            if isinstance(value, dict):
                return {key: renamed(one) for key, one in value.items()}
            return [renamed(one) for one in value] if isinstance(value, list) else value

        return dict(renamed(self.report) | {"video": self.report.get("video", "")})


def check_video(procedure: Procedure, path: str, progress: Hook) -> CheckedVideo:
    timeline = procedure.segment(path, progress=progress)
    report = procedure.check(path, progress=progress).to_json()
    number = procedure.document.numbers
    parts = tuple(Part(s.start, s.end, number[s.step], s.confidence) for s in timeline)
    whole = str(Path(Fragment.of(path).whole).resolve())
    made_by = procedure.config.fingerprint
    return CheckedVideo(timeline.video, whole, timeline.end, parts, report, made_by)


@lru_cache(maxsize=4096)
def _read_check(path: Path, _: int) -> CheckedVideo:
    return msgspec.convert(read_json(path), CheckedVideo)


class Checks:
    def __init__(self, folder: Path) -> None:
        self.folder = cache_dir() / "checked" / short_hash(str(folder.resolve()))

    def add(self, video: CheckedVideo) -> None:
        write_json(self.folder / f"{video.key}.json", asdict(video))

    def remove(self, key: str) -> None:
        for _, path in self._files():
            if path.stem == key:
                path.unlink(missing_ok=True)

    def all(self) -> list[CheckedVideo]:
        found = []
        for stamp, path in self._files():
            with suppress(OSError, ValueError, KeyError, TypeError):
                found.append(_read_check(path, stamp))
        return found

    @property
    def stamp(self) -> str:
        return short_hash(repr(self._files()))

    def _files(self) -> list[tuple[int, Path]]:
        found = []
        for path in self.folder.glob("c*.json"):
            with suppress(OSError):
                found.append((path.stat().st_mtime_ns, path))
        return sorted(found)

    @property
    def watched(self) -> Path | None:
        with suppress(OSError, ValueError, TypeError):
            return Path(read_json(self.folder / "watch.json"))
        return None

    @watched.setter
    def watched(self, folder: Path | None) -> None:
        if folder is None:
            (self.folder / "watch.json").unlink(missing_ok=True)
        else:
            write_json(self.folder / "watch.json", os.fspath(folder))


def judged(report: dict[str, Any], accepted: Collection[Accepted]) -> dict[str, Any]:
    """Move findings that a person has accepted to `accepted`."""
    video, left = report.get("video", ""), dict(report)
    moved: list[dict[str, Any]] = []
    for kind in KINDS:
        left[kind] = []
        for finding in report.get(kind) or []:
            fine = is_accepted(accepted, kind, finding.get("step"), video)
            (moved if fine else left[kind]).append(finding)
    deviates = any(left[kind] for kind in KINDS if kind != "input")
    if moved and not deviates and not report.get("other_task"):
        summary = f"{video}: no deviation except accepted ones. {report.get('power', '')}"
        fine = report.get("conclusive", True)
        verdict = "fine" if fine else "inconclusive"
        left |= {"ok": fine, "verdict": verdict, "summary": summary.strip()}
    return {**left, "accepted": moved}


def outline_of(
    labels: Mapping[str, Timeline], videos: Mapping[str, str | None], title: str
) -> Procedure:
    """A procedure without a model; a timeline of unknown duration ends with its video."""
    timelines = {}
    for name, timeline in zip(short_names(list(labels)), labels.values(), strict=True):
        video = videos.get(name)
        if timeline.duration is None and video is not None:
            with suppress(VideoError):  # the page shows the error
                timeline = replace(timeline, duration=max(timeline.end, probe(video).duration))
        refuse_overlaps(timeline, name)
        timelines[name] = timeline
    return Procedure(
        Learned(
            steps=list(dict.fromkeys(step for one in timelines.values() for step in one.steps)),
            timelines=timelines,
            samples={name: max(1, math.ceil(one.end)) for name, one in timelines.items()},
            videos={name: videos.get(name) for name in timelines},
            rate=Fraction(1),
            config=Config(LABELS, rate="1", title=title),
        )
    )
