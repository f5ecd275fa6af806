"""A matplotlib figure as a file: PNG, SVG or PDF by the suffix, whole or not at all, and the same bytes every time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stepcut.errors import choose
from stepcut.files.addresses import AnyPath, as_path
from stepcut.files.atomic import whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIXED: dict[Any, Any] = {"svg.hashsalt": "stepcut"}
"""Settings of matplotlib without which the same picture would be another file each time."""
METADATA = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
"""What may be written, and the metadata to leave out for the same reason."""


def check_picture(path: AnyPath) -> str:
    """The suffix of a picture file; raises an OptionError for one that cannot be written, before any work is done."""
    suffix: str = as_path(path).suffix.lower()
    choose("suffix", suffix, METADATA)
    return suffix


def save_figure(figure: Figure, path: AnyPath, dpi: int = 150) -> None:
    """Write a `figure` of matplotlib to `path`: its suffix decides between PNG (`dpi` pixels an inch), SVG and PDF."""
    import matplotlib

    suffix = check_picture(path)
    with matplotlib.rc_context(FIXED), whole_file(path) as temporary:
        figure.savefig(temporary, format=suffix[1:], dpi=dpi, metadata=METADATA[suffix])
