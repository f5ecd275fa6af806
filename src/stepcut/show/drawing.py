"""Curves as SVG text, for pages that need nothing else: figures appear on hover."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from stepcut.colours import colour


def draw_curve(names: Sequence[str], values: Sequence[Sequence[float]], width: int = 640, height: int = 200) -> str:
    """Lines over the number of the row: the loss and its parts while learning."""
    most = max((value for row in values for value in row), default=1.0)
    least = min(0.0, min((value for row in values for value in row), default=0.0))
    room, step = (most - least) or 1.0, max(1, len(values) // 300)
    lines, legend = [], []
    for number, name in enumerate(names):
        points = " ".join(
            f"{40 + (width - 50) * place / max(len(values) - 1, 1):.1f},"
            f"{10 + (height - 40) * (1 - (values[place][number] - least) / room):.1f}"
            for place in range(0, len(values), step)
        )
        last = values[-1][number] if values else 0.0
        lines.append(
            f'<polyline points="{points}" fill="none" stroke="{colour(number)}" stroke-width="1.5">'
            f"<title>{escape(name)}, at last {last:.4g}</title></polyline>"
        )
        legend.append(
            f'<text x="{width - 10}" y="{22 + 15 * number}" text-anchor="end" style="fill:{colour(number)}">'
            f"{escape(name)}</text>"
        )
    bottom = height - 30
    return (
        f'<svg class="curve" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'role="img" aria-label="loss over {len(values)} iterations">'
        f'<path d="M40 10V{bottom}H{width - 10}" fill="none" stroke="#888"/>'
        f'<text x="36" y="16" text-anchor="end">{most:.3g}</text>'
        f'<text x="36" y="{bottom}" text-anchor="end">{least:.3g}</text>'
        f'<text x="{width - 10}" y="{height - 12}" text-anchor="end">iteration {len(values)}</text>'
        f"{''.join(lines)}{''.join(legend)}</svg>"
    )


def draw_choice(
    numbers: Sequence[int], scores: Sequence[float], chosen: int, width: int = 640, height: int = 160
) -> str:
    """The score of every number of steps that was tried, the chosen one marked."""
    first, last, least, most = min(numbers), max(numbers), min(scores), max(scores)
    dots, places = [], []
    for number, score in zip(numbers, scores, strict=True):
        x = 40 + (width - 60) * (number - first) / max(last - first, 1)
        y = 14 + (height - 54) * (1 - (score - least) / ((most - least) or 1.0))
        places.append(f"{x:.1f},{y:.1f}")
        taken = number == chosen
        dots.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{6 if taken else 3}" fill="{colour(0)}">'
            f"<title>{number} steps, score {score:.2f}{', chosen' if taken else ''}</title></circle>"
            f'<text x="{x:.1f}" y="{height - 12}" text-anchor="middle">{number}</text>'
        )
    bottom = height - 30
    return (
        f'<svg class="curve" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'role="img" aria-label="score of {first} to {last} steps; {chosen} chosen">'
        f'<path d="M30 10V{bottom}H{width - 10}" fill="none" stroke="#888"/>'
        f'<polyline points="{" ".join(places)}" fill="none" stroke="{colour(0)}" stroke-width="1.5"/>'
        f"{''.join(dots)}</svg>"
    )
