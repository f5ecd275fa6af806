"""Checked videos and their reports, in the cache."""

import contextlib
import hashlib
import os
import threading
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from stepcut.checking.report import KINDS, Accepted, is_accepted
from stepcut.files.atomic import read_json, write_json
from stepcut.files.cache import cache_dir
from stepcut.procedure.procedure import Procedure
from stepcut.progress import Hook


class Part(NamedTuple):
    """A segment with the number of its step in the procedure that checked the video."""

    start: float
    end: float
    step: int
    confidence: float | None = None


@dataclass(frozen=True)
class CheckedVideo:
    """A checked video; it is shown, but not edited."""

    name: str
    path: str
    duration: float
    parts: tuple[Part, ...]
    report: dict[str, Any]
    fingerprint: str = ""
    """Fingerprint of the procedure that checked it."""

    @property
    def key(self) -> str:
        return f"c{_short(self.path)}"


def look(procedure: Procedure, path: str, progress: Hook) -> CheckedVideo:
    timeline = procedure.segment(path, progress=progress)
    report = procedure.check(path, progress=progress).to_json()
    number = {step.name: step.number for step in procedure.document.steps}
    parts = tuple(Part(s.start, s.end, number[s.step], s.confidence) for s in timeline)
    whole = str(Path(path).resolve())
    made_by = procedure.config.fingerprint
    return CheckedVideo(timeline.video, whole, timeline.end, parts, report, made_by)


class Checks:
    """The checked videos of the procedure in a `folder`, one file each."""

    def __init__(self, folder: Path) -> None:
        self.folder = cache_dir() / "checked" / _short(str(folder.resolve()))
        self._lock = threading.Lock()
        self._seen: dict[Path, tuple[int, CheckedVideo]] = {}

    def add(self, video: CheckedVideo) -> None:
        """Save a checked video, replacing an earlier result of the same file."""
        write_json(self.folder / f"{video.key}.json", asdict(video))

    def remove(self, key: str) -> None:
        for video in self.all():
            if video.key == key:
                (self.folder / f"{key}.json").unlink(missing_ok=True)

    def all(self) -> list[CheckedVideo]:
        """All checked videos, oldest first."""
        with self._lock:
            found = {}
            for path in sorted(self.folder.glob("c*.json"), key=lambda path: path.name):
                with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                    stamp, seen = path.stat().st_mtime_ns, self._seen.get(path)
                    found[path] = seen if seen and seen[0] == stamp else (stamp, _read(path))
            self._seen = found
            videos = sorted(found.values(), key=lambda one: (one[0], one[1].path))
            return [video for _, video in videos]

    @property
    def stamp(self) -> str:
        """Changes whenever a checked video is added, checked again or removed."""
        self.all()
        return _short(repr(sorted((path.name, seen[0]) for path, seen in self._seen.items())))

    @property
    def watched(self) -> Path | None:
        """The folder whose new videos are checked automatically."""
        with contextlib.suppress(OSError, ValueError, TypeError):
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
    video, kept, moved = report.get("video", ""), dict(report), []
    for kind in KINDS:
        findings = report.get(kind) or []
        fine = [is_accepted(accepted, kind, one.get("step"), video) for one in findings]
        kept[kind] = [one for one, is_fine in zip(findings, fine, strict=True) if not is_fine]
        moved += [one for one, is_fine in zip(findings, fine, strict=True) if is_fine]
    left = any(kept[kind] for kind in KINDS if kind != "input")
    if moved and not left and not report.get("other_task"):
        summary = f"{video}: no deviation except accepted ones. {report.get('power', '')}"
        fine = report.get("conclusive", True)
        verdict = "fine" if fine else "inconclusive"
        kept |= {"ok": fine, "verdict": verdict, "summary": summary.strip()}
    return {**kept, "accepted": moved}


def _read(path: Path) -> CheckedVideo:
    record = read_json(path)
    return CheckedVideo(**{**record, "parts": tuple(Part(*part) for part in record["parts"])})


def _short(text: str) -> str:
    return hashlib.blake2b(os.fsencode(text), digest_size=8).hexdigest()
