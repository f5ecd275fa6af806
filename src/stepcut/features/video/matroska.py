"""Whether a Matroska file is whole, by the lengths that its elements state."""

from __future__ import annotations

import os
from typing import BinaryIO, NamedTuple

_HEADER, _SEGMENT, _CLUSTER = 0x1A45DFA3, 0x18538067, 0x1F43B675
_ANYWHERE = {0xEC, 0xBF}  # filling, and a checksum
_IN_SEGMENT = {
    _CLUSTER,
    0x114D9B74,
    0x1549A966,
    0x1654AE6B,
    0x1C53BB6B,
    0x1941A469,
    0x1043A770,
    0x1254C367,
    *_ANYWHERE,
}
"""Clusters, and what says where things are, about the file, its tracks, cues, attachments, chapters and tags."""
_IN_CLUSTER = {0xE7, 0x5854, 0xA7, 0xAB, 0xA3, 0xA0, 0xAF, *_ANYWHERE}
"""Times, silent tracks, places, lengths, and blocks of three kinds."""


class _Element(NamedTuple):
    kind: int
    begin: int
    end: int


def is_whole(path: str | os.PathLike[str]) -> bool:
    """Whether the file at `path` holds all that it announces: from its beginning to the end of its segment one element
    follows the other, in the clusters too. One that is cut, or whose blocks are overwritten, does not.

    An element is its kind, the length of what it holds, and that; nothing but kinds and lengths is read.
    """
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        header = _element(file, 0)
        segment = None if header is None or header.kind != _HEADER else _element(file, header.end)
        if segment is None or segment.kind != _SEGMENT or segment.end > size:
            return False
        parts = _follow(file, segment, _IN_SEGMENT)
        return parts is not None and all(
            _follow(file, part, _IN_CLUSTER) is not None for part in parts if part.kind == _CLUSTER
        )


def _follow(file: BinaryIO, whole: _Element, known: set[int]) -> list[_Element] | None:
    """The elements in another, the `whole`, one after the other; None unless they are of `known` kinds and fill it."""
    found: list[_Element] = []
    at = whole.begin
    while at < whole.end:
        element = _element(file, at)
        if element is None or element.kind not in known:
            return None
        found.append(element)
        at = element.end
    return found if at == whole.end else None


def _element(file: BinaryIO, at: int) -> _Element | None:
    """The element that begins at a place of `file`; None where none does, or it does not state its length.

    How many zero bits come first says how many bytes the kind has, and the length; all ones are an unknown length.
    """
    file.seek(at)
    head = file.read(12)
    kind = 9 - head[0].bit_length() if head else 9
    length = 9 - head[kind].bit_length() if kind < len(head) else 9
    begin = kind + length
    if kind > 4 or length > 8 or begin > len(head):
        return None
    ones = (1 << 7 * length) - 1
    held = int.from_bytes(head[kind:begin], "big") & ones
    return (
        None
        if held == ones
        else _Element(int.from_bytes(head[:kind], "big"), at + begin, at + begin + held)
    )
