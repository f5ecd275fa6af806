"""Accepted findings raise no alarm; others still do."""

from __future__ import annotations

import copy

import numpy as np
from kitchen_kit import Kitchen, film, shares


def test_an_accepted_finding_raises_no_alarm_any_more(tiny_task: Kitchen) -> None:
    procedure = copy.copy(tiny_task.procedure)
    rng = np.random.default_rng(1)
    flawed = shares(film([0, 1, 3], rng))
    report = procedure.check(flawed)
    assert not report.ok
    for finding in report.findings:
        edit = {"do": "fine", "kind": finding.kind, "step": finding.step, "video": report.video}
        procedure.corrections = procedure.corrections.do(edit)
    assert procedure.check(flawed).ok
    assert not procedure.check(shares(film([3, 2, 1], rng))).ok  # other deviations still count
