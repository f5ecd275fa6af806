"""The timelines as they stand, in any format, as one download: a file, or a zip of one file per video."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from stepcut.errors import choose
from stepcut.formats import FORMATS, write, write_folder
from stepcut.rate import as_rate
from stepcut.timeline import Timeline

LINKED = ("elan", "boris", "label-studio")
"""Formats whose program opens the video by the path that the file gives."""


def export(
    timelines: Mapping[str, Timeline],
    format: str,
    title: str,
    rate: str | None = None,
    videos: Mapping[str, str | None] | None = None,
) -> tuple[str, bytes]:
    """Write timelines through `stepcut.formats`, tables safe for spreadsheets; gives a file name and its bytes.

    timelines  by the name of their video
    format     one of `FORMATS`
    title      what the download is named after
    rate       frames per second, where the format counts frames and the video does not say it
    videos     where each video lies, for the programs that open it
    """
    chosen = choose("format", format, FORMATS)
    if rate is not None:
        as_rate(rate, "rate")
    if format in LINKED:
        timelines = {name: replace(t, video=(videos or {}).get(name) or name) for name, t in timelines.items()}
    with tempfile.TemporaryDirectory() as folder:
        if chosen.many:
            path = Path(folder) / f"timelines{chosen.suffix}"
            write(path, timelines, format, rate, spreadsheet=True)
            return f"{title}-{format}{chosen.suffix}", path.read_bytes()
        write_folder(folder, timelines, format, rate, spreadsheet=True)
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted(Path(folder).iterdir()):
                archive.write(file, file.name)
        return f"{title}-{format}.zip", packed.getvalue()


def format_list() -> list[dict[str, object]]:
    """The formats for the page's menu: name, title, and whether a frame rate must be given."""
    return [
        {"name": form.name, "title": form.title, "frames": form.capabilities.times == "frames"}
        for form in FORMATS.values()
    ]
