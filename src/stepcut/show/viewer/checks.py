"""Checks for the page: what a video misses or does out of order, with the names that a person gave to the steps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stepcut.procedure.corrections.document import Part
from stepcut.progress import Hook, Stage

if TYPE_CHECKING:
    from stepcut.procedure.procedure import Procedure


@dataclass(frozen=True)
class CheckedVideo:
    """A new video beside those that were learned from: shown and checked, not edited."""

    name: str
    path: str
    duration: float
    parts: tuple[Part, ...]
    report: dict[str, Any]


class Checker:
    """Loads the model when it is needed, with the corrections as they stand: looking must not wait for it."""

    def __init__(self, folder: Path, trust: bool = False) -> None:
        self.folder, self.trust = folder, trust

    @property
    def procedure(self) -> Procedure:
        """The whole procedure, with its model."""
        from stepcut.procedure.procedure import load

        return load(self.folder, trust=self.trust)

    def check(self, path: str, progress: Hook) -> dict[str, Any]:
        """The report on one video as JSON."""
        with Stage(progress, "check", total=2) as stage:
            procedure = self.procedure
            stage.advance()
            report: dict[str, Any] = procedure.check(path).to_json()
            stage.advance()
        return report

    def look(self, path: str, progress: Hook) -> CheckedVideo:
        """Cut and check a new video."""
        with Stage(progress, "check", total=2, unit="passes") as stage:
            procedure = self.procedure
            timeline = procedure.segment(path)
            stage.advance(item=path)
            report = procedure.check(path).to_json()
            stage.advance(item=path)
        number = {step.name: step.number for step in procedure.document.steps}
        parts = tuple(Part(s.start, s.end, number[s.step], s.confidence) for s in timeline)
        return CheckedVideo(timeline.video, str(Path(path).resolve()), timeline.end, parts, report)
