"""The timelines as they stand, in any format, as one download: a file, or a zip of one file per video."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from stepcut.errors import choose
from stepcut.formats import FORMATS, write, write_folder
from stepcut.timeline import Timeline


class Download(NamedTuple):
    """What is sent: a file name and its bytes."""

    name: str
    data: bytes


def export(timelines: Mapping[str, Timeline], format: str, title: str, rate: str | None = None) -> Download:
    """Write timelines through `stepcut.formats`; `rate` is asked for by the formats that count frames."""
    chosen = choose("format", format, FORMATS)
    with tempfile.TemporaryDirectory() as folder:
        if chosen.many:
            path = Path(folder) / f"timelines{chosen.suffix}"
            write(path, timelines, format, rate)
            return Download(f"{title}-{format}{chosen.suffix}", path.read_bytes())
        write_folder(folder, timelines, format, rate)
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(Path(folder).iterdir()):
                archive.write(file, file.name)
        return Download(f"{title}-{format}.zip", packed.getvalue())


def format_list() -> list[dict[str, object]]:
    """The formats for the page's menu: name, title, and whether a frame rate must be given."""
    return [
        {"name": form.name, "title": form.title, "frames": form.capabilities.times == "frames"}
        for form in FORMATS.values()
    ]
