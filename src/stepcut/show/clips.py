"""Write segments as clips, pictures, contact sheets and grid videos, and the time budget."""

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
from stepcut.features.video.container import blame, key_times, open_video, probe
from stepcut.features.video.sample import Samples, sample_frames
from stepcut.files.atomic import whole_file, write_bytes
from stepcut.files.names import safe_name
from stepcut.show.video import add_sound, add_voice, picture_at, write_video
from stepcut.timeline import Segment, Timeline

NEAR = 0.5
"""Seconds. If a key frame lies at most this long before a segment, packets are copied."""
COPIED = ("h264", "hevc", "av1", "mpeg4")
"""Codecs that an .mp4 may contain; others are re-encoded."""
SHORTEST = 0.2
"""Seconds. Minimum duration of a clip."""
SLOWEST = Fraction(5)
"""Minimum frames per second of a clip, so that the shortest clip has a frame."""
TILE = (180, 320)  # height and width of a tile in the grid video
RATE = 10  # frames per second of the grid video
ROW = 5  # pictures per row of a contact sheet


def cut_clip(
    video: str | Path,
    start: float,
    end: float,
    target: Path,
    keys: Sequence[Fraction] | None = None,
) -> bool:
    """Write part of a video as an .mp4 with sound; return whether packets were copied.

    `keys` are the times of its key frames, if they are known.
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
                write_video(frames, rate, temporary, sound_of=(video, start, end))
    return copied


def _shown(video: str | Path, start: float, end: float) -> tuple[float, float]:
    """Time range of a clip. Clicks and segments at the end of the video are padded to `SHORTEST`
    seconds."""
    start = max(0.0, min(start, probe(video).duration - SHORTEST))
    return start, max(end, start + SHORTEST)


def side_by_side(tiles: Sequence[Image.Image], columns: int) -> Image.Image:
    """Arrange pictures of similar size in rows of `columns`."""
    wide, high = max(tile.width for tile in tiles), max(tile.height for tile in tiles)
    sheet = Image.new("RGB", (columns * wide, math.ceil(len(tiles) / columns) * high))
    for place, tile in enumerate(tiles):
        sheet.paste(tile, (place % columns * wide, place // columns * high))
    return sheet


def grid_movie(parts: Sequence[tuple[str, Segment]], target: Path) -> None:
    """Play several segments at once as tiles of one .mp4; finished tiles keep their last frame."""

    def frames(sources: Sequence[Samples]) -> Iterator[NDArray[np.uint8]]:
        last = [Image.new("RGB", TILE[::-1])] * len(sources)
        while True:
            new = [next(source, None) for source in sources]
            if all(each is None for each in new):
                return
            last = [
                old if each is None else Image.fromarray(each[1])
                for old, each in zip(last, new, strict=True)
            ]
            yield np.asarray(side_by_side(last, math.ceil(math.sqrt(len(last)))))

    with ExitStack() as stack, whole_file(target) as temporary:
        sources = [
            sample_frames(video, RATE, TILE, *_shown(video, s.start, s.end), threads=1)
            for video, s in parts
        ]
        write_video(
            frames([stack.enter_context(closing(source)) for source in sources]),
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
    """Write every segment as a clip and a picture, into one folder per step.

    Yield each video and its clip, or an error if its path in `videos` is unknown. With `step`,
    write only this step and a `grid.mp4` of its segments; with `sheet`, a `contact-sheet.jpg` per
    step. Two videos or steps that would have the same file names raise an `OptionError`.
    """
    steps = list(dict.fromkeys(each for timeline in timelines.values() for each in timeline.steps))
    for kind, names in (("video", list(timelines)), ("step", steps)):
        taken = Counter(map(flat, names))
        if twice := next((name for name in names if taken[flat(name)] > 1), None):
            raise OptionError(
                f"{folder}: clips of {twice!r} and another {kind} would have the same names. "
                "Rename one of them.",
                setting="folder",
                value=twice,
                path=folder,
            )
    pictures: dict[str, list[Image.Image]] = {}
    parts: list[tuple[str, Segment]] = []
    for name, timeline in timelines.items():
        video = videos.get(name)
        if video is None or not Path(video).exists():
            where = f"not at {video}" if video else "unknown: the procedure has only its features"
            yield (
                name,
                VideoError(
                    f"{name}: the video is {where}. Add --videos FOLDER.", path=video, video=name
                ),
            )
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
    """Convert a name to one file or folder name.

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
    """Packets with presentation and decoding times; after a seek, the first ones of Matroska have
    none."""
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
    """Give consecutive packets decoding times, the last of them `last`."""
    for packet in reversed(packets):
        packet.dts, last = last, last - max(1, packet.duration or 0)
    return packets
