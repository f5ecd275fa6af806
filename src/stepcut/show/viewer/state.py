"""What the page shows: the procedure with its corrections, the videos in their order, and new videos, checked."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from stepcut.checking.expectations import Expectations
from stepcut.colours import colour, ink
from stepcut.errors import ProcedureError
from stepcut.evaluation.agreement import stretches
from stepcut.files.atomic import read_json
from stepcut.files.names import match_videos, spell
from stepcut.formats import FORMATS
from stepcut.procedure.corrections.document import Document, Part
from stepcut.procedure.edits import Edits
from stepcut.procedure.procedure import Procedure, load
from stepcut.procedure.storage import LABELS
from stepcut.procedure.taught import can_take_back, changes, teach_folder
from stepcut.progress import Hook, silent
from stepcut.show.film import picture_at
from stepcut.show.viewer.jobs import Jobs
from stepcut.timeline import Timeline
from stepcut.version import __version__


@dataclass(frozen=True)
class CheckedVideo:
    """A new video beside those that were learned from: shown and checked, not edited."""

    name: str
    path: str
    duration: float
    parts: tuple[Part, ...]
    report: dict[str, Any]


def _as_they_stand(parts: Sequence[Part], document: Document) -> list[Part]:
    """The parts of a checked video under the steps that theirs were merged into; none where that is background."""
    now = [(part, document.stands_for(part.step)) for part in parts]
    return [
        part._replace(step=step) for part, step in now if step is not None and document.step(step)
    ]


def look(procedure: Procedure, path: str, progress: Hook) -> CheckedVideo:
    """Cut and check a new video."""
    timeline = procedure.segment(path, progress=progress)
    report = procedure.check(path, progress=progress).to_json()
    number = {step.name: step.number for step in procedure.document.steps}
    parts = tuple(Part(s.start, s.end, number[s.step], s.confidence) for s in timeline)
    return CheckedVideo(timeline.video, str(Path(path).resolve()), timeline.end, parts, report)


@dataclass(frozen=True)
class Beside:
    """Another procedure's or annotator's timelines."""

    name: str
    timelines: Mapping[str, Timeline]

    def rows(self, document: Document) -> dict[str, list[tuple[Any, ...]]]:
        """By video, its segments as the page takes them: start, end, name, colour, ink, and which step of ours it is.

        Steps of one name are the same; the others are paired one to one, those that share most time first.
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
        known = {step.name: step for step in document.steps}
        names = sorted({segment.step for other in both.values() for segment in theirs[other]})
        same = {name: known[name] for name in names if name in known}
        for one, another in sorted(shared, key=lambda pair: -shared[pair]):
            if (
                one in known
                and known[one] not in same.values()
                and another in names
                and another not in same
            ):
                same[another] = known[one]
        paint = {name: colour(len(known) + place) for place, name in enumerate(names)}
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
def read_oddest(folder: Path, fingerprint: str) -> list[str]:
    """The videos that count as normal in the procedure of this `fingerprint` in a `folder`, those that stray most
    first; none where that is not known, for who looks need not know it."""
    with suppress(OSError, ValueError, ProcedureError):
        return (
            Expectations.from_json(read_json(folder / "check.json")).oddest if fingerprint else []
        )
    return []


class Viewer:
    """The edits, the videos in their order, and the work in the background."""

    def __init__(
        self,
        folder: Path,
        checked: Sequence[CheckedVideo] = (),
        trust: bool = False,
        videos: Mapping[str, str | None] | None = None,
        beside: Beside | None = None,
    ) -> None:
        """Read the `folder` of a procedure; `trust` lets code of others run that it names.

        `checked`, new, videos are shown beside those that were learned from, and `beside` holds other timelines of
        these; `videos` says where videos lie now, by name, which were moved or given as features.
        """
        self.folder, self.trust, self.beside = folder, trust, beside
        self.edits = Edits(folder)
        self.title = str(
            self.edits.outline.config.get("title", folder.resolve().name.removesuffix(".proc"))
        )
        self.checked = list(checked)
        self.videos = {**self.edits.outline.videos, **(videos or {})}
        self.names = [*self.videos, *(video.name for video in self.checked)]
        self.paths = [*self.videos.values(), *(video.path for video in self.checked)]
        self.jobs = Jobs()
        self.picture = lru_cache(maxsize=256)(partial(picture_at, height=200))

    def state(self) -> dict[str, Any]:
        """All that the page shows."""
        revision = (
            self.edits.revision
        )  # first: where another window changes it now, this page is behind, not ahead
        outline, document, severity = self.edits.outline, self.edits.document, self.edits.severity
        learned = outline.learned
        offered, quality = outline.suggestions, outline.quality
        beside = self.beside.rows(document) if self.beside else {}
        normal = read_oddest(self.folder, str(outline.config.get("fingerprint", "")))
        strays = [name for name in normal if name not in document.mistakes][:3]
        videos = [
            {
                "name": name,
                "duration": document.durations[name],
                "parts": parts,
                "editable": True,
                "known": document.annotated.get(name, ()),
                "corrected": any(
                    now.get(name) != then.get(name)
                    for now, then in (
                        (document.parts, learned.parts),
                        (document.annotated, learned.annotated),
                    )
                ),
                "beside": beside.get(name),
                "mistake": name in document.mistakes if name in normal else None,
                "strays": name in strays,
            }
            for name, parts in document.parts.items()
        ] + [
            {
                "name": new.name,
                "duration": new.duration,
                "parts": _as_they_stand(new.parts, document),
                "editable": False,
                "check": new.report,
                "mistake": None,
            }
            for new in self.checked
        ]
        for video, path in zip(videos, self.paths, strict=True):
            video["there"] = path is not None and Path(path).is_file()
        return {
            "title": self.title,
            "version": __version__,
            "revision": revision,
            "undo": self.edits.next_undo,
            "redo": self.edits.next_redo,
            "taught": can_take_back(self.folder, str(outline.config.get("fingerprint", ""))),
            "learned": outline.config["method"] != LABELS,
            "beside": self.beside.name if self.beside else None,
            "quality": {"grade": quality.grade, "reason": quality.reason}
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
            "videos": videos,
            "formats": [
                {
                    "name": form.name,
                    "title": form.title,
                    "frames": form.frames,
                }
                for form in FORMATS.values()
            ],
        }

    @property
    def procedure(self) -> Procedure:
        """The whole procedure, with its model and the corrections as they stand: looking must not wait for it."""
        return load(self.folder, trust=self.trust)

    def teach(self, progress: Hook) -> list[dict[str, Any]]:
        """Learn from the corrections; gives what share of each video is another step now, and which are known whole."""
        before, after = teach_folder(self.folder, trust=self.trust, progress=progress)
        self.look_again(progress)
        self.edits.refresh()
        shares = sorted(changes(before, after).items(), key=lambda item: -item[1])
        whole = {name for name, one in after.annotations.videos.items() if one.whole}
        return [
            {"video": name, "share": share, "labelled": name in whole} for name, share in shares
        ]

    def look_again(self, progress: Hook = silent) -> None:
        """Cut and check the new videos with what was learned since."""
        procedure = self.procedure if self.checked else None
        self.checked = [
            look(procedure, video.path, progress) for video in self.checked if procedure
        ]

    def poster_time(self, place: int) -> float:
        """The middle of the first segment: something is being done there."""
        parts = self.edits.outline.learned.parts.get(self.names[place], ()) or [Part(0, 2, 0)]
        return (parts[0].start + parts[0].end) / 2
