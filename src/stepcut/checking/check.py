"""Check one segmentation against the expectations of a procedure, and report its deviations."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import ndtr

from stepcut.checking.evidence import Comparison, Sign
from stepcut.checking.expectations import Expectations
from stepcut.checking.gate import Camera
from stepcut.checking.observed import Floats, Observed, observe
from stepcut.checking.report import FAULTS, MIN_DETECTION, SEEN, Finding, Report, StepSeen, word_for
from stepcut.checking.rules import broken_rules
from stepcut.errors import choose
from stepcut.order.orders import Labels, counted, name_of
from stepcut.settings import check_number
from stepcut.timeline import BACKGROUND

NOTABLE = 0.05  # in a video that raises an alarm, deviations less likely than this are reported


def check_labels(
    labels: Labels,  # (T,)
    rate: float,
    expectations: Expectations,
    probabilities: Floats | None = None,  # (T, K); without them the labels count as certain
    novelty: Floats | None = None,  # (T,); without it, unknown parts are not reported
    names: Sequence[str] = (),
    video: str = "",
    embedding: Floats | None = None,  # (T, p); without it, another task is not detected
    seconds: float | None = None,  # the duration, if it is known more precisely than by the rows
    alarm_at: float | None = None,
    min_detection: float | None = None,
    must_find: str = "step",
    camera: Camera | None = None,
) -> Report:
    if alarm_at is not None:
        check_number("alarm_at", alarm_at, 0, 1, above=True)
    choose("must_find", must_find, FAULTS)
    least = MIN_DETECTION if min_detection is None else min_detection
    check_number("min_detection", least, 0, 1)
    blind, unchecked = ([], "") if camera is None else (camera.findings, camera.unchecked)
    if camera is not None:
        labels = np.where(camera.blind, BACKGROUND, labels)
    shown = observe(labels, rate, probabilities, novelty, embedding)
    compared = Comparison(shown, expectations.usual, expectations.severity)
    parts, score = expectations.judge(compared.amounts)
    length = shown.seconds if seconds is None else seconds
    steps = _steps(compared, expectations, names, length, alarm_at)
    alarming = [one for one in steps if 1 - one.probability >= one.alarm_at]
    # A video that shows all usual steps shows this task.
    lacks = any(one.share_of_videos > 0.5 and one.probability < SEEN for one in steps)
    distance = expectations.task.distance(shown) if expectations.task else 0.0
    distance = distance if lacks else min(distance, 1.0)
    findings = broken_rules(expectations.rules, shown.occurrences, names, length)
    if score > 1 or alarming or distance > 1:
        for sign in _reasons(compared, expectations, parts, alarming):
            name = "" if sign.step is None else name_of(sign.step, names)
            start, end = min(sign.start, length), min(sign.end, length)
            if sign.kind == "unusual" and sign.step is None:
                sign = sign._replace(measure=length)
            reason = explain(sign, expectations, names, shown)
            findings.append(
                Finding(sign.kind, start, end, sign.step, name, 1 - sign.chance, reason)
            )
    return Report(
        video=video,
        seconds=length,
        findings=findings + blind,
        score=score,
        steps=steps,
        task_distance=distance,
        false_alarms=expectations.false_alarms,
        promised=expectations.promised,
        alarms=tuple(one.name for one in alarming),
        detection=expectations.detects,
        invariant=tuple(one.name for one in steps if one.step in expectations.invariant),
        must_find=must_find,
        min_detection=least,
        remedy=expectations.remedy(least, names, must_find),
        note=" ".join(filter(None, (expectations.few, expectations.aside, unchecked))),
    )


def _steps(
    compared: Comparison,
    expectations: Expectations,
    names: Sequence[str],
    length: float,
    alarm_at: float | None,
) -> list[StepSeen]:
    graph, found = expectations.graph, []
    for step in sorted({*graph.steps, *range(len(names)), *expectations.severity.critical}):
        parts = compared.video.by_step.get(step, [])
        times = tuple((min(one.start, length), min(one.end, length)) for one in parts)
        probability = compared.likely.get(step, float(bool(times)))
        share = graph.occurs.get(step, 0) / graph.videos
        limit = expectations.alarm_limit(step, alarm_at)
        found.append(StepSeen(step, name_of(step, names), probability, times, share, limit))
    return sorted(found, key=lambda one: one.probability)


def _reasons(
    compared: Comparison,
    expectations: Expectations,
    parts: Mapping[str, float],
    alarming: Sequence[StepSeen],
) -> list[Sign]:
    """The rarest first."""
    shown, along = compared.video, compared.alignment.along
    alarmed = {step.step for step in alarming}
    signs = compared.signs(expectations.graph)
    # Optional steps and steps that no reference video shows have no sign yet.
    signs += [
        Sign("missed", 1.0, 0.0, shown.seconds, one.step, measure=one.probability)
        for one in alarming
        if one.step not in {sign.step for sign in signs if sign.kind == "missed"}
    ]
    exchanged = any(sign.kind == "misordered" and sign.chance < NOTABLE for sign in signs)
    if not exchanged and parts["timing"] == max(parts.values()):
        signs += compared.untimely(float(ndtr(-parts["timing"])))

    def is_loud(sign: Sign) -> bool:
        if sign.kind != "missed" or sign.how:
            return sign.chance < NOTABLE
        unseen = word_for(sign.measure) == "not seen" and sign.chance < 0.5
        return unseen or sign.step in alarmed

    def rank(sign: Sign) -> tuple[bool, float, float, float]:
        """Alarming steps first, then the rarest; of equals, where the video differs most."""
        alarms = sign.kind == "missed" and not sign.how and sign.step in alarmed
        again = -sign.measure if sign.kind == "extra" else 0.0
        times = (sign.start, sign.end)
        first, last = (int(time / max(shown.seconds, 1e-9) * len(along)) for time in times)
        first = min(first, len(along) - 1)
        apart = float(along[first : max(last, first) + 1].mean())
        return (not alarms, round(sign.chance, 6), again, -apart)

    ranked = sorted(signs, key=rank)
    loud = [sign for sign in ranked if is_loud(sign)]
    # If no reason has a position, add the part in which the video differs most.
    if not any(sign.step is not None or sign.kind == "unknown" for sign in loud):
        loud += [s for s in compared.apart(float(ndtr(-parts["apart"]))) if s.chance < NOTABLE]
    return loud or ranked[:1]


def explain(
    sign: Sign, expectations: Expectations, names: Sequence[str], shown: Observed | None = None
) -> str:
    usual, graph, step = expectations.usual, expectations.graph, sign.step
    if sign.kind == "unknown":
        return f"{sign.end - sign.start:.0f} s match no known step"
    if sign.how == "apart":
        return "the video differs most from the reference videos here"
    name = "the video" if step is None else name_of(step, names)
    if sign.kind == "unusual":
        pace = usual.length if step is None else usual.paces[step]
        number = len(shown.by_step.get(step, ())) if shown and step is not None else 1
        split = f" in {number} parts" if number > 1 else ""
        took, middle = _seconds(sign.measure), _seconds(math.exp(pace.middle))
        return f"{name} took {took}{split}, unusually {sign.how}; {middle} is usual"
    assert step is not None
    if sign.kind == "missed" and not sign.how:
        critical = ", and is critical" if step in expectations.severity.critical else ""
        share = f"{graph.occurs.get(step, 0)} of {counted(graph.videos)} do it"
        likely = f"{word_for(sign.measure)} (probability {100 * sign.measure:.0f} %)"
        before = f", before {name_of(sign.others[0], names)}" if sign.others else ""
        return f"{name} was {likely}{critical}; {share}{before}"
    if sign.kind in ("extra", "missed"):
        often = "once" if sign.measure == 1 else f"{sign.measure:.0f} times"
        counts, extra = usual.repeats[step], sign.kind == "extra"
        many = sum(n < sign.measure if extra else n > sign.measure for n in counts)
        how = "less" if extra else "more"
        return f"{name} was done {often}; {many} of {counted(len(counts))} do it {how} often"
    if not sign.others:
        usually = f"{usual.times[step]:.0%} is usual"
        return f"{name} was done {sign.how}, at {sign.measure:.0%} of the video; {usually}"
    others, late = " and ".join(name_of(other, names) for other in sign.others), sign.how == "late"
    pairs = [(step, other) if late else (other, step) for other in sign.others]
    # The least supported relation.
    kept, swapped = min((graph.first.get(p, 0), graph.first.get(p[::-1], 0)) for p in pairs)
    keep = "keeps" if kept == 1 else "keep"
    when = "only after" if late else "before"
    must = "which it must precede" if late else "which must precede it"
    support = f"({kept} of {counted(kept + swapped)} {keep} to this)"
    return f"{name} was done {when} {others}, {must} {support}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
