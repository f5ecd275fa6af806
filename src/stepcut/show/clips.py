"""Segments as clips and pictures, a sheet and a grid movie of one step in all videos, and where the time goes."""

import io
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from stepcut.errors import OptionError, VideoError
from stepcut.evaluation.budget import time_budget
from stepcut.features.video.container import blame, open_video
from stepcut.features.video.probe import key_times, probe
from stepcut.features.video.sample import Samples, sample_frames
from stepcut.files.atomic import whole_file, write_bytes
from stepcut.files.names import safe_name
from stepcut.show.film import add_sound, add_voice, picture_at, write_film
from stepcut.timeline import Segment, Timeline

NEAR = 0.5
"""Seconds. Where a key frame lies at most so long before a segment, the packets are copied from there on."""
COPIED = ("h264", "hevc", "av1", "mpeg4")
"""Codecs that an .mp4 may hold; others are encoded anew."""
SHORTEST = 0.2
"""Seconds. What is shown of an instant."""
SLOWEST = Fraction(5)
"""Frames a second of a clip, at least: one falls into the shortest, however seldom the picture changes."""
TILE = (180, 320)  # height and width of a video in the grid movie
RATE = 10  # frames a second of it
ROW = 5  # pictures in a row of a contact sheet


def cut_clip(
    video: str | Path,
    start: float,
    end: float,
    target: Path,
    keys: Sequence[Fraction] | None = None,
) -> bool:
    """Write `start` to `end` of a video as an .mp4, with its sound; gives whether the packets were copied as they are.

    `keys` are the times of its key frames, where they are known already.
    """
    with blame(Path(video)):
        start, end = _shown(video, start, end)
        times = key_times(video) if keys is None else keys
        before = max((time for time in times if time <= start + 0.001), default=None)
        copied = before is not None and start - before <= NEAR and probe(video).codec in COPIED
        with whole_file(target) as temporary:
            if copied and before is not None:
                _copy(video, before, end, temporary)
            else:
                rate = max(probe(video).rate or Fraction(25), SLOWEST)
                frames = (
                    picture for _, picture in sample_frames(video, rate, start=start, end=end)
                )
                write_film(frames, rate, temporary, heard=(video, start, end))
    return copied


def _shown(video: str | Path, start: float, end: float) -> tuple[float, float]:
    """Time range of a clip. Clicks and segments at the end of the video are padded to `SHORTEST` seconds."""
    start = max(0.0, min(start, probe(video).duration - SHORTEST))
    return start, max(end, start + SHORTEST)


def side_by_side(tiles: Sequence[Image.Image], columns: int) -> Image.Image:
    """Pictures of about one size as one, `columns` of them in a row."""
    wide, high = max(tile.width for tile in tiles), max(tile.height for tile in tiles)
    sheet = Image.new("RGB", (columns * wide, math.ceil(len(tiles) / columns) * high))
    for place, tile in enumerate(tiles):
        sheet.paste(tile, (place % columns * wide, place // columns * high))
    return sheet


def grid_movie(parts: Sequence[tuple[str, Segment]], target: Path) -> None:
    """Several segments of video files at once, each in a tile, as an .mp4; one that has ended stands still."""

    def frames(films: Sequence[Samples]) -> Iterator[NDArray[np.uint8]]:
        last = [Image.new("RGB", TILE[::-1])] * len(films)
        while True:
            new = [next(film, None) for film in films]
            if all(each is None for each in new):
                return
            last = [
                old if each is None else Image.fromarray(each[1])
                for old, each in zip(last, new, strict=True)
            ]
            yield np.asarray(side_by_side(last, math.ceil(math.sqrt(len(last)))))

    with ExitStack() as stack, whole_file(target) as temporary:
        films = [
            sample_frames(video, RATE, TILE, *_shown(video, s.start, s.end), threads=1)
            for video, s in parts
        ]
        write_film(
            frames([stack.enter_context(closing(film)) for film in films]),
            Fraction(RATE),
            temporary,
        )


def write_clips(
    timelines: Mapping[str, Timeline],
    videos: Mapping[str, str | None],
    folder: Path,
    step: str | None = None,
    sheet: bool = False,
) -> Iterator[tuple[str, Path | VideoError]]:
    """Write every segment as a clip and a picture into a folder per step; gives (video, clip or error) as it goes.

    timelines  by the name of their video
    videos     where each video lies; one that is not known is passed over with an error
    folder     what is written into
    step       only this step; its segments also become `grid.mp4`
    sheet      whether each step gets a `contact-sheet.jpg`
    """
    steps = list(dict.fromkeys(each for timeline in timelines.values() for each in timeline.steps))
    for kind, names in (("video", list(timelines)), ("step", steps)):
        taken = Counter(map(flat, names))
        if twice := next((name for name in names if taken[flat(name)] > 1), None):
            what = f"clips of {twice!r} and of another {kind} would have the same names"
            raise OptionError(f"{folder}: {what}. Name them apart.")
    pictures: dict[str, list[Image.Image]] = {}
    parts: list[tuple[str, Segment]] = []
    for name, timeline in timelines.items():
        video = videos.get(name)
        if video is None or not Path(video).exists():
            where = f"not at {video}" if video else "not known, since features were learned from"
            yield name, VideoError(f"{name}: the video is {where}. Say where it is with --videos.")
            continue
        try:
            keys = key_times(video)
            for place, segment in enumerate(s for s in timeline if step is None or s.step == step):
                clip = folder / flat(segment.step) / f"{flat(name)}-{place + 1:02d}.mp4"
                cut_clip(video, segment.start, segment.end, clip, keys)
                picture = picture_at(video, (segment.start + segment.end) / 2, height=240)
                write_bytes(clip.with_suffix(".jpg"), picture)
                pictures.setdefault(segment.step, []).append(Image.open(io.BytesIO(picture)))
                parts.append((video, segment))
                yield name, clip
        except VideoError as error:
            yield name, error
    for done, tiles in pictures.items() if sheet else ():
        with whole_file(folder / flat(done) / "contact-sheet.jpg") as temporary:
            side_by_side(tiles, min(ROW, len(tiles))).save(temporary, "JPEG", quality=85)
    if step is not None and parts:
        grid_movie(parts, folder / flat(step) / "grid.mp4")
    time_budget({"": timelines}, steps, per_video=True).save(folder / "time-budget.csv")


def flat(name: str) -> str:
    """A name as one file or folder.

    >>> flat("add jam/honey"), flat("..")
    ('add jam_honey', 'video')
    """
    return str(safe_name(name.replace("/", "_")))


def _copy(video: str | Path, start: Fraction, end: float, target: Path) -> None:
    with (
        open_video(video, threads=1) as (source, stream),
        av.open(str(target), "w", format="mp4") as out,
    ):
        copy, voice = out.add_stream_from_template(stream), add_voice(source, out)
        zero = stream.start_time or 0
        first = zero + round(start / stream.time_base)
        source.seek(first, stream=stream, backward=True, any_frame=False)
        shift: int | None = None
        for packet in _with_dts(source.demux(stream)):
            if shift is None and packet.pts < first:
                continue
            if (
                packet.is_keyframe
                and (packet.pts - zero) * stream.time_base >= end
                and shift is not None
            ):
                break
            if (packet.dts - zero) * stream.time_base >= end:
                break
            shift = packet.dts if shift is None else shift
            packet.pts, packet.dts, packet.stream = packet.pts - shift, packet.dts - shift, copy
            out.mux(packet)
        if voice is not None:
            add_sound(video, float(start), end, out, voice)


def _with_dts(packets: Iterator[Any]) -> Iterator[Any]:
    """The packets that are shown, each with a time to decode it: after a seek, the first ones of Matroska have none."""
    held: list[Any] = []
    for packet in packets:
        if packet.pts is None:
            continue
        held.append(packet)
        if packet.dts is not None:
            yield from _spread(held, packet.dts)
            held = []
    yield from _spread(held, min((packet.pts for packet in held), default=0))


def _spread(packets: list[Any], last: int) -> list[Any]:
    """Packets that are decoded one after the other, the last of them at the timestamp `last`."""
    for packet in reversed(packets):
        packet.dts, last = last, last - max(1, packet.duration or 0)
    return packets
