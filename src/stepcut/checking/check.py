"""Check one segmentation against the expectations of a procedure, and report its deviations."""

import math
from collections.abc import Mapping, Sequence

from scipy.special import ndtr

from stepcut.checking.evidence import KINDS_OF_FAULTS, Comparison, Sign
from stepcut.checking.expectations import Expectations
from stepcut.checking.observe import Floats, Observed, observe
from stepcut.checking.presence import SEEN, word_for
from stepcut.checking.report import Finding, Report, StepSeen
from stepcut.checking.rules import broken_rules
from stepcut.checking.severity import MIN_DETECTION
from stepcut.errors import choose
from stepcut.order.graph import ProcedureGraph
from stepcut.order.orders import Labels, counted, name_of
from stepcut.settings import check_number

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
    must_find: str = "step",
    blind: Sequence[Finding] = (),
    unchecked: str = "",
) -> Report:
    """Compare the segmentation of one video with the expectations.

    labels         the step of each row, (T,); `rate` rows per second
    probabilities  (T, K); without them the labels count as certain
    novelty        (T,); without it, unknown parts are not reported
    embedding      (T, p); without it, another task is not detected
    seconds        the duration, if it is known more precisely than by the rows
    alarm_at       raise an alarm for each step that is missing with at least this probability
    min_detection  least detection rate for the verdict `fine`; below, it is `inconclusive`
    must_find      the fault that this rate is for: step, half, exchange, slow or frozen
    blind          where the camera did not see the task
    unchecked      what is not known of the camera
    """
    if alarm_at is not None:
        check_number("alarm_at", alarm_at, 0, 1, above=True)
    choose("must_find", must_find, KINDS_OF_FAULTS)
    least = MIN_DETECTION if min_detection is None else min_detection
    check_number("min_detection", least, 0, 1)
    shown = observe(labels, rate, probabilities, novelty, embedding)
    compared = Comparison(shown, expectations.usual, expectations.severity)
    parts, score = expectations.judge(compared.amounts)
    length = shown.seconds if seconds is None else seconds
    steps = _steps(compared, expectations, names, length, alarm_at)
    alarms = tuple(one.name for one in steps if 1 - one.probability >= one.alarm_at)
    # A video that shows all usual steps shows this task.
    lacks = any(one.share_of_videos > 0.5 and one.probability < SEEN for one in steps)
    distance = expectations.task.distance(shown) if expectations.task else 0.0
    distance = distance if lacks else min(distance, 1.0)
    invariant = {name_of(step, names) for step in expectations.invariant}
    loud: list[Sign] = []
    if score > 1 or alarms or distance > 1:
        loud = _reasons(compared, expectations, parts, [s for s in steps if s.name in alarms])
    return Report(
        video=video,
        seconds=length,
        findings=[
            *broken_rules(expectations.rules, shown.occurrences, names, length),
            *(_finding(sign, shown, expectations, names, length) for sign in loud),
            *blind,
        ],
        score=score,
        steps=steps,
        task_distance=distance,
        false_alarms=expectations.false_alarms,
        promised=expectations.promised,
        learned=expectations.normal,
        alarms=alarms,
        detection=expectations.detects,
        invariant=tuple(step.name for step in steps if step.name in invariant),
        must_find=must_find,
        min_detection=least,
        aside=expectations.aside,
        unchecked=unchecked,
        remedy=expectations.remedy(least, names, must_find),
    )


def _reasons(
    compared: Comparison,
    expectations: Expectations,
    parts: Mapping[str, float],
    alarming: Sequence[StepSeen],
) -> list[Sign]:
    """The deviations to report of a video that raises an alarm, the rarest first."""
    shown, named = compared.video, {step.step for step in alarming}
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
    along = compared.alignment.along

    def rank(sign: Sign) -> tuple[bool, float, float, float]:
        """Alarming steps first, then the rarest; of equals, where the video differs most."""
        missing = sign.kind == "missed" and not sign.how
        again = -sign.measure if sign.kind == "extra" else 0.0
        apart = _apart(sign, along, shown.seconds)
        return (not (missing and sign.step in named), round(sign.chance, 6), again, -apart)

    loud = []
    for sign in sorted(signs, key=rank):
        if sign.kind == "missed" and not sign.how:
            unseen = word_for(sign.measure) == "not seen" and sign.chance < 0.5
            loud += [sign] if unseen or sign.step in named else []
        elif sign.chance < NOTABLE:
            loud.append(sign)
    # If no reason has a position, add the part in which the video differs most.
    if not any(sign.step is not None or sign.kind == "unknown" for sign in loud):
        subtle = compared.apart(float(ndtr(-parts["apart"])))
        loud += [sign for sign in subtle if sign.chance < NOTABLE]
    return loud or sorted(signs, key=rank)[:1]


def _apart(sign: Sign, along: Floats, seconds: float) -> float:
    """Mean distance to the other videos during a sign; `along` has the distance per slice, (N,)."""
    first, last = (int(time / max(seconds, 1e-9) * len(along)) for time in (sign.start, sign.end))
    first = min(first, len(along) - 1)
    return float(along[first : max(last, first) + 1].mean())


def _steps(
    compared: Comparison,
    expectations: Expectations,
    names: Sequence[str],
    length: float,
    alarm_at: float | None,
) -> list[StepSeen]:
    """Return the probability of every step, least likely first."""
    graph, shown, found = expectations.graph, compared.video, []
    critical = expectations.severity.critical
    for step in sorted({*graph.steps, *range(len(names)), *critical}):
        parts = shown.by_step.get(step, [])
        times = tuple((min(one.start, length), min(one.end, length)) for one in parts)
        probability = compared.likely.get(step, float(bool(times)))
        share = graph.occurs.get(step, 0) / graph.videos
        limit = expectations.alarm_limit(step, alarm_at)
        found.append(StepSeen(step, name_of(step, names), probability, times, share, limit))
    return sorted(found, key=lambda one: one.probability)


def _finding(
    sign: Sign, shown: Observed, expectations: Expectations, names: Sequence[str], length: float
) -> Finding:
    name = "" if sign.step is None else name_of(sign.step, names)
    whole = sign._replace(measure=length) if sign.kind == "unusual" and sign.step is None else sign
    reason = explain(whole, expectations, names, shown)
    start, end = min(sign.start, length), min(sign.end, length)
    return Finding(sign.kind, start, end, sign.step, name, 1 - sign.chance, reason)


def explain(
    sign: Sign, expectations: Expectations, names: Sequence[str], shown: Observed | None = None
) -> str:
    """Describe a deviation in one sentence, for `check` and `guide`."""
    usual, graph = expectations.usual, expectations.graph
    if sign.kind == "unknown":
        return f"{sign.end - sign.start:.0f} s match no known step"
    if sign.how == "apart":
        return "the video differs most from the reference videos here"
    if sign.step is None:
        middle = _seconds(math.exp(usual.length.middle))
        return f"the video took {_seconds(sign.measure)}, unusually {sign.how}; {middle} is usual"
    step, name = sign.step, name_of(sign.step, names)
    if sign.kind == "missed" and not sign.how:
        critical = ", and is critical" if step in expectations.severity.critical else ""
        share = f"{graph.occurs.get(step, 0)} of {counted(graph.videos)} do it"
        likely = f"{word_for(sign.measure)} (probability {100 * sign.measure:.0f} %)"
        reason = f"{name} was {likely}{critical}; {share}"
        return f"{reason}, before {name_of(sign.others[0], names)}" if sign.others else reason
    if sign.kind == "misordered":
        if not sign.others:
            when, usually = sign.measure, usual.times[step]
            return f"{name} was done {sign.how}, at {when:.0%} of the video; {usually:.0%} is usual"
        others = " and ".join(name_of(other, names) for other in sign.others)
        kept, together = _support(graph, sign)
        support = f"({kept} of {counted(together)} {'keeps' if kept == 1 else 'keep'} to this)"
        if sign.how == "early":
            return f"{name} was done before {others}, which must precede it {support}"
        return f"{name} was done only after {others}, which it must precede {support}"
    if sign.kind in ("extra", "missed"):
        often = "once" if sign.measure == 1 else f"{sign.measure:.0f} times"
        counts = usual.repeats[step]
        if sign.kind == "extra":
            others, how = str(sum(times < sign.measure for times in counts)), "less"
        else:
            others, how = str(sum(times > sign.measure for times in counts)), "more"
        return f"{name} was done {often}; {others} of {counted(len(counts))} do it {how} often"
    middle = _seconds(math.exp(usual.paces[step].middle))
    number = len(shown.by_step.get(step, ())) if shown else 1
    split = f" in {number} parts" if number > 1 else ""
    return f"{name} took {_seconds(sign.measure)}{split}, unusually {sign.how}; {middle} is usual"


def _support(graph: ProcedureGraph, sign: Sign) -> tuple[int, int]:
    """Videos that keep the least supported relation, and videos that do both of its steps."""
    first, step = graph.first, sign.step or 0
    late = sign.how == "late"
    pairs = [(step, other) if late else (other, step) for other in sign.others]
    kept, swapped = min((first.get((a, b), 0), first.get((b, a), 0)) for a, b in pairs)
    return kept, kept + swapped


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
