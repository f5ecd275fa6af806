"""The report: one HTML file that needs nothing else, says what was learned in words, and prints well."""

import base64
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from html import escape
from importlib import resources
from pathlib import Path
from statistics import median
from typing import Any

from stepcut.checking.report import Report
from stepcut.checks import check_number
from stepcut.colours import EMPTY_COLOUR, ink
from stepcut.errors import VideoError, as_items, check_kind
from stepcut.order import ProcedureGraph, graph_of_labels
from stepcut.order.orders import counted
from stepcut.procedure.procedure import Procedure
from stepcut.progress import duration
from stepcut.show import plots
from stepcut.show.canvas import Compared, check_procedure, compare, to_svg
from stepcut.show.film import picture_at
from stepcut.timeline import Segment, Timeline, draw_axis
from stepcut.version import __version__

FINDING_COLOUR = "#c5221f"


def make_report(
    procedure: Procedure,
    truth: Any = None,
    checks: Sequence[Report] = (),
    pictures: int = 4,
    title: str = "",
) -> str:
    """A procedure as one self-contained page.

    `truth` is whatever `stepcut.evaluate` takes; with it, scores and true timelines are shown. `checks` are reports of
    `procedure.check`. `pictures` is how many are shown of each step, `title` the heading.
    """
    check_procedure(procedure)
    as_items("checks", checks, Report, "a list of reports, as procedure.check gives them")
    check_number("pictures", pictures, 0, whole=True)
    check_kind("title", title, str, "the words of the heading")
    compared = None if truth is None else compare(procedure, truth)
    shown = graph_of_labels(procedure.labels, float(procedure.rate), procedure.steps)
    expected = procedure.expectations
    trust = (str(procedure.quality), f"{expected.forecast} {expected.advice}", procedure.untaught)
    parts = [
        _section("What was learned", _in_words(procedure, shown)),
        _section(
            "How far to trust it", "".join(f"<p>{escape(each)}</p>" for each in trust if each)
        ),
        _section("The steps", _gallery(procedure, pictures)),
        _section("Timelines", _timelines(procedure, compared)),
        _section("Orders", procedure.orders._repr_html_()),
        _section("What must precede what", _graph(procedure.graph, shown)),
    ]
    if checks:
        parts.append(
            _section("Checked videos", "".join(_checked(procedure, check) for check in checks))
        )
    if compared is not None:
        parts.append(_section("Scores", _scores(compared)))
    choice, curve = procedure.method.choice_, procedure.method.curve_
    if choice is not None:
        drawn = to_svg(plots.choice(procedure))
        parts.append(_section("How many steps", f"<p>{escape(choice.reason)}</p>{drawn}"))
    if procedure.config.get("hierarchy") is not None:
        drawn = to_svg(plots.hierarchy(procedure)) if len(procedure.learned_steps) > 1 else ""
        parts.append(
            _section("With more or fewer steps", drawn + _listed(str(procedure.hierarchy())))
        )
    if curve is not None and curve.values:
        parts.append(_section("Learning", to_svg(plots.loss(procedure))))
    parts.append(_section("Settings and versions", _listed(json.dumps(procedure.config, indent=1))))
    name = escape(title or "A learned procedure")
    style = (resources.files("stepcut.show") / "report.css").read_text(encoding="utf-8")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>'
        f"<body><main><h1>{name}</h1>{''.join(parts)}<footer>Made by stepcut {__version__}, offline. "
        "Look before you trust: videos may share what nobody meant.</footer></main></body></html>"
    )


def _in_words(procedure: Procedure, shown: ProcedureGraph) -> str:
    total = sum(timeline.end for timeline in procedure.timelines.values())
    orders = procedure.orders
    done = [{part.step for part in cut} for cut in procedure.timelines.values()]
    partly = [
        name for name in procedure.steps if 0 < sum(name in steps for steps in done) < len(done)
    ]
    how = (
        f"learned from labels of {len(procedure.learned_annotations.annotated)} and found"
        if procedure.learned_annotations.annotated
        else "found without labels"
    )
    words = [
        f"{len(procedure.steps)} {'step was' if len(procedure.steps) == 1 else 'steps were'} {how} in "
        f"{counted(len(procedure.timelines))}, {duration(total)} in all.",
        "All videos do them in the same order"
        if len(orders) == 1
        else f"The videos do them in {len(orders)} orders",
    ]
    words[-1] += " (by when each is first done, for some come again)." if orders.by_first else "."
    again = [shown.name(step) for step in sorted(shown.repeated)]
    words += [f"Left out by some: {', '.join(partly)}."] if partly else []
    words += [f"Done more than once by some: {', '.join(again)}."] if again else []
    skipped = "".join(
        f"<li>{escape(reason)}</li>" for reason in procedure.config.get("skipped", {}).values()
    )
    unused = f"<p>Left out, since they could not be used:</p><ul>{skipped}</ul>" if skipped else ""
    return f"<p>{escape(' '.join(words))}</p>{unused}"


def _graph(graph: ProcedureGraph, shown: ProcedureGraph) -> str:
    """The graph; where it counts other steps than that of the timelines, which are shown, why."""
    differs = graph.occurs != shown.occurs
    why = "Each video is cut as if it were new here, so a step may be found in fewer of them than the timelines show."
    return (
        (f"<p>{why}</p>" if differs else "")
        + f'<div class="graph">{graph._repr_svg_()}</div>'
        + _listed(str(graph))
    )


def _gallery(procedure: Procedure, each: int) -> str:
    """A card per step: its name on its colour, how often and how long, and pictures from `each` so many videos."""
    cards = []
    for number, name in enumerate(procedure.steps):
        spent = [
            sum(part.duration for part in cut if part.step == name)
            for cut in procedure.timelines.values()
        ]
        seen = [seconds for seconds in spent if seconds > 0]
        often = f"in {len(seen)} of {len(spent)} videos" + (
            f", about {median(seen):.0f} s" if seen else ""
        )
        pictures = "".join(
            f'<img tabindex="0" src="data:image/jpeg;base64,{picture}" title="{escape(video)}, {time:.0f} s" '
            f'alt="{escape(name)} in {escape(video)} at {time:.0f} s">'
            for video, time, picture in find_moments(procedure, name, each)
        )
        fill = procedure.colours[name]
        paint = f"background:{fill};color:{ink(fill)}"
        cards.append(
            f'<article><h3 style="{paint}">{number} · <bdi>{escape(name)}</bdi></h3><p>{often}</p>'
            f"<div>{pictures}</div></article>"
        )
    return f'<div class="gallery">{"".join(cards)}</div>'


def find_moments(procedure: Procedure, step: str, each: int) -> Iterator[tuple[str, float, str]]:
    """The pictures that best show a step, with their videos and times: the middles of its surest segments, from `each`
    so many videos; one that is no longer where it was is passed over."""
    surest: list[tuple[float, str, float]] = []
    for name, timeline in procedure.timelines.items():
        # None: a person set it.
        sure = {
            s: 1.0 if s.confidence is None else s.confidence for s in timeline if s.step == step
        }
        if sure:
            best = max(sure, key=lambda segment: (sure[segment], segment.duration))
            surest.append((-sure[best], name, (best.start + best.end) / 2))
    for _, name, time in sorted(surest)[:each]:
        path = procedure.videos[name]
        if path is not None and Path(path).exists():
            with suppress(VideoError):
                yield name, time, base64.b64encode(picture_at(path, time, height=360)).decode()


def _timelines(procedure: Procedure, compared: Compared | None) -> str:
    """A bar per video on one scale; the true one above, in the colours of the steps it was matched with."""
    end = max(timeline.end for timeline in procedure.timelines.values())
    rows = []
    for name, timeline in procedure.timelines.items():
        above = ""
        if compared is not None and name in compared.timelines:
            above = compared.timelines[name].to_svg(
                compared.colours, end, height=12, label=f"truth of {name}"
            )
        rows.append(
            f"<tr><th>{escape(name)}</th><td>{above}{timeline.to_svg(procedure.colours, end)}</td></tr>"
        )
    rows.append(f"<tr><th></th><td>{draw_axis(end)}</td></tr>")
    legend = "".join(
        f'<li><span style="background:{fill}"></span><bdi>{escape(name)}</bdi></li>'
        for name, fill in procedure.colours.items()
    )
    note = (
        " The narrow bar above each is the truth, in the colour of the step it was matched with."
        if compared
        else ""
    )
    return (
        f'<ul class="legend">{legend}<li><span style="background:{EMPTY_COLOUR}"></span>background</li></ul>'
        f'<table class="timelines">{"".join(rows)}</table>'
        f"<p>Point at a segment to read its times and how sure it is.{note}</p>"
    )


def _checked(procedure: Procedure, check: Report) -> str:
    """The timeline of a checked video, marks beneath it where something was found, and what."""
    done = [Segment(start, end, step.name) for step in check.steps for start, end in step.times]
    drawn = Timeline(done, check.seconds, video=check.video).to_svg(procedure.colours)
    if check.findings:
        marks = Timeline([Segment(f.start, f.end, f.reason) for f in check.findings], check.seconds)
        drawn += marks.to_svg(
            dict.fromkeys(marks.steps, FINDING_COLOUR), height=6, label=f"findings in {check.video}"
        )
    return (
        f'<table class="timelines"><tr><th>{escape(check.video)}</th><td>{drawn}{draw_axis(check.seconds)}</td></tr>'
        f"</table>{check._repr_html_()}"
    )


def _scores(compared: Compared) -> str:
    evaluation = compared.evaluation
    matching = "".join(f"<li>{escape(line)}</li>" for line in evaluation.matching.splitlines())
    each = evaluation.per_step()._repr_html_() + evaluation.per_video()._repr_html_()
    matched = f"<p>Which found step is which true one, and how much of it is right:</p><ul>{matching}</ul>"
    return f"{evaluation._repr_html_()}{matched}<details><summary>by step and video</summary>{each}</details>"


def _section(heading: str, body: str) -> str:
    return f"<section><h2>{escape(heading)}</h2>{body}</section>"


def _listed(text: str) -> str:
    return f"<details><summary>in full</summary><pre>{escape(text)}</pre></details>"
