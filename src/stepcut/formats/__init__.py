"""Read and write label files."""

from stepcut.formats.registry import (
    FORMATS,
    Format,
    choose_format,
    format_to_write,
    label_files,
    read,
    read_all,
    read_folder,
)
from stepcut.formats.tables import read_transcripts
from stepcut.formats.writing import left_out, write, write_folder

__all__ = [
    "FORMATS", "Format", "choose_format", "format_to_write", "label_files", "left_out", "read",
    "read_all", "read_folder", "read_transcripts", "write", "write_folder",
]  # fmt: skip
