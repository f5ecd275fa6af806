"""Content hashes of videos: detect whether a video is one that a procedure was learned from."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepcut.errors import OptionError, StepcutError
from stepcut.features.features import Features
from stepcut.features.files import content_hash
from stepcut.files.addresses import AnyPath, is_address
from stepcut.files.cache import cache_dir
from stepcut.progress import warn_once


class Digest(msgspec.Struct, frozen=True):
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


def find_copies(digests: Mapping[str, Digest]) -> dict[str, str]:
    """Return the videos that are copies, each with the one it copies; warn about them."""
    first: dict[str, str] = {}
    copies = {
        name: first[one.rows]
        for name, one in digests.items()
        if one.rows is not None and first.setdefault(one.rows, name) != name
    }
    if copies:
        copy, original = next(iter(copies.items()))
        warn_once(
            f"{len(copies)} of {len(digests)} videos are copies, such as {copy} of {original}. "
            "A check counts each recording once."
        )
    return copies


def has_content(features: Features, learned: Digest) -> bool | None:
    """Whether the video of `features` has the digests `learned`; None if they are unknown."""
    if learned.rows is not None and learned.rows == rows_digest(features.rows):
        return True
    now = None if learned.video is None else video_digest(features.path)
    if now is not None:
        return now == learned.video
    return None if learned.rows is None else False


def changed_videos(digests: Mapping[str, Digest], videos: Mapping[str, str | None]) -> list[str]:
    """Return the `videos` (name -> path) whose file differs from the learned one."""
    learned = {name: digest.video for name, digest in digests.items() if digest.video}
    now = {name: video_digest(videos.get(name)) for name in learned}
    return [name for name in learned if now[name] not in (None, learned[name])]


def find_learned(
    features: Sequence[Features], names: Collection[str], digests: Mapping[str, Digest]
) -> list[Features]:
    """Return the features of the learned videos `names`, in this order; refuse missing ones."""
    found = {one.name: one for one in features}
    lost = [name for name in names if name not in found]
    if not lost:
        return [found[name] for name in names]
    learned = digests.get(lost[0], Digest())
    same = [one.name for one in features if one.name not in names and has_content(one, learned)]
    hint = f" {same[0]} has the content of {lost[0]}: rename it to {lost[0]}." if same else ""
    raise OptionError(
        f"the features of {', '.join(lost[:5])} are missing.{hint} Pass the training videos or "
        "feature files as source=... (--source).",
        setting="source",
        video=lost[0],
    )


def check_unchanged(
    features: Sequence[Features], samples: Mapping[str, int], digests: Mapping[str, Digest]
) -> None:
    """Refuse training videos whose content has changed since learning."""
    changed = [
        one.name
        for one in features
        if len(one.rows) != samples[one.name]
        or has_content(one, digests.get(one.name, Digest())) is False
    ]
    if changed:
        raise OptionError(
            f"{', '.join(changed[:5])}: the content has changed since learning, so the labels "
            "belong to another recording. Restore the earlier file, pass its path as "
            "source=... (--source), or learn a new procedure: stepcut learn",
            video=changed[0],
        )
