"""Cells of text and numbers in files of MATLAB 5 to 7. (On a damaged one scipy's reader takes the process down.)"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

VERSION = b"\0\1IM"
"""Of MATLAB 5, whose numbers begin with their lowest byte; what MATLAB 7.3 writes is HDF5 and has another."""
MATRIX, PACKED = 14, 15
NUMBERS = {1: "i1", 2: "u1", 3: "<i2", 4: "<u2", 5: "<i4", 6: "<u4", 7: "<f4", 9: "<f8", 12: "<i8", 13: "<u8"}
TEXT = {1: "latin-1", 2: "latin-1", 4: "utf-16-le", 16: "utf-8", 17: "utf-16-le", 18: "utf-32-le"}
CELL, CHARACTERS = 1, 4
MOST = 2**28
"""Bytes to which a variable may unpack: that of ProceL takes less than a million."""


def read_mat(path: Path, names: Collection[str]) -> dict[str, Any]:
    """The variables of these `names` in the file at `path`: a cell is a list, text a string, anything else an array.

    What makes no sense is an error of some kind, mostly a ValueError.
    """
    data = path.read_bytes()
    if data[124:128] != VERSION:
        raise ValueError("not a file of MATLAB 5 to 7; in MATLAB, save it with '-v7'")
    found = {}
    for kind, body in _elements(data[128:]):
        if kind == PACKED:
            unpacker = zlib.decompressobj()
            [(_, body)] = _elements(unpacker.decompress(body, MOST))
            if not unpacker.eof:
                raise ValueError("a variable is cut short, or too large")
        _, _, (_, name), *_ = parts = list(_elements(body))
        if name.decode() in names:
            found[name.decode()] = _value(parts)
    return found


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The type and the bytes of each element: of a file, or of a matrix (flags, shape, name, what it holds)."""
    place = 0
    while place < len(data):
        [word] = struct.unpack_from("<I", data, place)
        small = word >> 16  # up to four bytes lie beside their length
        kind, size = (word & 0xFFFF, small) if small else struct.unpack_from("<II", data, place)
        first = place + (4 if small else 8)
        body = data[first : first + size]
        if len(body) < size or small > 4:
            raise ValueError(f"{size} bytes at {place} are not all there")
        yield kind, body
        place = place + 8 if small else first + size + (0 if kind == PACKED else -size % 8)


def _value(parts: list[tuple[int, bytes]]) -> Any:
    """What the elements of a matrix hold; an empty cell may have none."""
    if not parts:
        return np.empty((0, 0))
    (_, flags), (_, shape), _, *held = parts
    sides = np.frombuffer(shape, "<i4").tolist()
    if flags[0] == CELL:
        if len(held) != np.prod(sides, dtype=float) or any(kind != MATRIX for kind, _ in held):
            raise ValueError(f"{len(held)} elements in a cell of {sides}")
        return [_value(list(_elements(body))) for _, body in held]
    kind, body = held[0]
    if flags[0] == CHARACTERS:
        return body.decode(TEXT[kind])
    return np.frombuffer(body, NUMBERS[kind]).reshape(sides, order="F")
