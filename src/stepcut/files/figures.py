"""Save matplotlib figures as PNG, SVG or PDF, atomically and reproducibly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from stepcut.errors import choose
from stepcut.files.addresses import AnyPath, as_path
from stepcut.files.atomic import whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# reproducible files, and `$` in names as plain text
FIXED: dict[Any, Any] = {"svg.hashsalt": "stepcut", "text.parse_math": False}
# the supported suffixes, and the metadata to omit for reproducible files
METADATA = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


@contextmanager
def drawn_with(settings: dict[Any, Any]) -> Iterator[None]:
    """Draw with these matplotlib `settings`, as a context or a decorator."""
    import matplotlib

    with matplotlib.rc_context(settings):
        yield


def check_picture(path: AnyPath) -> str:
    suffix: str = as_path(path).suffix.lower()
    choose("suffix", suffix, METADATA)
    return suffix


@drawn_with(FIXED)
def save_figure(figure: Figure, path: AnyPath, dpi: int = 150) -> None:
    suffix = check_picture(path)
    with whole_file(path) as temporary:
        figure.savefig(temporary, format=suffix[1:], dpi=dpi, metadata=METADATA[suffix])
