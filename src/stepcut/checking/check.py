"""Check one segmentation against the expectations of a procedure, and report its deviations."""

import math
from collections.abc import Mapping, Sequence

from scipy.special import ndtr

from stepcut.checking.evidence import Comparison, Sign
from stepcut.checking.expectations import Expectations
from stepcut.checking.observe import Floats, Observed, observe
from stepcut.checking.presence import word_for
from stepcut.checking.report import Finding, Report, StepSeen
from stepcut.checking.severity import check_share
from stepcut.order.orders import Labels, counted, name_of

NOTABLE = 0.05
"""In a video that raises an alarm, deviations less likely than this are reported."""


def check_labels(
    labels: Labels,
    rate: float,
    expectations: Expectations,
    probabilities: Floats | None = None,
    novelty: Floats | None = None,
    names: Sequence[str] = (),
    video: str = "",
    embedding: Floats | None = None,
    seconds: float | None = None,
    alarm_at: float | None = None,
    min_detection: float | None = None,
) -> Report:
    """Compare the segmentation of one video with the expectations.

    labels         the step of each row, (T,); `rate` rows per second
    probabilities  (T, K); without them the labels count as certain
    novelty        (T,); without it, unknown parts are not reported
    embedding      (T, p); without it, another task is not detected
    seconds        the duration, if it is known more precisely than by the rows
    alarm_at       raise an alarm for each step that is missing with at least this probability
    min_detection  if the check would find fewer missing steps than this share, a video without
                   deviations is inconclusive
    """
    check_share("alarm_at", alarm_at)
    check_share("min_detection", min_detection)
    shown = observe(labels, rate, probabilities, novelty, embedding)
    compared = Comparison(shown, expectations.usual, expectations.severity)
    parts, score = expectations.judge(compared.amounts)
    distance = expectations.task.distance(shown)
    length = shown.seconds if seconds is None else seconds
    steps = _steps(shown, expectations, names, length, alarm_at)
    alarms = tuple(one.name for one in steps if 1 - one.probability >= one.alarm_at)
    reported = {sign.step for sign in compared.signs if sign.kind == "missed"}
    # Optional steps and steps that no training video shows have no sign yet.
    signs = compared.signs + [
        Sign("missed", 1.0, 0.0, shown.seconds, one.step, measure=one.probability)
        for one in steps
        if one.name in alarms and one.step not in reported
    ]
    loud: list[Sign] = []
    if score > 1 or alarms or distance > 1:
        exchanged = any(sign.kind == "misordered" and sign.chance < NOTABLE for sign in signs)
        if not exchanged and parts["timing"] == max(parts.values()):
            chance = float(ndtr(-parts["timing"]))
            signs += compared.untimely(chance)
        along = compared.alignment.along
        # Ties: signs with a position first, then the most repeated step, then the sign during
        # which the video differs most from the others.
        ranked = sorted(
            signs,
            key=lambda s: (
                -_contribution(s, parts),
                s.step is None and s.kind != "unknown",
                -s.measure if s.kind == "extra" else 0.0,
                -_apart(s, along, shown.seconds),
                s.chance,
            ),
        )
        unseen = {one.step for one in steps if one.seen == "not seen" or one.name in alarms}
        loud = [
            s
            for s in ranked
            if (s.step in unseen if s.kind == "missed" and not s.how else s.chance < NOTABLE)
        ]
        # If no sign has a position, add the part in which the video differs most.
        if not any(s.step is not None or s.kind == "unknown" for s in loud):
            apart = float(ndtr(-parts["apart"]))
            subtle = [s for s in compared.apart(apart) if s.chance < NOTABLE]
            loud = (loud + subtle) or ranked[:1]
    return Report(
        video=video,
        seconds=length,
        findings=[_finding(sign, shown, expectations, names, length) for sign in loud],
        score=score,
        steps=steps,
        task_distance=distance,
        false_alarms=expectations.false_alarms,
        promised=expectations.promised,
        learned=expectations.normal,
        alarms=alarms,
        detection=expectations.detects,
        min_detection=min_detection,
    )


def _contribution(sign: Sign, parts: Mapping[str, float]) -> float:
    """Contribution to the total of the measure that a sign belongs to."""
    if sign.kind == "misordered" and not sign.others:
        return parts["timing"]
    return parts[
        "length"
        if sign.kind == "unusual" and sign.step is None and sign.how == "short"
        else sign.kind
    ]


def _apart(sign: Sign, along: Floats, seconds: float) -> float:
    """Mean distance to the other videos during a sign; `along` has the distance per slice, (N,)."""
    first, last = (int(time / max(seconds, 1e-9) * len(along)) for time in (sign.start, sign.end))
    first = min(first, len(along) - 1)
    return float(along[first : max(last, first) + 1].mean())


def _steps(
    shown: Observed,
    expectations: Expectations,
    names: Sequence[str],
    length: float,
    alarm_at: float | None,
) -> list[StepSeen]:
    """Return the probability of every step, least likely first."""
    usual, severity, found = expectations.usual, expectations.severity, []
    likely = usual.presence.probabilities(shown.evidence)
    for step in sorted({*usual.graph.steps, *range(len(names)), *severity.critical}):
        times = tuple(
            (min(one.start, length), min(one.end, length))
            for one in shown.occurrences
            if one.step == step
        )
        probability = float(likely[step]) if step < len(likely) else float(bool(times))
        share = usual.graph.occurs.get(step, 0) / usual.graph.videos
        limit = severity.alarm_limit(step, alarm_at)
        found.append(StepSeen(step, name_of(step, names), probability, times, share, limit))
    return sorted(found, key=lambda one: one.probability)


def _finding(
    sign: Sign, shown: Observed, expectations: Expectations, names: Sequence[str], length: float
) -> Finding:
    name = "" if sign.step is None else name_of(sign.step, names)
    whole = sign._replace(measure=length) if sign.kind == "unusual" and sign.step is None else sign
    reason = _reason(whole, shown, expectations, name, names)
    start, end = min(sign.start, length), min(sign.end, length)
    return Finding(sign.kind, start, end, sign.step, name, 1 - sign.chance, reason)


def _reason(
    sign: Sign, shown: Observed, expectations: Expectations, name: str, names: Sequence[str]
) -> str:
    usual = expectations.usual
    graph = usual.graph
    if sign.kind == "unknown":
        return f"{sign.end - sign.start:.0f} s match no known step"
    if sign.how == "apart":
        return "the video differs most from the training videos here"
    if sign.step is None:
        middle = _seconds(math.exp(usual.length.middle))
        return f"the video took {_seconds(sign.measure)}, unusually {sign.how}; {middle} is usual"
    if sign.how == "fewer":
        more = sum(times > sign.measure for times in graph.times[sign.step])
        often = "once" if sign.measure == 1 else f"{sign.measure:.0f} times"
        return f"{name} was done {often}; {more} of {counted(graph.videos)} do it more often"
    if sign.kind == "missed":
        critical = ", and is critical" if sign.step in expectations.severity.critical else ""
        share = f"{graph.occurs.get(sign.step, 0)} of {counted(graph.videos)} do it"
        likely = f"{word_for(sign.measure)} (probability {100 * sign.measure:.0f} %)"
        reason = f"{name} was {likely}{critical}; {share}"
        later = [
            d.step
            for d in shown.occurrences
            if d.start == sign.end and d.step in graph.after(sign.step)
        ]
        return f"{reason}, before {name_of(later[0], names)}" if later else reason
    if sign.kind == "misordered":
        if not sign.others:
            when, usually = sign.measure, usual.times[sign.step]
            return f"{name} was done {sign.how}, at {when:.0%} of the video; {usually:.0%} is usual"
        others = " and ".join(name_of(step, names) for step in sign.others)
        kept, together = _support(expectations, sign)
        support = f"({kept} of {counted(together)} {'keeps' if kept == 1 else 'keep'} to this)"
        if sign.how == "early":
            return f"{name} was done before {others}, which must precede it {support}"
        return f"{name} was done only after {others}, which it must precede {support}"
    if sign.kind == "extra":
        fewer = sum(times < sign.measure for times in graph.times[sign.step])
        videos = counted(graph.occurs[sign.step])
        return f"{name} was done {sign.measure:.0f} times; {fewer} of {videos} do it less often"
    middle = _seconds(math.exp(usual.paces[sign.step].middle))
    parts = sum(one.step == sign.step for one in shown.occurrences)
    split = f" in {parts} parts" if parts > 1 else ""
    return f"{name} took {_seconds(sign.measure)}{split}, unusually {sign.how}; {middle} is usual"


def _support(expectations: Expectations, sign: Sign) -> tuple[int, int]:
    """Videos that keep the least supported relation, and videos that do both of its steps."""
    first, step = expectations.usual.graph.first, sign.step or 0
    pairs = [(other, step) if sign.how == "early" else (step, other) for other in sign.others]
    kept, swapped = min((first.get((a, b), 0), first.get((b, a), 0)) for a, b in pairs)
    return kept, kept + swapped


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
