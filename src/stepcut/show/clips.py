"""Write segments as clips and pictures with a time budget, copies for browsers, and single frames."""

import hashlib
import io
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any
from unicodedata import normalize

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from stepcut.errors import OptionError, VideoError, choose
from stepcut.evaluation.times import Times
from stepcut.features.video.container import blame, key_times, open_video, probe
from stepcut.features.video.sample import frame_at, sample_frames
from stepcut.files import cache_dir, whole_file, write_bytes
from stepcut.files.names import Fragment, safe_name
from stepcut.progress import Hook, Stage, silent
from stepcut.timeline import Timeline

NEAR = 0.5  # seconds; packets are copied from a key frame at most this long before a segment
COPIED = ("h264", "hevc", "av1", "mpeg4")  # codecs that an .mp4 may contain
SHORTEST = 0.2  # seconds of a clip
SLOWEST = Fraction(5)  # frames per second, so that the shortest clip has one
PLAYED = ("mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm")  # containers that browsers open
HEIGHT, FASTEST = 720, 60  # most pixels and frames per second of a copy for browsers
BEGINNING = 10.0  # seconds of the first copy of a video, which is ready soon

Encoder = tuple[str, dict[str, str]]  # name and options of an encoder
CLIP: Encoder = ("libx264", {"preset": "veryfast", "crf": "23"})
KINDS: dict[str, Encoder] = {
    "mp4": ("libx264", {"preset": "ultrafast", "crf": "25"}),
    "webm": ("libvpx-vp9", {"deadline": "realtime", "cpu-used": "8", "row-mt": "1", "b": "1500k"}),
}  # that a browser can play


def cut_clip(
    video: str | Path,
    start: float,
    end: float,
    target: Path,
    keys: Sequence[Fraction] | None = None,
) -> bool:
    """Write part of a video as an .mp4 with sound; return whether packets were copied.

    Clicks and segments at the end of the video are padded to `SHORTEST` seconds.
    """
    with blame(Path(video)):
        info = probe(video)
        start = max(0.0, min(start, info.duration - SHORTEST))
        end = max(end, start + SHORTEST)
        times = key_times(video) if keys is None else keys
        before = max((time for time in times if time <= start + 0.001), default=None)
        copied = before is not None and start - before <= NEAR and info.codec in COPIED
        with whole_file(target) as temporary:
            if copied and before is not None:
                _copy(video, before, end, temporary)
            else:
                rate = max(info.rate or Fraction(25), SLOWEST)
                sampled = sample_frames(video, rate, start=start, end=end)
                frames = (picture for _, picture in sampled)
                write_video(frames, rate, temporary, sound_of=(video, start, end))
    return copied


def write_clips(
    timelines: Mapping[str, Timeline],
    videos: Mapping[str, str | None],
    folder: Path,
    step: str | None = None,
) -> Iterator[tuple[str, Path | VideoError]]:
    """Write every segment (of `step`) as a clip and a picture, into one folder per step.

    Yield each video and its clip, or an error if its path in `videos` is unknown.
    """
    steps = list(dict.fromkeys(each for timeline in timelines.values() for each in timeline.steps))
    for kind, names in (("video", list(timelines)), ("step", steps)):
        alike = {name: normalize("NFC", flat(name)).casefold() for name in names}
        taken = Counter(alike.values())
        if twice := next((name for name in names if taken[alike[name]] > 1), None):
            what = f"{folder}: clips of {twice!r} and another {kind} would have the same names."
            advice = "Rename one of them."
            raise OptionError(f"{what} {advice}", setting="folder", value=twice, path=folder)
    for name, timeline in timelines.items():
        video = videos.get(name)
        if video is None or not Path(video).exists():
            where = f"not at {video}" if video else "unknown: the procedure has only its features"
            what = f"{name}: the video is {where}. Add --videos FOLDER."
            yield name, VideoError(what, path=video, video=name)
            continue
        try:
            keys = key_times(video)
            for place, segment in enumerate(s for s in timeline if step is None or s.step == step):
                clip = folder / flat(segment.step) / f"{flat(name)}-{place + 1:02d}.mp4"
                start, end = (Fragment.of(name).start + at for at in (segment.start, segment.end))
                cut_clip(video, start, end, clip, keys)
                picture = picture_at(video, (start + end) / 2, height=240)
                write_bytes(clip.with_suffix(".jpg"), picture)
                yield name, clip
        except VideoError as error:
            yield name, error
    Times({"": timelines}, steps).per_recording.save(folder / "times.csv")


def flat(name: str) -> str:
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
            shown, decoded = ((t - zero) * stream.time_base for t in (packet.pts, packet.dts))
            if decoded >= end or (packet.is_keyframe and shown >= end and shift is not None):
                break
            shift = packet.dts if shift is None else shift
            packet.pts, packet.dts, packet.stream = packet.pts - shift, packet.dts - shift, copy
            out.mux(packet)
        if voice is not None:
            add_sound(video, float(start), end, out, voice)


def _with_dts(packets: Iterator[Any]) -> Iterator[Any]:
    """Packets with both times; after a seek, the first ones of Matroska have none."""
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
    for packet in reversed(packets):
        packet.dts, last = last, last - max(1, packet.duration or 0)
    return packets


# ---------- encoding, copies, pictures


def write_video(
    frames: Iterable[NDArray[np.uint8]],
    rate: Fraction,
    target: Path,
    form: str = "mp4",
    encoder: Encoder = CLIP,
    sound_of: tuple[str | Path, float, float] | None = None,
) -> None:
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
            even = np.ascontiguousarray(picture[:height, :width])
            out.mux(stream.encode(av.VideoFrame.from_ndarray(even, format="rgb24")))
        if stream is not None:
            out.mux(stream.encode())
        if sound_of is not None and voice is not None:
            add_sound(*sound_of, out, voice)


def add_voice(source: Any, out: Any) -> Any:
    sounds = [sound for sound in source.streams.audio if sound.codec_context is not None]
    codec = "libopus" if out.format.name == "webm" else "aac"
    return out.add_stream(codec, rate=48000, layout="stereo") if sounds else None


def add_sound(video: str | Path, start: float, end: float, out: Any, voice: Any) -> None:
    """Add the sound between two times; parts that cannot be decoded are dropped."""
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


def is_playable(video: str | Path, codecs: Collection[str]) -> bool:
    with open_video(video, threads=1) as (container, stream):
        context = stream.codec_context
        return (
            container.format.name in PLAYED
            and context.codec.canonical_name in codecs
            and context.pix_fmt in ("yuv420p", "yuvj420p")
        )


def proxy_of(video: str | Path, kind: str, beginning: bool = False) -> Path:
    """Path of a video's copy for browsers, or of its beginning; another one if the video changes."""
    choose("kind", kind, KINDS)
    file = Path(video).absolute()
    state = f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}"
    name = hashlib.blake2b(state.encode(), digest_size=12).hexdigest()
    return cache_dir() / "proxies" / f"{name}{'-beginning' * beginning}.{kind}"


def make_proxy(
    video: str | Path, kind: str = "mp4", progress: Hook = silent, beginning: bool = False
) -> Path:
    """Encode the copy unless it exists: pictures at the true times, and the sound."""
    target = proxy_of(video, kind, beginning)
    if target.exists():
        return target
    info = probe(video)
    end = min(info.duration, BEGINNING) if beginning else info.duration
    rate = min(info.rate or Fraction(FASTEST), Fraction(FASTEST)).limit_denominator(1000)
    height = min(HEIGHT, info.height) // 2 * 2
    width = max(2, round(info.width * height / info.height / 2) * 2)
    stage = Stage(progress, "proxy", total=max(end, 0.1), unit="s")
    with whole_file(target) as temporary, stage:

        def frames() -> Iterator[NDArray[np.uint8]]:
            until = end if beginning else None
            sampled = sample_frames(video, rate, (height, width), end=until, threads=1)
            for time, picture in sampled:
                yield picture
                stage.advance(time - stage.done)

        sound = video, 0.0, end
        write_video(frames(), rate, temporary, kind, KINDS[kind], sound)
    return target


def picture_at(path: str | Path, time: float, height: int = 120) -> bytes:
    frame = frame_at(path, time)
    if frame is None:
        what = f"{path}: no frame at {time:.1f} s. The file may have changed since training."
        raise VideoError(what, path=path)
    image = Image.fromarray(frame)
    image.thumbnail((height * 16 // 9, height))
    out = io.BytesIO()
    image.save(out, "JPEG", quality=80)
    return out.getvalue()
