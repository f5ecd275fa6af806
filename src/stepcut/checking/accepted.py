"""Findings that a person has accepted: they raise no alarm any more."""

from collections.abc import Collection
from dataclasses import replace

from stepcut.checking.report import Report

Accepted = tuple[str, int | None, str]
"""A kind of finding, the step it is about, and, where it is about no step, the video."""


def is_accepted(accepted: Collection[Accepted], kind: str, step: int | None, video: str) -> bool:
    """Whether a finding of this `kind` about this `step`, in this `video`, is one that a person accepted.

    >>> is_accepted({("missed", 2, "")}, "missed", 2, "new")
    True
    """
    return (kind, step, "" if step is not None else video) in accepted


def without_accepted(report: Report, accepted: Collection[Accepted]) -> Report:
    """The `report` without the findings that a person has `accepted`; fine where no other one is left."""
    left = [
        finding
        for finding in report.findings
        if not is_accepted(accepted, finding.kind, finding.step, report.video)
    ]
    if len(left) == len(report.findings):
        return report
    critical = tuple(
        name for name in report.critical if any(finding.name == name for finding in left)
    )
    score = report.score if left else min(report.score, 1.0)
    return replace(report, findings=left, score=score, critical=critical)
