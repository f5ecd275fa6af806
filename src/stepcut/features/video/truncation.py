"""Whether a file is cut short, read from the sizes that mp4, Matroska and AVI state: no decoding, a few reads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

_MP4_BOXES = {
    b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"styp", b"sidx", b"moof", b"mfra", b"uuid", b"meta",
}  # fmt: skip


def cut_short(path: str | os.PathLike[str]) -> str | None:
    """What is missing ("index" or "end") of a file that stops before the length it states; None when nothing tells."""
    size = Path(path).stat().st_size
    with open(path, "rb") as file:
        head = file.read(12)
        if head[4:8] in _MP4_BOXES:
            return _mp4(file, size)
        if head[:4] == b"\x1aE\xdf\xa3":
            return _matroska(file, size)
        if head[:4] == b"RIFF" and head[8:12] == b"AVI ":
            return _avi(file, size)
    return None


def _mp4(file: BinaryIO, size: int) -> str | None:
    """Boxes follow each other: length (4 bytes), type (4 bytes); length 1: 8 bytes more; length 0: to the end."""
    at, types, short = 0, set(), False
    while at + 8 <= size:
        file.seek(at)
        head = file.read(16)
        length, kind = int.from_bytes(head[:4], "big"), head[4:8]
        if length == 1:
            length = int.from_bytes(head[8:16], "big")
        if kind not in _MP4_BOXES and not kind.isalnum():
            break  # not a box: padding, or damage that decoding will tell of
        types.add(kind)
        if length == 0:
            break
        short = at + length > size
        if length < 8 or short:
            break
        at += length
    if b"moov" not in types:
        return "index"
    return "end" if short else None


def _matroska(file: BinaryIO, size: int) -> str | None:
    """An EBML header, then one segment; each states its length in a number of 1 to 8 bytes, all ones for "unknown"."""

    def number() -> int | None:
        first = file.read(1)
        if not first or first[0] == 0:
            return None
        width = 9 - first[0].bit_length()
        value = int.from_bytes(bytes([first[0] & (0xFF >> width)]) + file.read(width - 1), "big")
        return None if value == (1 << 7 * width) - 1 else value

    file.seek(4)
    header = number()
    if header is None:
        return None
    file.seek(header, os.SEEK_CUR)
    if file.read(4) != b"\x18S\x80g":
        return "end" if file.tell() >= size else None
    length = number()
    return "end" if length is not None and file.tell() + length > size else None


def _avi(file: BinaryIO, size: int) -> str | None:
    """RIFF chunks follow each other: a name, then 4 bytes length; 0 stands in a file that was never finished."""
    at = 0
    while at + 8 <= size:
        file.seek(at)
        head = file.read(8)
        length = int.from_bytes(head[4:], "little")
        if head[:4] != b"RIFF" or length == 0:
            break
        if at + 8 + length > size:
            return "end"
        at += 8 + length + length % 2
    return None
