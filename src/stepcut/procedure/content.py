"""Content hashes of videos: detect whether a video is one that a procedure was learned from."""

import hashlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import StepcutError
from stepcut.features.features import Features
from stepcut.features.files import content_hash
from stepcut.files.addresses import AnyPath, is_address
from stepcut.files.cache import cache_dir


class Digest(NamedTuple):
    """Digests of the content of one video; None if unknown."""

    rows: str | None = None
    """The digest of the feature rows."""
    video: str | None = None
    """The digest of the video file, because features may differ slightly between machines."""


def rows_digest(rows: NDArray[Any]) -> str:
    """Return a digest of feature `rows`."""
    digest = hashlib.blake2b(f"{rows.dtype} {rows.shape}".encode(), digest_size=16)
    for first in range(0, len(rows), 1024):  # rows may be memory-mapped
        digest.update(np.ascontiguousarray(rows[first : first + 1024]).data)
    return digest.hexdigest()


def video_digest(path: AnyPath | None) -> str | None:
    """Return a digest of the video file at `path`, or None if it is not on this machine."""
    if path is None or is_address(str(path)) or not Path(str(path)).is_file():
        return None
    try:
        return content_hash(path, cache_dir())
    except (OSError, StepcutError):
        return None


def digest_of(features: Features) -> Digest:
    return Digest(rows_digest(features.rows), video_digest(features.path))


def has_content(features: Features, learned: Digest) -> bool | None:
    """Whether the video of `features` has the digests `learned`; None if they are unknown."""
    if learned.rows is not None and learned.rows == rows_digest(features.rows):
        return True
    now = None if learned.video is None else video_digest(features.path)
    if now is not None:
        return now == learned.video
    return None if learned.rows is None else False
