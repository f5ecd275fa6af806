"""Save matplotlib figures as PNG, SVG or PDF, atomically and reproducibly."""

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
"""matplotlib settings for reproducible files, and for `$` in names as plain text."""
METADATA = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""The supported suffixes, and the metadata to omit for reproducible files."""


def drawn_with(settings: dict[Any, Any]) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function to draw with these matplotlib `settings`."""

    def decorate(draw: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(draw)
        def drawn(*args: P.args, **kwargs: P.kwargs) -> T:
            import matplotlib

            with matplotlib.rc_context(settings):
                return draw(*args, **kwargs)

        return drawn

    return decorate


def check_picture(path: AnyPath) -> str:
    """Return the suffix of a picture file; refuse an unsupported one."""
    suffix: str = as_path(path).suffix.lower()
    choose("suffix", suffix, METADATA)
    return suffix


@drawn_with(FIXED)
def save_figure(figure: Figure, path: AnyPath, dpi: int = 150) -> None:
    """Save a matplotlib `figure` as PNG (with `dpi`), SVG or PDF, by suffix."""
    suffix = check_picture(path)
    with whole_file(path) as temporary:
        figure.savefig(temporary, format=suffix[1:], dpi=dpi, metadata=METADATA[suffix])
