"""Extraction by many workers: long videos in pieces that begin at key frames, joined to the very rows of one pass."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from stepcut.errors import FeatureError, VideoError
from stepcut.features.backbones import Backbone
from stepcut.features.compute import compute_features
from stepcut.features.jobs import Job, named, video_error
from stepcut.features.store import read_rows, write_rows
from stepcut.files.addresses import Address
from stepcut.parallel.contract import Engine
from stepcut.parallel.cores import count_cores
from stepcut.progress import Hook, Stage

_HERE: dict[bytes, Backbone] = {}
"""The backbones that this process has opened."""


@dataclass(frozen=True)
class Carried:
    """A backbone on its way to a worker, which opens it once however many pieces it computes."""

    fingerprint: str
    packed: bytes

    def open(self) -> Backbone:
        """The backbone; one that would give other features than the sender's is refused."""
        if self.packed not in _HERE:
            opened = pickle.loads(self.packed)  # from our own driver, never from a file
            if opened.fingerprint != self.fingerprint:
                raise FeatureError(
                    f"this worker's backbone is {opened.fingerprint!r}, the driver's {self.fingerprint!r}; their "
                    "features differ. Install the same packages on all machines, or name the device: --device cpu."
                )
            _HERE[self.packed] = opened
        return _HERE[self.packed]


@dataclass(frozen=True)
class Piece:
    """The samples of one video from `start` until before `end`; the whole video where it is not split."""

    path: Path | Address
    target: Path | Address
    fps: Fraction
    backbone: Carried
    start: Fraction = Fraction(0)
    end: Fraction | None = None
    times: str = "exact"


@dataclass(frozen=True)
class Whole:
    """A video whose pieces are computed: they are to be joined."""

    piece: Piece
    pieces: tuple[Piece, ...]


def compute_pieces(
    jobs: Mapping[int, Job], backbone: Backbone, fps: Fraction, progress: Hook, strict: bool, engine: Engine
) -> dict[int, VideoError]:
    """Compute and store what is missing with the engine's workers; gives the errors of the videos that failed.

    Videos with the same content are computed once; pieces that an earlier run has finished are not computed again.
    """
    owners: dict[Path | Address, list[int]] = {}
    for number, job in jobs.items():
        owners.setdefault(job.target, []).append(number)
    carried = Carried(backbone.fingerprint, pickle.dumps(backbone))
    wholes = {numbers[0]: split(jobs[numbers[0]], fps, carried) for numbers in owners.values()}
    pieces = [(number, piece) for number, whole in wholes.items() for piece in whole.pieces or (whole.piece,)]
    # The longest first: a long one that is begun last would be waited for by all workers but one.
    pieces.sort(key=lambda one: (jobs[one[0]].expected or 0) / max(1, len(wholes[one[0]].pieces)), reverse=True)
    failed: dict[int, VideoError] = {}

    def judge(number: int, answer: Any) -> None:
        """Note the error of a video; raise what is not a video's fault."""
        if isinstance(answer, Exception):
            error = video_error(answer, jobs[number].path)
            if strict:
                raise error
            failed[number] = error

    total = sum(jobs[number].expected or 0 for number in wholes)
    with Stage(progress, "features", total, "frames") as stage:

        def done(place: int, answer: int | Exception) -> None:
            number = pieces[place][0]
            if isinstance(answer, int):
                stage.advance(answer, item=jobs[number].name)
            elif not wholes[number].pieces or not isinstance(answer, VideoError):
                judge(number, answer)  # what goes wrong with one piece of several is seen again in one pass

        engine.map(compute_piece, [piece for _, piece in pieces], done)
        split_ones = [number for number, whole in wholes.items() if whole.pieces and number not in failed]
        engine.map(join, [wholes[number] for number in split_ones], lambda place, made: judge(split_ones[place], made))
        stage.total = stage.done
    return {number: failed[numbers[0]] for numbers in owners.values() if numbers[0] in failed for number in numbers}


def split(job: Job, fps: Fraction, backbone: Carried) -> Whole:
    """The pieces of a video: none where it stays whole."""
    whole = Piece(job.path, job.target, fps, backbone, times=job.times)
    ends: list[Fraction | None] = [*job.cuts[1:], None]
    pieces = tuple(
        Piece(
            job.path,
            # Hidden and ending in .part: what is left of a killed run for a day is swept away.
            job.target.with_name(f".{job.target.name}.{number:04d}-of-{len(ends):04d}.part"),
            fps,
            backbone,
            start,
            end,
            job.times,
        )
        for number, (start, end) in enumerate(zip(job.cuts, ends, strict=False))
    )
    return Whole(whole, pieces)


def compute_piece(piece: Piece) -> int:
    """Compute and store one piece, unless it is there; gives how many rows it has."""
    if not piece.target.exists():
        with named(piece.path) as file:
            compute_features(
                file,
                piece.backbone.open(),
                piece.fps,
                piece.target,
                threads=count_cores(),
                start=piece.start,
                end=piece.end,
                times=piece.times,
            )
    return len(read_rows(piece.target)[0])


def join(whole: Whole) -> int:
    """Put the pieces together to the file that one pass would have written; gives how many rows it has.

    A video that is damaged anywhere is computed in one pass: what a decoder makes of damage depends on where it began.
    """
    target = whole.piece.target
    if not target.exists() and not _join_exactly(whole):
        compute_piece(whole.piece)
    for piece in whole.pieces:
        piece.target.unlink(missing_ok=True)
    return len(read_rows(target)[0])


def _join_exactly(whole: Whole) -> bool:
    """Join undamaged pieces that have all their rows; false where they have not."""
    try:
        for piece in whole.pieces:
            compute_piece(piece)
    except VideoError:
        return False
    said: dict[str, str] = {}
    with_rows = []
    for piece in whole.pieces:
        rows, said = read_rows(piece.target)
        wanted = None if piece.end is None else (piece.end - piece.start) * piece.fps
        if int(said["corrupt"]) or (wanted is not None and len(rows) != wanted):
            return False
        with_rows.append(rows)
    with write_rows(whole.piece.target) as writer:
        for rows in with_rows:
            for at in range(0, len(rows), 256):
                writer.append(rows[at : at + 256])
        writer.finish(said)
    return True
