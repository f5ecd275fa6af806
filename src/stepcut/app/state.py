"""One procedure as its page shows it: corrections, videos, checked videos and signals."""

import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Thread
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from stepcut.app.checks import CheckedVideo, Checks, judged
from stepcut.app.folder import Folder
from stepcut.app.jobs import Jobs
from stepcut.checking.expectations import Expectations
from stepcut.colours import colour, ink
from stepcut.errors import OptionError, ProcedureError, StepcutError
from stepcut.evaluation.agreement import stretches
from stepcut.features.cycles import CYCLE
from stepcut.features.extract import read_source
from stepcut.features.features import Features
from stepcut.features.spec import FeatureSpec
from stepcut.files import read_json
from stepcut.files.names import Fragment, match_videos, spell
from stepcut.formats import FORMATS
from stepcut.methods.arithmetic import best_pairs
from stepcut.procedure.document import Document
from stepcut.procedure.edits import Edits, can_take_back
from stepcut.procedure.learned import LABELS, Digest, has_content
from stepcut.procedure.procedure import Procedure
from stepcut.procedure.store import open_revision
from stepcut.show.clips import is_playable, picture_at
from stepcut.timeline import Segment, Timeline

# ---------- other timelines


@dataclass(frozen=True)
class OtherTimelines:
    name: str
    timelines: Mapping[str, Timeline]

    @classmethod
    def of(cls, name: str, found: Mapping[str, Timeline], videos: Mapping[str, Any]) -> Self:
        if not match_videos(videos, found):
            there = ", ".join(list(found)[:5])
            raise OptionError(f"{name}: the procedure contains none of its videos ({there}).")
        return cls(name, found)

    def rows(self, document: Document) -> dict[str, list[tuple[Any, ...]]]:
        """Segments: start, end, name, colour, ink, and the number of our matching step."""
        steps = [step.name for step in document.steps]
        theirs = {
            name: each.rename(spell(each.steps, steps)) for name, each in self.timelines.items()
        }
        both = match_videos(document.segments, theirs)
        names = sorted({segment.step for other in both.values() for segment in theirs[other]})
        own = [step for step in document.steps if step.name not in names]
        new = [name for name in names if name not in steps]
        row = {step.name: place for place, step in enumerate(own)}
        column = {name: place for place, name in enumerate(new)}
        shared = np.zeros((len(own), len(new)))
        for name, other in both.items():
            for start, end, one, another in stretches(document.timelines[name], theirs[other]):
                if one in row and another in column:
                    shared[row[one], column[another]] += end - start
        same = {step.name: step for step in document.steps if step.name in names}
        same |= {new[j]: own[i] for i, j in best_pairs(shared)}
        paint = {name: colour(len(steps) + place) for place, name in enumerate(names)}
        paint |= {name: step.colour for name, step in same.items()}
        number = {name: step.number for name, step in same.items()}
        return {
            name: [
                (s.start, s.end, s.step, paint[s.step], ink(paint[s.step]), number.get(s.step))
                for s in theirs[other]
            ]
            for name, other in both.items()
        }


# ---------- signals

MOST_CHANNELS = 12
CURVES = 4
POINTS = 2000


def read_features(outline: Procedure) -> list[Features]:
    source = outline.config.source
    if source and not any(outline.videos.values()):
        with suppress(StepcutError, OSError):
            spec = FeatureSpec.from_json(outline.config.backbone)
            return read_source(source, outline.rate, spec)[0]
    return []


def curves_of(features: Sequence[Features]) -> dict[str, dict[str, Any]]:
    """By recording: names of channels or principal components, values 0 to 1, seconds between."""
    if not features:
        return {}
    flat = {one.name: one.rows.reshape(len(one.rows), -1).astype(np.float64) for one in features}
    together = np.concatenate(list(flat.values()))
    kind = "channel"
    if together.shape[1] > MOST_CHANNELS:
        kind, centre = "component", together.mean(axis=0)
        _, _, ways = np.linalg.svd(_thin(together - centre, 5000), full_matrices=False)
        flat = {name: (rows - centre) @ ways[:CURVES].T for name, rows in flat.items()}
        together = np.concatenate(list(flat.values()))
    names = [f"{kind} {number + 1}" for number in range(together.shape[1])]
    low, high = np.percentile(together, [1, 99], axis=0)
    span = np.where(high > low, high - low, 1.0)
    rates = {one.name: float(one.rate) for one in features}
    return {
        name: {
            "names": names,
            "every": max(1, -(-len(rows) // POINTS)) / rates[name],
            "curves": np.round(np.clip((_thin(rows, POINTS) - low) / span, 0, 1), 3).T.tolist(),
        }
        for name, rows in flat.items()
    }


def _thin(rows: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    return rows[:: max(1, -(-len(rows) // most))]


# ---------- one procedure


def recordings(outline: Procedure) -> dict[str, tuple[str, str | None]]:
    """Names and paths by key, which names the recording: an old page never gets another video."""
    found = {}
    for name, path in outline.videos.items():
        content = f"{name}\n{path}\n{outline.learned.digests.get(name)}".encode(errors="replace")
        found[f"v{hashlib.blake2b(content, digest_size=8).hexdigest()}"] = (name, path)
    return found


@lru_cache(maxsize=1)
def read_reference(folder: Path, fingerprint: str) -> list[str]:
    with suppress(OSError, ValueError, ProcedureError):
        saved = read_json(open_revision(folder).place / "check.json") if fingerprint else None
        return Expectations.from_json(saved).most_unusual if saved else []
    return []


def is_file(path: str | None) -> bool:
    return path is not None and Path(path).is_file()


def _drawn(document: Document, video: str) -> tuple[object, ...]:
    said = document.said.videos[video]
    parts = (*document.segments[video], *said.clicks)
    drawn = [(one.start, one.end, document.number(one.step)) for one in parts]
    return drawn, said.annotated


class Viewer:
    """One procedure with its edits, videos, checked videos and jobs, as `refresh` has read it."""

    def __init__(
        self,
        folder: Path,
        files: Folder,
        jobs: Jobs,
        trust: bool = False,
        checked: Sequence[CheckedVideo] = (),
        videos: Mapping[str, str | None] | None = None,
        beside: OtherTimelines | None = None,
    ) -> None:
        self.folder, self.files, self.jobs, self.trust = folder, files, jobs, trust
        self.beside = beside
        self.edits = Edits(folder)
        outline = self.edits.outline
        self.title = outline.config.title or folder.resolve().name.removesuffix(".proc")
        moved = (videos or {}).items()
        self.moved = {(name, outline.videos.get(name)): path for name, path in moved}
        self.checks = Checks(folder)
        for video in checked:
            self.checks.add(video)
        self._picture = lru_cache(maxsize=256)(lambda path, _, time: picture_at(path, time, 200))
        self._playable = lru_cache(maxsize=4096)(lambda path, _, codecs: is_playable(path, codecs))
        self._curves: tuple[str, dict[str, dict[str, Any]]] | None = None
        self._changed: tuple[str, set[str]] | None = None

    def refresh(self) -> None:
        self.edits.refresh()

    def recordings(self, outline: Procedure | None = None) -> dict[str, tuple[str, str | None]]:
        found = recordings(outline or self.edits.outline)
        return {
            key: (name, self.moved.get((name, path), path)) for key, (name, path) in found.items()
        }

    @property
    def videos(self) -> dict[str, str | None]:
        return dict(self.recordings().values())

    @property
    def fingerprint(self) -> str:
        return self.edits.outline.config.fingerprint

    def paths(self) -> dict[str, str | None]:
        learned = {key: path for key, (_, path) in self.recordings().items()}
        return {**learned, **{video.key: video.path for video in self.checks.all()}}

    @property
    def stamp(self) -> str:
        beside = self.beside.name if self.beside else ""
        return f"{self.edits.revision}-{self.checks.stamp}-{len(self.changed())}-{beside}"

    def state(self) -> dict[str, Any]:
        # Read first: if another window edits meanwhile, this revision is outdated, not too new.
        revision, stamp = self.edits.revision, self.stamp
        outline, document, severity = self.edits.outline, self.edits.document, self.edits.severity
        offered, quality = outline.suggestions, outline.quality
        learned = outline.config.method != LABELS
        measures = {key: getattr(quality, key) for key in ("kind", "right", "warning")}
        return {
            "title": self.title,
            "folder": str(self.folder.resolve()),
            "revision": revision,
            "stamp": stamp,
            "undo": self.edits.next_undo,
            "redo": self.edits.next_redo,
            "taught": can_take_back(self.folder),
            "learned": learned,
            "home": not self.files.closed,
            "beside": self.beside.name if self.beside else None,
            "quality": learned and {**measures, "text": str(quality)},
            "hierarchy": outline.config.hierarchy,
            "cycles": self._cycles(outline),
            "untaught": outline.untaught,
            "steps": [
                {
                    **step._asdict(),
                    "ink": ink(step.colour),
                    "severity": severity.get(step.number),
                    "learned": step.number < len(outline.learned.steps),
                    "suggested": offered.get(place, []),
                }
                for place, step in enumerate(document.steps)
            ],
            "videos": [*self._learned_videos(outline), *self._checked_videos(document)],
            "formats": [
                {key: getattr(form, key) for key in ("name", "title", "frames")}
                for form in FORMATS.values()
            ],
        }

    def _cycles(self, outline: Procedure) -> dict[str, Any] | None:
        """The request that learns from the cycles of one recording, if this shows them."""
        paths = [path for path in self.videos.values() if path]
        if self.files.closed or outline.steps != [CYCLE] or len(paths) != 1:
            return None
        videos = [self.files.shown(Path(paths[0]))]
        return {"videos": videos, "cycles": self.files.shown(self.folder.resolve())}

    def rules(self) -> dict[str, Any]:
        try:
            now, offered = self.edits.rules, self.edits.proposed_rules()
        except StepcutError as error:
            return {"now": [], "offered": [], "problem": str(error)}
        proposals = [{"rule": str(rule), "question": words} for rule, words in offered.items()]
        return {"now": list(map(str, now)), "offered": proposals, "problem": ""}

    def _learned_videos(self, outline: Procedure) -> list[dict[str, Any]]:
        then, document, changed = outline.corrections.learned, outline.document, self.changed()
        beside = self.beside.rows(document) if self.beside else {}
        normal = read_reference(self.folder, self.fingerprint)
        unusual = [name for name in normal if name not in document.said.mistakes][:3]
        return [
            {
                "key": key,
                "name": name,
                "duration": said.end,
                "offset": Fragment.of(name).start,
                "part": bool(Fragment.of(name).tail),
                "there": is_file(path),
                "changed": name in changed,
                "parts": [
                    (one.start, one.end, document.numbers[one.step], one.confidence)
                    for one in document.segments[name]
                ],
                "editable": True,
                "annotated": said.annotated,
                "clicks": [(one.start, document.number(one.step)) for one in said.clicks],
                "onsets": [
                    (one.begins(document.reaction), document.number(one.step), one.time)
                    for one in said.onsets
                ],
                "complete": bool(said.clicks) and said.complete,
                "corrected": _drawn(document, name) != _drawn(then, name),
                "beside": beside.get(name),
                "mistake": name in document.said.mistakes if name in normal else None,
                "unusual": name in unusual,
            }
            for key, (name, path) in self.recordings(outline).items()
            if name in document.segments
            for said in [document.said.videos[name]]
        ]

    def _checked_videos(self, document: Document) -> list[dict[str, Any]]:
        return [
            {
                "key": new.key,
                "name": new.name,
                "duration": new.duration,
                "offset": Fragment.of(new.name).start,
                "part": bool(Fragment.of(new.name).tail),
                "there": is_file(new.path),
                "parts": new.parts_now(document, self.fingerprint),
                "editable": False,
                "clicks": (),
                "check": judged(new.report_now(document, self.fingerprint), document.fine),
                "stale": new.fingerprint != self.fingerprint,
                "where": self.files.shown(Path(new.path)),
                "mistake": None,
            }
            for new in self.checks.all()
        ]

    def changed(self) -> set[str]:
        """Compare contents in a thread, which takes long; a page waits for a second."""
        if self._changed is None or self._changed[0] != self.fingerprint:
            self._changed = (self.fingerprint, set())
            thread = Thread(target=self._compare, args=(self._changed[1],), daemon=True)
            thread.start()
            thread.join(1)
        return set(self._changed[1])

    def _compare(self, changed: set[str]) -> None:
        outline = self.edits.outline
        for name, path in self.recordings(outline).values():
            changed.update(outline.changed_videos({name: path}))
        for one in read_features(outline):
            if has_content(one, outline.learned.digests.get(one.name, Digest())) is False:
                changed.add(one.name)

    @property
    def timelines(self) -> dict[str, Timeline]:
        document = self.edits.document
        names = {step.number: step.name for step in document.steps}
        learned = document.timelines
        found = {
            key: learned[name] for key, (name, _) in self.recordings().items() if name in learned
        }
        for video in self.checks.all():
            parts = video.parts_now(document, self.fingerprint)
            segments = [Segment(p.start, p.end, names[p.step], p.confidence) for p in parts]
            steps = tuple(names.values())
            found[video.key] = Timeline(segments, video.duration, steps, video=video.name)
        return found

    def curves(self, key: str) -> dict[str, Any]:
        outline = self.edits.outline
        name = self.recordings(outline).get(key, ("", None))[0]
        if self._curves is None or self._curves[0] != self.fingerprint:
            self._curves = (self.fingerprint, curves_of(read_features(outline)))
        return self._curves[1].get(name, {"names": [], "curves": [], "every": 1.0})

    def poster(self, key: str, path: Path) -> bytes:
        outline = self.edits.outline
        name = self.recordings(outline).get(key, ("", None))[0]
        first = next(iter(outline.corrections.learned.segments.get(name, ())), Segment(0, 2, ""))
        time = Fragment.of(name).start + (first.start + first.end) / 2
        return self._picture(str(path), path.stat().st_mtime_ns, time)

    def is_playable(self, path: str, codecs: frozenset[str]) -> bool:
        return self._playable(path, Path(path).stat().st_mtime_ns, codecs)
