"""The HTML report: one self-contained file that also prints well."""

import base64
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from html import escape
from importlib import resources
from pathlib import Path
from statistics import median
from typing import Any

from msgspec import to_builtins

from stepcut.checking.report import Report
from stepcut.colours import EMPTY_COLOUR, ink
from stepcut.errors import VideoError, as_items, check_kind
from stepcut.methods.quality import Quality
from stepcut.order import graph_of_labels
from stepcut.order.orders import counted
from stepcut.procedure.procedure import Procedure
from stepcut.progress import duration
from stepcut.settings import check_number
from stepcut.show import draw_axis, draw_bar, plots
from stepcut.show.clips import picture_at
from stepcut.show.plots import Compared, check_procedure, compare, to_svg
from stepcut.timeline import Segment, Timeline
from stepcut.version import __version__

FINDING_COLOUR = "#c5221f"
NAMED = 3  # deviating videos that the summary names; the others are counted
IN_SHORT = {
    "missed": "{} is missing",
    "misordered": "{} is out of order",
    "extra": "{} is repeated",
    "unusual": "{} is unusual",
    "unknown": "something unknown happens",
    "rule": "{} breaks a rule",
    "input": "the camera did not see all of it",
}


def make_report(
    procedure: Procedure,
    truth: Any = None,
    checks: Sequence[Report] = (),
    pictures: int = 4,
    title: str = "",
) -> str:
    """Write a procedure as one self-contained HTML page, with `pictures` per step."""
    check_procedure(procedure)
    as_items("checks", checks, Report, "a list of reports, as procedure.check gives them")
    check_number("pictures", pictures, 0, whole=True)
    check_kind("title", title, str, "the text of the heading")
    compared = None if truth is None else compare(procedure, truth)
    shown = graph_of_labels(procedure.labels, float(procedure.rate), procedure.steps)
    why = "Here each video is segmented as if it were new, so counts may be below those above."
    note = f"<p>{why}</p>" if procedure.graph.occurs != shown.occurs else ""
    sections = {
        "The steps": _gallery(procedure, pictures),
        "Timelines of all videos": _timelines(procedure, compared),
        "Checked videos": "".join(_checked(procedure, check) for check in checks),
        "What comes before what": f'{note}<div class="graph">{procedure.graph._repr_svg_()}</div>',
    }
    parts = [f'<div class="summary">{_summary(procedure, checks)}</div>']
    parts += [
        f"<section><h2>{head}</h2>{body}</section>" for head, body in sections.items() if body
    ]
    details = _details(procedure, compared)
    parts.append(f'<section class="details"><h2>Details</h2>{details}</section>')
    name = escape(title or "A learned procedure")
    style = (resources.files("stepcut.show") / "report.css").read_text(encoding="utf-8")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{style}</style></head><body><main><h1>{name}</h1>{''.join(parts)}"
        f"<footer>Made with stepcut {__version__}.</footer></main></body></html>"
    )


def _summary(procedure: Procedure, checks: Sequence[Report]) -> str:
    total = sum(timeline.end for timeline in procedure.timelines.values())
    videos = f"{counted(len(procedure.timelines))} ({duration(total)})"
    steps = f"{len(procedure.steps)} {'step' if len(procedure.steps) == 1 else 'steps'}"
    learned = f"{steps} discovered in {videos} without any labels."
    if labelled := len(procedure.learned.annotations.annotated):
        learned = f"{steps} learned from {videos}, {labelled} of them labelled by a person."
    sentences = [learned, _trust(procedure.quality)]
    wrong = [check for check in checks if check.deviates]
    if checks and not wrong:
        blind = sum(check.inconclusive for check in checks)
        some = f", {blind} of them inconclusive" if blind else ""
        found = f"{counted(len(checks))} checked: no deviation found{some}."
        sentences.append(f"{found} {checks[0].power}")
    elif wrong:
        named = "; ".join(f"{check.video}: {_worst(check)}" for check in wrong[:NAMED])
        more = f"; and {len(wrong) - NAMED} more" if len(wrong) > NAMED else ""
        deviate = "deviates" if len(wrong) == 1 else "deviate"
        checked = f"{len(wrong)} of {len(checks)} checked videos {deviate}"
        sentences.append(f"{checked}: {named}{more}.")
    for check in checks:
        if not check.deviates and check.unseen:
            sentences.append(f"{check.video}: not seen: {', '.join(check.unseen)}.")
    skipped = "".join(f"<li>{escape(reason)}</li>" for reason in procedure.config.skipped.values())
    unused = f"<p>These videos could not be used:</p><ul>{skipped}</ul>" if skipped else ""
    return "".join(f"<p>{escape(each)}</p>" for each in sentences) + unused


def _trust(quality: Quality) -> str:
    now = quality.now
    if now is None:
        return str(quality)
    low, right, high = (f"{100 * share:.0f}" for share in (now.low, now.right, now.high))
    return f"Estimated: {right} % of the unlabelled time is right (between {low} and {high} %)."


def _worst(check: Report) -> str:
    if check.other_task:
        return "it shows another task"
    if check.findings:
        first = check.findings[0]
        return IN_SHORT[first.kind].format(first.name or "the video")
    return "it is unusual as a whole"


def _details(procedure: Procedure, compared: Compared | None) -> str:
    expected = procedure.expectations
    trust = (expected.forecast, expected.advice, procedure.untaught)
    done = [{part.step for part in each} for each in procedure.timelines.values()]
    some = [step for step in procedure.steps if 0 < sum(step in each for each in done) < len(done)]
    skipped = f"<p>Not done in every video: {escape(', '.join(some))}.</p>" if some else ""
    first = "<p>Some steps are repeated; steps are sorted by their first occurrence.</p>"
    orders = (first if procedure.orders.by_first else "") + procedure.orders._repr_html_()
    parts = {
        "Orders of the steps": skipped + orders,
        "How reliable the timelines are": f"<p>{escape(str(procedure.quality))}</p>",
        "What a check can find": "".join(f"<p>{escape(each)}</p>" for each in trust if each),
        "What comes before what, as text": _text(str(procedure.graph)),
    }
    if compared is not None:
        parts["Scores against the true timelines"] = _scores(compared)
    why, curve = procedure.method.why_steps_, procedure.method.curve_
    if why:
        parts["How the number of steps was chosen"] = f"<p>{escape(why)}</p>"
    if procedure.config.hierarchy is not None:
        drawn = to_svg(plots.hierarchy(procedure)) if len(procedure.learned.steps) > 1 else ""
        parts["With more or fewer steps"] = drawn + _text(str(procedure.hierarchy()))
    if curve is not None and curve.values:
        parts["Training loss"] = to_svg(plots.loss(procedure))
    parts["Settings and versions"] = _text(json.dumps(to_builtins(procedure.config), indent=1))
    return "".join(
        f"<details><summary>{escape(name)}</summary>{body}</details>"
        for name, body in parts.items()
    )


def _gallery(procedure: Procedure, each: int) -> str:
    cards = []
    for number, name in enumerate(procedure.steps, 1):
        spent = [
            sum(part.duration for part in timeline if part.step == name)
            for timeline in procedure.timelines.values()
        ]
        seen = [seconds for seconds in spent if seconds > 0]
        often = f"in {len(seen)} of {len(spent)} videos"
        often += f", about {median(seen):.0f}&nbsp;s" if seen else ""
        pictures = "".join(
            f'<img tabindex="0" src="data:image/jpeg;base64,{picture}" '
            f'title="{escape(video)}, {time:.0f} s" '
            f'alt="{escape(name)} in {escape(video)} at {time:.0f} s">'
            for video, time, picture in find_moments(procedure, name, each)
        )
        fill = procedure.colours[name]
        cards.append(
            f'<article><h3 style="background:{fill};color:{ink(fill)}">{number} · '
            f"<bdi>{escape(name)}</bdi></h3><p>{often}</p><div>{pictures}</div></article>"
        )
    return f'<div class="gallery">{"".join(cards)}</div>'


def find_moments(procedure: Procedure, step: str, each: int) -> Iterator[tuple[str, float, str]]:
    """Yield video, time and JPEG of pictures that show a step best: of confident segments."""
    candidates: list[tuple[float, str, float]] = []
    for name, timeline in procedure.timelines.items():
        # A segment without a confidence was set by a person, and comes first.
        shown = [
            (2.0 if s.confidence is None else s.confidence, s.duration, s)
            for s in timeline
            if s.step == step
        ]
        if shown:
            sure, _, best = max(shown, key=lambda each: each[:2])
            candidates.append((-sure, name, (best.start + best.end) / 2))
    for _, name, time in sorted(candidates)[:each]:
        path = procedure.videos[name]
        if path is not None and Path(path).exists():
            moment = procedure.timelines[name].offset + time
            with suppress(VideoError):
                yield name, moment, base64.b64encode(picture_at(path, moment, height=360)).decode()


def _timelines(procedure: Procedure, compared: Compared | None) -> str:
    end = max(timeline.end for timeline in procedure.timelines.values())
    rows = []
    for name, timeline in procedure.timelines.items():
        above = ""
        if compared is not None and name in compared.timelines:
            true, label = compared.timelines[name], f"truth of {name}"
            above = draw_bar(true, compared.colours, end, height=10, label=label)
        drawn = draw_bar(timeline, procedure.colours, end)
        rows.append(f"<tr><th>{escape(name)}</th><td>{above}{drawn}</td></tr>")
    rows.append(f"<tr><th></th><td>{draw_axis(end)}</td></tr>")
    legend = "".join(
        f'<li><span style="background:{fill}"></span><bdi>{escape(name)}</bdi></li>'
        for name, fill in procedure.colours.items()
    )
    note = "<p>The narrow bar above each timeline is the ground truth.</p>" if compared else ""
    return (
        f'<ul class="legend">{legend}<li><span style="background:{EMPTY_COLOUR}"></span>'
        f'background</li></ul><table class="timelines">{"".join(rows)}</table>{note}'
    )


def _checked(procedure: Procedure, check: Report) -> str:
    done = [Segment(start, end, step.name) for step in check.steps for start, end in step.times]
    drawn = draw_bar(Timeline(done, check.seconds, video=check.video), procedure.colours)
    if check.findings:
        marks = Timeline([Segment(f.start, f.end, f.reason) for f in check.findings], check.seconds)
        red = dict.fromkeys(marks.steps, FINDING_COLOUR)
        drawn += draw_bar(marks, red, height=6, label=f"findings in {check.video}")
    if not check.deviates:
        text = f"{check.outcome[0].upper()}{check.outcome[1:]}. {check.power}"
        doubt = not check.ok or check.unseen
        result = f"<p>{escape(text)}</p>" if doubt else f'<p class="fine">✓ {escape(text)}</p>'
    else:
        found = [f"<b>{_minutes(f.start)}</b> {escape(f.reason)}" for f in check.findings]
        result = f'<ul class="wrong">{"".join(f"<li>✗ {each}</li>" for each in found)}</ul>'
        result = result if found else f'<p class="wrong">✗ {escape(_worst(check))}</p>'
    return (
        f'<article class="checked"><table class="timelines"><tr><th>{escape(check.video)}</th>'
        f"<td>{drawn}{draw_axis(check.seconds)}</td></tr></table>{result}"
        f"<details><summary>step by step</summary>{_step_table(procedure, check)}</details>"
        "</article>"
    )


def _step_table(procedure: Procedure, check: Report) -> str:
    order = {name: number for number, name in enumerate(procedure.steps)}
    rows = "".join(
        f"<tr><td><bdi>{escape(one.name)}</bdi></td><td>{one.seen}</td>"
        f"<td>{100 * one.probability:.0f} %</td>"
        f"<td>{', '.join(f'{_minutes(a)}–{_minutes(b)}' for a, b in one.times)}</td></tr>"
        for one in sorted(check.steps, key=lambda one: order.get(one.name, len(order)))
    )
    head = "<th>step</th><th>result</th><th>probability</th><th>when (min:s)</th>"
    texts = (check.power if check.deviates else "", check.note)
    notes = "".join(f"<p>{escape(text)}</p>" for text in texts if text)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{notes}"


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _scores(compared: Compared) -> str:
    evaluation = compared.evaluation
    matching = "".join(f"<li>{escape(line)}</li>" for line in evaluation.matching.splitlines())
    each = evaluation.per_step()._repr_html_() + evaluation.per_video()._repr_html_()
    return f"{evaluation._repr_html_()}<ul>{matching}</ul>{each}"


def _text(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"
