"""Writing films: pictures as .mp4 or .webm, with the sound of another film where it is wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from stepcut.features.video.container import open_video

Heard = tuple[str | Path, float, float]
"""The film whose sound is wanted, from when to when in seconds."""
SMALL = {"preset": "veryfast", "crf": "23"}
"""Of H.264: quick to write, and hard to tell from the original."""


def write_film(
    frames: Iterable[NDArray[np.uint8]],
    rate: Fraction,
    target: Path,
    form: str = "mp4",
    encoder: str = "libx264",
    options: Mapping[str, str] = SMALL,
    heard: Heard | None = None,
) -> None:
    """Encode pictures (H, W, 3), of even sides or cut to them.

    frames   the pictures, one after another
    rate     how many a second
    target   the file to write
    form     the container: mp4 or webm
    encoder  of the pictures, with its `options`
    heard    whose sound is added
    """
    front = {"movflags": "+faststart"} if form == "mp4" else {}
    with av.open(str(target), "w", format=form, options=front) as out:
        stream: Any = None
        voice: Any = None
        for picture in frames:
            height, width = (side - side % 2 for side in picture.shape[:2])
            if stream is None:
                stream = out.add_stream(encoder, rate=rate, options=dict(options))
                stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
                stream.codec_context.gop_size = max(1, round(rate))  # a key frame a second, so that seeking is quick
                if heard is not None:
                    with open_video(heard[0], threads=1) as (source, _):
                        voice = add_voice(source, out)
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture[:height, :width]), format="rgb24")
            out.mux(stream.encode(frame))
        if stream is not None:
            out.mux(stream.encode())
        if heard is not None and voice is not None:
            add_sound(*heard, out, voice)


def add_voice(source: Any, out: Any) -> Any:
    """A stream for the sound of `source`; None where it has none that can be decoded."""
    sounds = [sound for sound in source.streams.audio if sound.codec_context is not None]
    return out.add_stream("aac", rate=48000, layout="stereo") if sounds else None


def add_sound(video: str | Path, start: float, end: float, out: Any, voice: Any) -> None:
    """Add the sound of a video between two times; what of it cannot be decoded is left out."""
    with open_video(video, threads=1) as (source, film):
        sound = next(sound for sound in source.streams.audio if sound.codec_context is not None)
        zero = float((film.start_time or 0) * film.time_base)
        source.seek(max(0, round((zero + start) / sound.time_base)), stream=sound, backward=True)
        try:
            for frame in source.decode(sound):
                time = frame.time - zero
                if time >= end:
                    break
                if time >= start:
                    frame.pts = round((time - start) * frame.sample_rate)
                    frame.time_base = Fraction(1, frame.sample_rate)
                    out.mux(voice.encode(frame))
        except (av.error.FFmpegError, OSError):
            pass  # the pictures are there
        out.mux(voice.encode())
