"""One video as a piece of work: looked at first, by any process; what it is to blame for is its error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

from stepcut.errors import VideoError, WorkerDied
from stepcut.features.compute import split_times
from stepcut.features.store import content_hash, feature_file
from stepcut.features.video import key_times, probe
from stepcut.features.video.container import JUMP, blame, check_file
from stepcut.files.addresses import Address
from stepcut.files.copies import local


@dataclass(frozen=True)
class Job:
    """One video: where it is, where its features are or will be, and how many rows to expect if they are not there."""

    name: str
    path: Path | Address
    target: Path | Address
    expected: int | None
    cuts: tuple[Fraction, ...] = ()
    """Times, the first of them 0, at which it is split for several workers."""
    times: str = "exact"
    """How true the times of its frames are to be."""


def look(
    video: tuple[str, Path | Address],
    fingerprint: str,
    fps: Fraction,
    cache: Path | Address,
    batch: int,
    piece: float | None = None,
    times: str = "exact",
) -> Job:
    """Find out whether the features of a video are stored; if not, look at the video.

    One of twice `piece` seconds or more is to be split, at times that depend on nothing else, so that a run that was
    killed finds its pieces again.
    """
    name, path = video
    if not isinstance(path, Address):
        check_file(path)  # before its content is read: a pipe has no end
    with blame(path):
        made = fingerprint if times == "exact" else f"{fingerprint} {times}"
        target = feature_file(content_hash(path, cache), fps, made, cache)
    if target.exists():
        return Job(name, path, target, None)
    cuts: list[Fraction] = []
    with named(path) as file:
        duration = probe(file).duration
        if piece is not None and duration >= 2 * piece:
            keys = key_times(file)
            # A jump in time is a splice, which only one pass sees as such.
            if all(after - before < JUMP for before, after in pairwise(keys)):
                cuts = split_times(keys, fps, batch, min(int(duration // piece), len(keys)), duration)
    return Job(name, path, target, max(1, round(duration * fps)), tuple(cuts) if len(cuts) > 1 else (), times)


@contextmanager
def named(path: Path | Address) -> Iterator[Path]:
    """A file of this machine with the video at `path`; errors inside name `path`, not the copy."""
    with blame(path):
        file = local(path)
    try:
        yield file
    except VideoError as error:
        raise VideoError(str(error).replace(str(file), str(path))) from error


def video_error(error: Exception, path: Path | Address) -> VideoError:
    """What a video is to blame for, as its error; anything else is raised."""
    if isinstance(error, VideoError):
        return error
    if isinstance(error, WorkerDied):
        return VideoError(
            f"{path}: {error}. The video crashes its decoder, or needs more memory than there is. Leave it out, or "
            f"write it anew: ffmpeg -i {path.name} fixed.mp4"
        )
    raise error
