"""State of the page: the procedure with its corrections, its videos, and checked videos."""

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

from stepcut.app.checks import CheckedVideo, Checks, Part, judged
from stepcut.app.folder import Folder
from stepcut.app.jobs import Jobs
from stepcut.app.signals import changed_features, curves_of, read_features
from stepcut.checking.expectations import Expectations
from stepcut.colours import colour, ink
from stepcut.errors import ProcedureError, StepcutError
from stepcut.evaluation.agreement import stretches
from stepcut.files.atomic import read_json
from stepcut.files.names import match_videos, spell
from stepcut.formats import FORMATS
from stepcut.procedure.document import Document
from stepcut.procedure.edits import Edits, can_take_back
from stepcut.procedure.learned import LABELS
from stepcut.procedure.procedure import Procedure
from stepcut.procedure.store import open_revision
from stepcut.show.clips import is_playable, picture_at
from stepcut.timeline import Segment, Timeline


def _parts_now(video: CheckedVideo, document: Document, fingerprint: str) -> list[Part]:
    """Segments of a checked video in current steps; those merged into background are dropped.

    Another revision of the procedure numbered its steps differently, so its names count.
    """
    if video.fingerprint == fingerprint:
        now = [(part, document.now[part.step]) for part in video.parts]
    else:
        names = {step["step"]: step["name"] for step in video.report.get("steps", ())}
        number = {step.name: step.number for step in document.steps}
        now = [(part, number.get(names.get(part.step, ""))) for part in video.parts]
    return [
        part._replace(step=step) for part, step in now if step is not None and document.step(step)
    ]


def _drawn(document: Document, video: str) -> tuple[object, ...]:
    """The segments, clicks and labelled intervals of a video, whatever the names of its steps."""
    number = {step.name: step.number for step in document.steps}
    said = document.said.videos[video]
    drawn = [(s.start, s.end, number[s.step]) for s in (*document.segments[video], *said.clicks)]
    return drawn, said.annotated


class Recording(NamedTuple):
    """A training video of one revision of the procedure."""

    name: str
    path: str | None


def recordings(outline: Procedure) -> dict[str, Recording]:
    """The training videos by key; a key names the recording, not its place in the list."""
    found = {}
    for name, path in outline.videos.items():
        content = f"{name}\n{path}\n{outline.learned.digests.get(name)}".encode(errors="replace")
        key = hashlib.blake2b(content, digest_size=8).hexdigest()
        found[f"v{key}"] = Recording(name, path)
    return found


@dataclass(frozen=True)
class Beside:
    """Timelines of another procedure or annotator."""

    name: str
    timelines: Mapping[str, Timeline]

    def rows(self, document: Document) -> dict[str, list[tuple[Any, ...]]]:
        """Segments by video: start, end, name, colour, ink, and the number of our matching step.

        Equal names match. The other steps are matched one to one, by the time they share.
        """
        steps = [step.name for step in document.steps]
        theirs = {
            name: each.rename(spell(each.steps, steps)) for name, each in self.timelines.items()
        }
        both = match_videos(document.segments, theirs)
        shared: dict[tuple[str, str], float] = defaultdict(float)
        ours = document.timelines
        for name, other in both.items():
            for start, end, one, another in stretches(ours[name], theirs[other]):
                shared[one, another] += end - start
        own = {step.name: step for step in document.steps}
        names = sorted({segment.step for other in both.values() for segment in theirs[other]})
        same = {name: own[name] for name in names if name in own}
        for one, another in sorted(shared, key=lambda pair: -shared[pair]):
            if (
                one in own
                and own[one] not in same.values()
                and another in names
                and another not in same
            ):
                same[another] = own[one]
        paint = {name: colour(len(own) + place) for place, name in enumerate(names)}
        paint |= {name: step.colour for name, step in same.items()}
        number = {name: step.number for name, step in same.items()}
        return {
            name: [
                (s.start, s.end, s.step, paint[s.step], ink(paint[s.step]), number.get(s.step))
                for s in theirs[other]
            ]
            for name, other in both.items()
        }


@lru_cache(maxsize=1)
def read_reference(folder: Path, fingerprint: str) -> list[str]:
    """Names of the reference videos, most unusual first; empty if they are unknown."""
    with suppress(OSError, ValueError, ProcedureError):
        saved = read_json(open_revision(folder).place / "check.json") if fingerprint else None
        return Expectations.from_json(saved).most_unusual if saved else []
    return []


class Viewer:
    """One procedure with its edits, videos, checked videos and jobs.

    Everything it shows belongs to the revision that `refresh` has read. Keys of videos change
    with the recording, so an old page never gets the video of another revision.
    """

    def __init__(
        self,
        folder: Path,
        files: Folder,
        jobs: Jobs,
        trust: bool = False,
        checked: Sequence[CheckedVideo] = (),
        videos: Mapping[str, str | None] | None = None,
        beside: Beside | None = None,
    ) -> None:
        """Read the `folder` of a procedure; `trust` allows it to run custom code.

        Videos in `files` can be selected for checks. `checked` adds checked videos, and `beside`
        other timelines. `videos` gives new paths of videos, by name.
        """
        self.folder, self.files, self.jobs, self.trust = folder, files, jobs, trust
        self.beside = beside
        self.edits = Edits(folder)
        named = folder.resolve().name.removesuffix(".proc")
        self.title = self.edits.outline.config.title or named
        before = self.edits.outline.videos
        self.moved = {(name, before.get(name)): path for name, path in (videos or {}).items()}
        self.checks = Checks(folder)
        for video in checked:
            self.checks.add(video)
        self._picture = lru_cache(maxsize=256)(lambda path, _, time: picture_at(path, time, 200))
        self._playable = lru_cache(maxsize=4096)(lambda path, _, codecs: is_playable(path, codecs))
        self._curves: tuple[str, dict[str, dict[str, Any]]] | None = None
        self._changed: tuple[str, set[str]] | None = None

    def refresh(self) -> None:
        """Read what other programs have changed: edits, or a procedure learned again."""
        self.edits.refresh()

    def recordings(self, outline: Procedure | None = None) -> dict[str, Recording]:
        """The training videos by key, where they are now."""
        found = recordings(outline or self.edits.outline)
        return {
            key: Recording(name, self.moved.get((name, path), path))
            for key, (name, path) in found.items()
        }

    @property
    def videos(self) -> dict[str, str | None]:
        """Path of each training video by name."""
        return dict(self.recordings().values())

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the learned model."""
        return self.edits.outline.config.fingerprint

    def paths(self) -> dict[str, str | None]:
        """Path of each video by key."""
        learned = {key: path for key, (_, path) in self.recordings().items()}
        return {**learned, **{video.key: video.path for video in self.checks.all()}}

    @property
    def stamp(self) -> str:
        """Changes whenever the state does."""
        return f"{self.edits.revision}-{self.checks.stamp}-{len(self.changed())}"

    def state(self) -> dict[str, Any]:
        """Return everything that the page shows."""
        # Read first: if another window edits meanwhile, this revision is outdated, not too new.
        revision, stamp = self.edits.revision, self.stamp
        outline, document, severity = self.edits.outline, self.edits.document, self.edits.severity
        offered, quality = outline.suggestions, outline.quality
        return {
            "title": self.title,
            "folder": str(self.folder.resolve()),
            "revision": revision,
            "stamp": stamp,
            "undo": self.edits.next_undo,
            "redo": self.edits.next_redo,
            "taught": can_take_back(self.folder),
            "learned": outline.config.method != LABELS,
            "home": not self.files.closed,
            "beside": self.beside.name if self.beside else None,
            "quality": outline.config.method != LABELS
            and {
                **{key: getattr(quality, key) for key in ("kind", "right", "warning")},
                "text": str(quality),
            },
            "hierarchy": outline.config.hierarchy,
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

    def rules(self) -> dict[str, Any]:
        """The rules and those to offer, or why they cannot be read."""
        try:
            now, offered = self.edits.rules, self.edits.proposed_rules()
        except StepcutError as error:
            return {"now": [], "offered": [], "problem": str(error)}
        proposals = [{"rule": str(rule), "question": words} for rule, words in offered.items()]
        return {"now": list(map(str, now)), "offered": proposals, "problem": ""}

    def _learned_videos(self, outline: Procedure) -> list[dict[str, Any]]:
        then, document, changed = outline.corrections.learned, outline.document, self.changed()
        number = {step.name: step.number for step in document.steps}
        beside = self.beside.rows(document) if self.beside else {}
        normal = read_reference(self.folder, self.fingerprint)
        unusual = [name for name in normal if name not in document.said.mistakes][:3]
        return [
            {
                "key": key,
                "name": name,
                "duration": document.said.videos[name].end,
                "there": _is_there(path),
                "changed": name in changed,
                "parts": [
                    (one.start, one.end, number[one.step], one.confidence)
                    for one in document.segments[name]
                ],
                "editable": True,
                "annotated": document.said.videos[name].annotated,
                "clicks": [
                    (one.start, number[one.step]) for one in document.said.videos[name].clicks
                ],
                "complete": name in document.said.clicks and document.said.videos[name].complete,
                "corrected": _drawn(document, name) != _drawn(then, name),
                "beside": beside.get(name),
                "mistake": name in document.said.mistakes if name in normal else None,
                "unusual": name in unusual,
            }
            for key, (name, path) in self.recordings(outline).items()
            if name in document.segments
        ]

    def _checked_videos(self, document: Document) -> list[dict[str, Any]]:
        return [
            {
                "key": new.key,
                "name": new.name,
                "duration": new.duration,
                "there": _is_there(new.path),
                "parts": _parts_now(new, document, self.fingerprint),
                "editable": False,
                "clicks": (),
                "check": judged(new.report, document.fine),
                "stale": new.fingerprint != self.fingerprint,
                "where": self.files.shown(Path(new.path)),
                "mistake": None,
            }
            for new in self.checks.all()
        ]

    def changed(self) -> set[str]:
        """Names of the videos whose content differs from the learned one.

        A thread compares them once per learned model, since reading large videos takes long. It
        adds names as it finds them; a page that is loaded at once waits for a second.
        """
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
        with suppress(StepcutError, OSError):
            changed.update(changed_features(outline))

    @property
    def timelines(self) -> dict[str, Timeline]:
        """Timelines of all training and checked videos, by key."""
        document = self.edits.document
        names = {step.number: step.name for step in document.steps}
        learned = document.timelines
        found = {
            key: learned[name] for key, (name, _) in self.recordings().items() if name in learned
        }
        for video in self.checks.all():
            parts = _parts_now(video, document, self.fingerprint)
            segments = [Segment(p.start, p.end, names[p.step], p.confidence) for p in parts]
            found[video.key] = Timeline(
                segments, video.duration, tuple(names.values()), video=video.name
            )
        return found

    def curves(self, key: str) -> dict[str, Any]:
        """Signals of a recording without a video; none if its features are not available."""
        outline = self.edits.outline
        name = self.recordings(outline).get(key, Recording("", None)).name
        if self._curves is None or self._curves[0] != self.fingerprint:
            features = []
            with suppress(StepcutError, OSError):
                features = read_features(outline)
            self._curves = (self.fingerprint, curves_of(features) if features else {})
        return self._curves[1].get(name, {"names": [], "curves": [], "every": 1.0})

    def poster(self, key: str, path: Path) -> bytes:
        """A small picture from the middle of the first segment."""
        outline = self.edits.outline
        name = self.recordings(outline).get(key, Recording("", None)).name
        first = next(iter(outline.corrections.learned.segments.get(name, ())), Segment(0, 2, ""))
        return self._picture(str(path), path.stat().st_mtime_ns, (first.start + first.end) / 2)

    def is_playable(self, path: str, codecs: frozenset[str]) -> bool:
        """Whether a browser that decodes these `codecs` plays the video itself."""
        return self._playable(path, Path(path).stat().st_mtime_ns, codecs)


def _is_there(path: str | None) -> bool:
    return path is not None and Path(path).is_file()
