"""One colour per step, the same in plots, report, viewer and notebooks; colour-blind safe."""

import colorsys
from collections.abc import Mapping
from html import escape

# Paul Tol's "muted" and "vibrant" schemes, ordered so that neighbours differ in lightness and hue.
PALETTE = (
    "#4477aa", "#ee9944", "#117733", "#cc6677", "#88ccee", "#882255",
    "#ddcc77", "#332288", "#44aa99", "#aa4499", "#999933", "#661100",
)  # fmt: skip
BACKGROUND_COLOUR = "#d0d0d0"
# of background in a bar
EMPTY_COLOUR = "#ececec"


def colour(step: int) -> str:
    """Return the colour of step number `step`; -1 is background.

    After the palette, the same hues repeat, first lighter, then darker.
    """
    if step < 0:
        return BACKGROUND_COLOUR
    base, turn = PALETTE[step % len(PALETTE)], step // len(PALETTE)
    if turn == 0:
        return base
    red, green, blue = (int(base[i : i + 2], 16) / 255 for i in (1, 3, 5))
    hue, light, strength = colorsys.rgb_to_hls(red, green, blue)
    step_of_light = 0.18 * ((turn + 1) // 2)
    light = min(light + step_of_light, 0.9) if turn % 2 else max(light - step_of_light, 0.1)
    return "#" + "".join(f"{round(c * 255):02x}" for c in colorsys.hls_to_rgb(hue, light, strength))


def ink(background: str) -> str:
    """Return black or white, whichever has more contrast with `background`, #rrggbb."""
    rgb = [int(background[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in rgb)
    return "#000000" if 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 else "#ffffff"


def legend(colours: Mapping[str, str]) -> str:
    style = "display:inline-block;padding:0 8px;margin:1px;border-radius:8px"
    return " ".join(
        f'<span style="{style};background:{fill};color:{ink(fill)}">{escape(step)}</span>'
        for step, fill in colours.items()
    )
