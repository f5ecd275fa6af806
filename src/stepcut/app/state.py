"""State of the page: the procedure with its corrections, its videos, and checked videos."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from threading import Thread
from typing import Any

from stepcut.app.checks import CheckedVideo, Checks, judged
from stepcut.app.jobs import Jobs
from stepcut.app.signals import changed_features, curves_of, read_features
from stepcut.checking.expectations import Expectations
from stepcut.colours import colour, ink
from stepcut.errors import ProcedureError, StepcutError
from stepcut.evaluation.agreement import stretches
from stepcut.files.atomic import read_json
from stepcut.files.names import match_videos, spell
from stepcut.formats import FORMATS
from stepcut.procedure.corrections.document import Document, Part
from stepcut.procedure.edits import Edits
from stepcut.procedure.storage import LABELS
from stepcut.procedure.taught import can_take_back
from stepcut.show.video import is_playable, picture_at
from stepcut.timeline import Segment, Timeline


def _as_they_stand(parts: Sequence[Part], document: Document) -> list[Part]:
    """Map the steps of a checked video to current steps; drop those merged into background."""
    now = [(part, document.stands_for(part.step)) for part in parts]
    return [
        part._replace(step=step) for part, step in now if step is not None and document.step(step)
    ]


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
        both = match_videos(document.parts, theirs)
        shared: dict[tuple[str, str], float] = defaultdict(float)
        ours = document.timelines()
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
        return (
            Expectations.from_json(read_json(folder / "check.json")).most_unusual
            if fingerprint
            else []
        )
    return []


class Viewer:
    """One procedure with its edits, videos, checked videos and jobs."""

    def __init__(
        self,
        folder: Path,
        checked: Sequence[CheckedVideo] = (),
        trust: bool = False,
        videos: Mapping[str, str | None] | None = None,
        beside: Beside | None = None,
        jobs: Jobs | None = None,
        root: Path | None = None,
    ) -> None:
        """Read the `folder` of a procedure; `trust` allows it to run custom code.

        `checked` adds checked videos, and `beside` other timelines. `videos` gives new paths of
        videos, by name. Videos below `root` can be selected for checks.
        """
        self.folder, self.trust, self.beside, self.root = folder, trust, beside, root
        self.edits = Edits(folder)
        self.title = str(
            self.edits.outline.config.get("title", folder.resolve().name.removesuffix(".proc"))
        )
        self.videos = {**self.edits.outline.videos, **(videos or {})}
        self.checks = Checks(folder)
        for video in checked:
            self.checks.add(video)
        self.jobs = jobs or Jobs(folder)
        self.picture = lru_cache(maxsize=256)(partial(picture_at, height=200))
        self.playable = lru_cache(maxsize=4096)(is_playable)
        self._curves: tuple[str, dict[str, dict[str, Any]]] | None = None
        self._changed: tuple[str, set[str]] | None = None

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the learned model."""
        return str(self.edits.outline.config.get("fingerprint", ""))

    @property
    def paths(self) -> dict[str, str | None]:
        """Path of each video by key; the key of a training video is its index."""
        learned = {str(place): path for place, path in enumerate(self.videos.values())}
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
            "taught": can_take_back(self.folder, self.fingerprint),
            "learned": outline.config["method"] != LABELS,
            "home": self.root is not None,
            "beside": self.beside.name if self.beside else None,
            "quality": {
                "kind": quality.kind,
                "right": quality.right,
                "warning": quality.warning,
                "text": str(quality),
            }
            if "quality" in outline.config
            else None,
            "hierarchy": outline.config.get("hierarchy"),
            "untaught": outline.untaught,
            "steps": [
                {
                    **step._asdict(),
                    "ink": ink(step.colour),
                    "severity": severity.get(step.number),
                    "learned": step.number < len(outline.learned_steps),
                    "suggested": offered.get(place, []),
                }
                for place, step in enumerate(document.steps)
            ],
            "videos": [*self._learned_videos(document), *self._checked_videos(document)],
            "formats": [
                {
                    "name": form.name,
                    "title": form.title,
                    "frames": form.frames,
                }
                for form in FORMATS.values()
            ],
        }

    def _learned_videos(self, document: Document) -> list[dict[str, Any]]:
        learned = self.edits.outline.learned
        beside = self.beside.rows(document) if self.beside else {}
        normal = read_reference(self.folder, self.fingerprint)
        unusual = [name for name in normal if name not in document.mistakes][:3]
        changed = self.changed()
        return [
            {
                "key": str(place),
                "name": name,
                "duration": document.durations[name],
                "there": _is_there(self.videos.get(name)),
                "changed": name in changed,
                "parts": document.parts[name],
                "editable": True,
                "annotated": document.annotated.get(name, ()),
                "clicks": document.clicks.get(name, ()),
                "complete": name in document.complete,
                "corrected": any(
                    now.get(name) != then.get(name)
                    for now, then in (
                        (document.parts, learned.parts),
                        (document.annotated, learned.annotated),
                        (document.clicks, learned.clicks),
                    )
                ),
                "beside": beside.get(name),
                "mistake": name in document.mistakes if name in normal else None,
                "unusual": name in unusual,
            }
            for place, name in enumerate(self.videos)
            if name in document.parts
        ]

    def _checked_videos(self, document: Document) -> list[dict[str, Any]]:
        return [
            {
                "key": new.key,
                "name": new.name,
                "duration": new.duration,
                "there": _is_there(new.path),
                "parts": _as_they_stand(new.parts, document),
                "editable": False,
                "clicks": (),
                "check": judged(new.report, document.fine),
                "stale": new.fingerprint != self.fingerprint,
                "where": self.shown(new.path),
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
        for name, path in self.videos.items():
            changed.update(outline.changed_videos({name: path}))
        with suppress(StepcutError, OSError):
            changed.update(changed_features(outline))

    def shown(self, path: str) -> str:
        """Path relative to `root`, or the full path."""
        if self.root is not None and Path(path).is_relative_to(self.root):
            return Path(path).relative_to(self.root).as_posix()
        return path

    @property
    def timelines(self) -> dict[str, Timeline]:
        """Timelines of all training and checked videos, by key."""
        document = self.edits.document
        names = {step.number: step.name for step in document.steps}
        learned = document.timelines()
        found = {
            str(place): learned[name] for place, name in enumerate(self.videos) if name in learned
        }
        for video in self.checks.all():
            parts = _as_they_stand(video.parts, document)
            segments = [Segment(p.start, p.end, names[p.step], p.confidence) for p in parts]
            found[video.key] = Timeline(
                segments, video.duration, tuple(names.values()), video=video.name
            )
        return found

    def curves(self, name: str) -> dict[str, Any] | None:
        """Signals of a recording without a video, if its features are available."""
        if self._curves is None or self._curves[0] != self.fingerprint:
            try:
                features = read_features(self.edits.outline)
            except (StepcutError, OSError):
                features = []
            self._curves = (self.fingerprint, curves_of(features) if features else {})
        return self._curves[1].get(name)

    def poster_time(self, key: str) -> float:
        """The middle of the first segment."""
        parts: Sequence[Part] = ()
        if key.isdecimal():
            name = list(self.videos)[int(key)]
            parts = self.edits.outline.learned.parts.get(name, ())
        first = parts[0] if parts else Part(0, 2, 0)
        return (first.start + first.end) / 2


def _is_there(path: str | None) -> bool:
    return path is not None and Path(path).is_file()
