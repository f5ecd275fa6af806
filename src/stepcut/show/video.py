"""Write .mp4 and .webm videos, make small copies for browsers, and read single frames as JPEG."""

import hashlib
import io
from collections.abc import Collection, Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from stepcut.errors import VideoError, choose
from stepcut.features.video.container import open_video, probe
from stepcut.features.video.sample import frame_at, sample_frames
from stepcut.files.atomic import whole_file
from stepcut.files.cache import cache_dir
from stepcut.progress import Hook, Stage, silent

SoundSource = tuple[str | Path, float, float]
"""Source video of the sound, with start and end in seconds."""
Encoder = tuple[str, dict[str, str]]
"""Name and options of an encoder."""
CLIP: Encoder = ("libx264", {"preset": "veryfast", "crf": "23"})
"""Fast, and visually close to the original."""
HEIGHT = 360
FASTEST = 15
"""Frames per second of a copy."""

KINDS: dict[str, Encoder] = {
    "mp4": ("libx264", {"preset": "veryfast", "crf": "26"}),
    "webm": ("libvpx-vp9", {"deadline": "realtime", "cpu-used": "8", "row-mt": "1", "b": "600k"}),
}
"""Encoder for each kind of video that a browser can play."""


def write_video(
    frames: Iterable[NDArray[np.uint8]],
    rate: Fraction,
    target: Path,
    form: str = "mp4",
    encoder: Encoder = CLIP,
    sound_of: SoundSource | None = None,
) -> None:
    """Encode frames (H, W, 3) at `rate` per second as mp4 or webm.

    Odd sides are cropped to even ones. `sound_of` adds sound.
    """
    front = {"movflags": "+faststart"} if form == "mp4" else {}
    with av.open(str(target), "w", format=form, options=front) as out:
        stream: Any = None
        voice: Any = None
        for picture in frames:
            height, width = (side - side % 2 for side in picture.shape[:2])
            if stream is None:
                stream = out.add_stream(encoder[0], rate=rate, options=dict(encoder[1]))
                stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
                # One key frame per second makes seeking fast.
                stream.codec_context.gop_size = max(1, round(rate))
                if sound_of is not None:
                    with open_video(sound_of[0], threads=1) as (source, _):
                        voice = add_voice(source, out)
            frame = av.VideoFrame.from_ndarray(
                np.ascontiguousarray(picture[:height, :width]), format="rgb24"
            )
            out.mux(stream.encode(frame))
        if stream is not None:
            out.mux(stream.encode())
        if sound_of is not None and voice is not None:
            add_sound(*sound_of, out, voice)


def add_voice(source: Any, out: Any) -> Any:
    """Add a stream for the sound of `source`; None if it has no sound that can be decoded."""
    sounds = [sound for sound in source.streams.audio if sound.codec_context is not None]
    return out.add_stream("aac", rate=48000, layout="stereo") if sounds else None


def add_sound(video: str | Path, start: float, end: float, out: Any, voice: Any) -> None:
    """Add the sound of a video between two times; parts that cannot be decoded are dropped."""
    with open_video(video, threads=1) as (source, pictures):
        sound = next(sound for sound in source.streams.audio if sound.codec_context is not None)
        zero = float((pictures.start_time or 0) * pictures.time_base)
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
            pass  # the clip keeps its pictures
        out.mux(voice.encode())


PLAYED = ("mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm")
"""Containers that browsers open."""


def is_playable(video: str | Path, codecs: Collection[str]) -> bool:
    """Whether a browser that decodes these `codecs` (h264, vp9, av1 ...) plays the video itself."""
    with open_video(video, threads=1) as (container, stream):
        context = stream.codec_context
        return (
            container.format.name in PLAYED
            and context.name in codecs
            and context.pix_fmt in ("yuv420p", "yuvj420p")
        )


def proxy_of(video: str | Path, kind: str) -> Path:
    """Path of a video's copy for browsers; it changes when the video changes."""
    choose("kind", kind, KINDS)
    file = Path(video).absolute()
    state = file.stat()
    name = hashlib.blake2b(
        f"{file} {state.st_size} {state.st_mtime_ns}".encode(), digest_size=12
    ).hexdigest()
    return cache_dir() / "proxies" / f"{name}.{kind}"


def make_proxy(video: str | Path, kind: str = "mp4", progress: Hook = silent) -> Path:
    """Encode the copy unless it exists: pictures without sound, at the true times of the video."""
    target = proxy_of(video, kind)
    if target.exists():
        return target
    info = probe(video)
    rate = min(info.rate or Fraction(FASTEST), Fraction(FASTEST)).limit_denominator(1000)
    height = min(HEIGHT, info.height) // 2 * 2
    width = max(2, round(info.width * height / info.height / 2) * 2)
    with (
        whole_file(target) as temporary,
        Stage(progress, "proxy", total=max(info.duration, 0.1), unit="s") as stage,
    ):

        def frames() -> Iterator[NDArray[np.uint8]]:
            for time, picture in sample_frames(video, fps=rate, size=(height, width), threads=1):
                yield picture
                stage.advance(time - stage.done)

        write_video(frames(), rate, temporary, kind, KINDS[kind])
    return target


def picture_at(path: str | Path, time: float, height: int = 120) -> bytes:
    """Return the frame at `time` seconds as a small JPEG."""
    frame = frame_at(path, time)
    if frame is None:
        raise VideoError(
            f"{path}: no frame at {time:.1f} s. The file may have changed since training.",
            path=path,
        )
    image = Image.fromarray(frame)
    image.thumbnail((height * 16 // 9, height))
    out = io.BytesIO()
    image.save(out, "JPEG", quality=80)
    return out.getvalue()
