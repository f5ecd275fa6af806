"""The content of videos: whether a video is the one that a procedure was learned from, whatever its
name says."""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import StepcutError
from stepcut.features.contract import Features
from stepcut.features.files import content_hash
from stepcut.files.addresses import AnyPath, is_address
from stepcut.files.cache import cache_dir


class Digest(NamedTuple):
    """Digests of the content of one video; None where one is not known."""

    rows: str | None = None
    """Of the rows of its features."""
    video: str | None = None
    """Of the video file: features computed on another machine may differ in the last bit."""


def rows_digest(rows: NDArray[Any]) -> str:
    """A digest of the features `rows` of a video."""
    digest = hashlib.blake2b(f"{rows.dtype} {rows.shape}".encode(), digest_size=16)
    for first in range(0, len(rows), 1024):  # rows may be mapped from a file
        digest.update(np.ascontiguousarray(rows[first : first + 1024]).data)
    return digest.hexdigest()


def video_digest(path: AnyPath | None) -> str | None:
    """A digest of the video file at `path`; None where there is no such file on this machine."""
    if path is None or is_address(str(path)) or not Path(str(path)).is_file():
        return None
    try:
        return content_hash(path, cache_dir())
    except (OSError, StepcutError):
        return None


def digest_of(features: Features) -> Digest:
    """The digests of the video of these `features`."""
    return Digest(rows_digest(features.rows), video_digest(features.path))


def has_content(features: Features, learned: Digest) -> bool | None:
    """Whether the video of these `features` is the one whose digests were `learned`; None: nothing
    is known of it."""
    if learned.rows is not None and learned.rows == rows_digest(features.rows):
        return True
    now = None if learned.video is None else video_digest(features.path)
    if now is not None:
        return now == learned.video
    return None if learned.rows is None else False
