"""Show a procedure: plots, clips, an HTML report, and (here) timelines as bars in SVG."""

import math
from collections.abc import Mapping
from html import escape
from numbers import Real

from stepcut.colours import BACKGROUND_COLOUR, EMPTY_COLOUR, colour, legend
from stepcut.errors import check_kind
from stepcut.timeline import Timeline, clock

_WIDTH = 1000


def draw_bar(
    timeline: Timeline,
    colours: Mapping[str, str] | None = None,
    end: float | None = None,
    height: int = 26,
    label: str = "",
) -> str:
    """Draw a bar with a block per segment and a pin per click; details appear on hover.

    Bars share one scale if they have the same time `end` at the right edge. `label` is for screen
    readers, `height` in pixels.
    """
    check_kind("timeline", timeline, Timeline, "a Timeline")
    check_kind("colours", colours, (Mapping, type(None)), "a dict from step names to colours")
    check_kind("end", end, (Real, type(None)), "seconds")
    check_kind("height", height, Real, "a number of pixels")
    whole = end or timeline.end or 1.0
    paint = _colours(timeline) if colours is None else colours
    ground = f'width="{timeline.end / whole * _WIDTH:.1f}" height="{height}"'
    blocks = [f'<rect {ground} fill="{EMPTY_COLOUR}"/>']
    for segment in timeline:
        left = segment.start / whole * _WIDTH
        fill = paint.get(segment.step, BACKGROUND_COLOUR)
        confidence = "" if segment.confidence is None else f", confidence {segment.confidence:.2f}"
        name = escape(segment.step)
        if segment.is_click:
            tip = f"{name}, click at {clock(segment.start + timeline.offset)}{confidence}"
            pin = f"{left - 5:.1f},0 {left + 5:.1f},0 {left:.1f},{height}"
            shape = f'<polygon points="{pin}" fill="{fill}" stroke="#000" stroke-width="0.5">'
            blocks.append(f"{shape}<title>{tip}</title></polygon>")
        else:
            first, last = (clock(at + timeline.offset) for at in (segment.start, segment.end))
            tip = f"{name}, {first} to {last}{confidence}"
            width = max(segment.duration / whole * _WIDTH, 1.0)
            shape = f'x="{left:.1f}" width="{width:.1f}" height="{height}"'
            blocks.append(f'<rect {shape} fill="{fill}"><title>{tip}</title></rect>')
    text = label or f"{timeline.video}: " + ", ".join(timeline.sequence())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'preserveAspectRatio="none" width="100%" height="{height}" role="img" '
        f'aria-label="{escape(str(text), quote=True)}">{"".join(blocks)}</svg>'
    )


def draw_axis(end: float) -> str:
    whole = end or 1.0
    spans = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600)
    span = next((each for each in spans if whole / each <= 10), 3600 * math.ceil(whole / 36000))
    marks = []
    for number in range(int(whole / span) + 1):
        left = 100 * number * span / whole
        anchor = "start" if number == 0 else "end" if left > 97 else "middle"
        shown = clock(number * span)[:-2].removeprefix("00:").removeprefix("0")
        marks.append(f'<text x="{left:.2f}%" y="13" text-anchor="{anchor}">{shown}</text>')
    style = 'style="font:11px sans-serif;fill:#7a838e" aria-hidden="true"'
    return f'<svg class="axis" width="100%" height="18" {style}>{"".join(marks)}</svg>'


def timeline_html(timeline: Timeline) -> str:
    used = set(timeline.sequence())
    chips = legend({step: fill for step, fill in _colours(timeline).items() if step in used})
    bar = f"{draw_bar(timeline)}{draw_axis(timeline.end)}"
    return f"<div><p>{escape(repr(timeline))}</p><p>{chips}</p>{bar}</div>"


def timelines_html(
    title: str, timelines: Mapping[str, Timeline], colours: Mapping[str, str]
) -> str:
    end = max((timeline.end for timeline in timelines.values()), default=0.0)
    bars = "".join(
        f"<div>{escape(name)}</div>{draw_bar(timeline, colours, end)}"
        for name, timeline in timelines.items()
    )
    chips = legend(colours)
    return f"<div><p>{escape(title)}</p><p>{chips}</p>{bars}{draw_axis(end)}</div>"


def _colours(timeline: Timeline) -> dict[str, str]:
    return {step: colour(number) for number, step in enumerate(timeline.steps)}
