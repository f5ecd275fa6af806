"""A matplotlib figure as a file: PNG, SVG or PDF by the suffix, whole or not at all, and the same bytes every time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from stepcut.errors import choose
from stepcut.files.addresses import AnyPath, as_path
from stepcut.files.atomic import whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

P = ParamSpec("P")
T = TypeVar("T")

FIXED: dict[Any, Any] = {"svg.hashsalt": "stepcut", "text.parse_math": False}
"""Settings of matplotlib without which a picture would be another file each time, and `$` in a name a formula."""
METADATA = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""What may be written, and the metadata to leave out for the same reason."""


def drawn_with(settings: dict[Any, Any]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """What makes a function draw with these `settings` of matplotlib, and leaves the user's own alone."""

    def decorate(draw: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(draw)
        def drawn(*args: P.args, **kwargs: P.kwargs) -> T:
            import matplotlib

            with matplotlib.rc_context(settings):
                return draw(*args, **kwargs)

        return drawn

    return decorate


def check_picture(path: AnyPath) -> str:
    """The suffix of a picture file; raises an OptionError for one that cannot be written, before any work is done."""
    suffix: str = as_path(path).suffix.lower()
    choose("suffix", suffix, METADATA)
    return suffix


@drawn_with(FIXED)
def save_figure(figure: Figure, path: AnyPath, dpi: int = 150) -> None:
    """Write a `figure` of matplotlib to `path`: its suffix decides between PNG (`dpi` pixels an inch), SVG and PDF."""
    suffix = check_picture(path)
    with whole_file(path) as temporary:
        figure.savefig(temporary, format=suffix[1:], dpi=dpi, metadata=METADATA[suffix])
