"""Small test videos, made with PyAV: every frame encodes its number as grey levels."""

from fractions import Fraction

import av
import numpy as np

WIDTH, HEIGHT = 64, 48


def picture(number):
    """Four large grey squares that encode `number` in base 4; robust to compression and scaling."""
    image = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    for place in range(4):
        value = number // 4**place % 4
        image[:, place * 16 : (place + 1) * 16] = 30 + value * 65
    return image


def number_of(image):
    width = image.shape[1]
    places = [(int((p + 0.3) * width / 4), int((p + 0.7) * width / 4)) for p in range(4)]
    values = [float(image[:, first:last].mean()) for first, last in places]
    return sum(round((value - 30) / 65) * 4**place for place, value in enumerate(values))


def make_film(
    path, frames=40, rate=20, codec="libx264", times=None, clock=None, container=None,
    rotation=None, sound=False, muxer=None, scale=1, **options,
):  # fmt: skip
    with av.open(str(path), "w", format=container, options=muxer or {}) as out:
        fast = {"preset": "ultrafast"} if codec == "libx264" else {}
        stream = out.add_stream(codec, rate=rate, options={**fast, **options})
        stream.width, stream.height, stream.pix_fmt = WIDTH * scale, HEIGHT * scale, "yuv420p"
        stream.bit_rate = 2_000_000
        if rotation is not None:
            stream.set_display_rotation(rotation)
        if clock is not None:
            stream.codec_context.time_base = clock
        voice = out.add_stream("aac", rate=8000, layout="mono") if sound else None
        for number in range(frames):
            large = picture(number).repeat(scale, axis=0).repeat(scale, axis=1)
            frame = av.VideoFrame.from_ndarray(large, format="rgb24")
            frame.pts = number if times is None else times[number]
            if clock is not None:
                frame.time_base = clock
            out.mux(stream.encode(frame))
        if frames == 0:
            out.start_encoding()
        out.mux(stream.encode())
        if voice is not None:
            add_sound(out, voice, frames / rate)
    return path


def add_sound(out, voice, seconds):
    silence = np.zeros((1, 1024), np.float32)
    for start in range(0, int(seconds * 8000), 1024):
        noise = av.AudioFrame.from_ndarray(silence, format="fltp", layout="mono")
        noise.sample_rate, noise.pts, noise.time_base = 8000, start, Fraction(1, 8000)
        out.mux(voice.encode(noise))
    out.mux(voice.encode())


def make_sound(path, cover=False):
    with av.open(str(path), "w") as out:
        codec = "libmp3lame" if path.suffix == ".mp3" else "aac"
        voice = out.add_stream(codec, rate=8000, layout="mono")
        art = None
        if cover:
            art = out.add_stream("mjpeg", rate=1)
            art.width, art.height, art.pix_fmt = WIDTH, HEIGHT, "yuvj420p"
            art.disposition = av.stream.Disposition.attached_pic
            frame = av.VideoFrame.from_ndarray(picture(0), format="rgb24")
            frame = frame.reformat(format="yuvj420p")
            frame.pts = 0
            out.mux(art.encode(frame))
            out.mux(art.encode())
        add_sound(out, voice, 1.0)
    return path


def hostile_texts(folder):
    """Text files named like videos that make FFmpeg open other files, or loop."""
    folder.mkdir(exist_ok=True)
    texts = {
        "itself.mp4": "ffconcat version 1.0\nfile itself.mp4\n",
        "list.m3u8": "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nlist.m3u8\n",
        "list.ts": "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nlist.ts\n",
        "dash.mp4": '<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011"></MPD>',
    }
    for level in range(24):  # each lists the next one twice: 2 to the power of 24
        following = f"file level{level + 1}.mkv\n"
        texts[f"level{level}.mkv"] = f"ffconcat version 1.0\n{following * 2}"
    for name, text in texts.items():
        (folder / name).write_text(text)
    make_film(folder / "level24.mkv", frames=4)
    return list(texts)
