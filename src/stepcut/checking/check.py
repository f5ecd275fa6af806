"""Check: what a video misses, repeats, does out of order, too quickly or slowly, and what in it matches no step."""

import math
from collections.abc import Mapping, Sequence

from scipy.special import ndtr

from stepcut.checking.evidence import (
    Sign,
    beside,
    find_apart,
    find_faint,
    find_signs,
    find_untimely,
    likeness,
)
from stepcut.checking.expectations import Expectations
from stepcut.checking.observe import Floats, Observed, observe
from stepcut.checking.report import Finding, Report, StepSeen
from stepcut.order.orders import Labels, counted, name_of

NOTABLE = 0.05
"""In a video that is called wrong, a sign with a smaller chance than this is worth a line; the strongest always is."""
DIM, CLEAR = 0.01, 0.25
"""A step in the cut that is less clear than in this share of the videos that do it is doubtful; so is one that is not
in the cut and yet clearer than in that share of them."""


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
) -> Report:
    """Compare the cut of one video, `labels` (T,) of its rows, `rate` a second, with what is expected; `names` are
    those of the steps, and `video` its own.

    probabilities   (T, K); without them a step that is not in the cut is never doubtful
    novelty       (T,); without it nothing is said of unknown stretches
    embedding     (T, p); without it another task is not told
    seconds       of the video, where its end is known more finely than by rows
    """
    shown = observe(labels, rate, probabilities, novelty, embedding)
    signs = find_signs(shown, expectations.usual, expectations.severity)
    worth, score = expectations.judge(shown, signs)
    distance = expectations.task.distance(shown)
    length = shown.seconds if seconds is None else seconds
    steps = _steps(shown, expectations, names, length)
    critical = tuple(
        one.name
        for one in steps
        if one.step in expectations.severity.critical and one.seen == "not seen"
    )
    told = {sign.step for sign in signs if sign.kind == "missed"}
    absent = [
        one.step for one in steps if one.name in critical and one.step not in told
    ]  # in no video learned from
    signs += [Sign("missed", 1.0, 0.0, shown.seconds, step) for step in absent]
    loud: list[Sign] = []
    if score > 1 or critical or distance > 1:
        exchanged = any(sign.kind == "misordered" and sign.chance < NOTABLE for sign in signs)
        if not exchanged and worth["timing"] == max(worth.values()):
            chance = float(ndtr(-worth["timing"]))
            signs += find_untimely(shown, expectations.usual, chance, expectations.severity)
        along = beside(shown, expectations.usual, expectations.severity).along
        # Of what adds alike, that first in which the video is least like the others while it happens.
        ranked = sorted(
            signs, key=lambda s: (-_worth(s, worth), -_apart(s, along, shown.seconds), s.chance)
        )
        always = [
            s
            for s in ranked
            if s.kind == "missed" and not s.how and s.step in expectations.severity.critical
        ]
        loud = [s for s in ranked if s.chance < NOTABLE or s in always]
        if not any(s.step is not None or s.kind == "unknown" for s in loud):  # nothing says where
            faint, apart = (
                float(ndtr(-way)) for way in (worth["faint"], max(worth["apart"], worth["unlike"]))
            )
            subtle = find_faint(shown, expectations.usual, faint, expectations.severity)
            subtle = sorted([*subtle, *find_apart(shown, along, apart)], key=lambda s: s.chance)[:1]
            loud += [s for s in subtle if s.chance < NOTABLE]
            loud = loud or sorted([*ranked[:1], *subtle], key=lambda s: s.chance)[:1]
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
        critical=critical,
    )


def _worth(sign: Sign, worth: Mapping[str, float]) -> float:
    """What the way of straying that a sign belongs to adds to the total."""
    if sign.kind == "misordered" and not sign.others:
        return worth["timing"]
    return worth[
        "length"
        if sign.kind == "unusual" and sign.step is None and sign.how == "short"
        else sign.kind
    ]


def _apart(sign: Sign, along: Floats, seconds: float) -> float:
    """How far a video of so many `seconds` is apart from others in the time of a sign; `along`: by slices, (N,)."""
    first, last = (int(time / max(seconds, 1e-9) * len(along)) for time in (sign.start, sign.end))
    first = min(first, len(along) - 1)
    return float(along[first : max(last, first) + 1].mean())


def _steps(
    shown: Observed, expectations: Expectations, names: Sequence[str], length: float
) -> list[StepSeen]:
    """What was seen of every step, also of those that the cut finds in none of the videos learned from."""
    usual, found = expectations.usual, []
    for step in sorted({*usual.graph.steps, *range(len(names)), *expectations.severity.critical}):
        times = tuple(
            (min(one.start, length), min(one.end, length))
            for one in shown.occurrences
            if one.step == step
        )
        alike = likeness(shown, step, usual)
        seen = "seen" if times else "not seen"
        if (
            shown.peaks is not None
            and usual.peaks.get(step)
            and (alike < DIM if times else alike > CLEAR)
        ):
            seen = "doubtful"
        share = usual.graph.occurs.get(step, 0) / usual.graph.videos
        found.append(StepSeen(step, name_of(step, names), seen, times, share))
    return found


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
        return "the video goes otherwise than those learned from, most of all here"
    if sign.step is None:
        middle = _seconds(math.exp(usual.length.middle))
        return f"the video took {_seconds(sign.measure)}, unusually {sign.how}; {middle} is usual"
    if sign.how == "fewer":
        more = sum(times > sign.measure for times in graph.times[sign.step])
        often = "once" if sign.measure == 1 else f"{sign.measure:.0f} times"
        return f"{name} was done {often}; {more} of {counted(graph.videos)} do it more often"
    if sign.kind == "missed":
        critical = ", and is critical" if sign.step in expectations.severity.critical else ""
        reason = f"{name} was not done{critical}; {graph.occurs.get(sign.step, 0)} of {counted(graph.videos)} do it"
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
        said = f"({kept} of {counted(together)} {'keeps' if kept == 1 else 'keep'} to this)"
        if sign.how == "early":
            return f"{name} was done before {others}, which must precede it {said}"
        return f"{name} was done only after {others}, which it must precede {said}"
    if sign.kind == "extra":
        fewer = sum(times < sign.measure for times in graph.times[sign.step])
        return f"{name} was done {sign.measure:.0f} times; {fewer} of {counted(graph.occurs[sign.step])} do it less often"
    if sign.how == "faint":
        return f"{name} shows less clearly than is usual"
    middle = _seconds(math.exp(usual.paces[sign.step].middle))
    parts = sum(one.step == sign.step for one in shown.occurrences)
    split = f" in {parts} parts" if parts > 1 else ""
    return f"{name} took {_seconds(sign.measure)}{split}, unusually {sign.how}; {middle} is usual"


def _support(expectations: Expectations, sign: Sign) -> tuple[int, int]:
    """How many videos keep the least kept of the relations, of those that do both steps."""
    first, step = expectations.usual.graph.first, sign.step or 0
    pairs = [(other, step) if sign.how == "early" else (step, other) for other in sign.others]
    kept, swapped = min((first.get((a, b), 0), first.get((b, a), 0)) for a, b in pairs)
    return kept, kept + swapped


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"
