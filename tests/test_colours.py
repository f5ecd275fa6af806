"""One distinguishable colour per step."""

from itertools import pairwise

from stepcut.colours import PALETTE, colour, ink


def luminance(hexadecimal):
    channels = [int(hexadecimal[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_thirty_steps_have_thirty_colours():
    assert len({colour(k) for k in range(30)}) == 30


def test_ink_on_every_colour_reads_well():
    for k in range(30):
        light, dark = sorted((luminance(colour(k)), luminance(ink(colour(k)))), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_neighbours_in_the_palette_differ_in_lightness():
    """They also differ in greyscale."""
    for one, other in pairwise(PALETTE):
        assert abs(luminance(one) - luminance(other)) > 0.03
