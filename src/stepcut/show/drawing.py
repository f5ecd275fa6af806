"""Timelines as SVG text: one bar per video, a coloured block per segment with its name and times on hover."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape

from stepcut.colours import BACKGROUND_COLOUR, colour
from stepcut.timeline import Timeline, clock

WIDTH = 1000


def draw_bar(
    timeline: Timeline,
    colours: Mapping[str, str] | None = None,
    end: float | None = None,
    height: int = 26,
    label: str = "",
) -> str:
    """One timeline as a bar; `end` is the time at its right edge, so that bars of several videos share one scale.

    >>> draw_bar(Timeline(duration=3)).startswith("<svg")
    True
    """
    whole = end or timeline.end or 1.0
    known = {step: colour(number) for number, step in enumerate(timeline.steps)} if colours is None else colours
    blocks = [f'<rect width="{timeline.end / whole * WIDTH:.1f}" height="{height}" fill="#ececec"/>']
    for segment in timeline:
        left, width = segment.start / whole * WIDTH, max(segment.duration / whole * WIDTH, 1.0)
        sure = "" if segment.confidence is None else f", confidence {segment.confidence:.2f}"
        tip = f"{escape(segment.step)}, {clock(segment.start)} to {clock(segment.end)}{sure}"
        fill = known.get(segment.step, BACKGROUND_COLOUR)
        blocks.append(
            f'<rect x="{left:.1f}" width="{width:.1f}" height="{height}" fill="{fill}"><title>{tip}</title></rect>'
        )
    words = escape(label or f"{timeline.video}: " + ", ".join(timeline.sequence()), quote=True)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" preserveAspectRatio="none" '
        f'width="100%" height="{height}" role="img" aria-label="{words}">{"".join(blocks)}</svg>'
    )
