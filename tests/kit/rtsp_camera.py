"""A network camera for tests: a small RTSP server that sends H.264 over RTSP (RFC 2326, 6184)."""

import contextlib
import re
import socket
import struct
import threading

import av

PAYLOAD = 96
LARGEST = 1200
"""Largest packet in bytes; larger units are fragmented."""


def encode(pictures, rate=25):
    codec = av.CodecContext.create("libx264", "w")
    height, width = pictures[0].shape[:2]
    codec.width, codec.height, codec.pix_fmt = width, height, "yuv420p"
    codec.framerate, codec.gop_size = rate, 5
    codec.options = {"tune": "zerolatency", "preset": "ultrafast"}
    frames = [av.VideoFrame.from_ndarray(picture, format="rgb24") for picture in pictures]
    return [bytes(packet) for frame in [*frames, None] for packet in codec.encode(frame)]


def packets(picture, number, time):
    units = [unit for unit in re.split(rb"\x00\x00\x00?\x01", picture) if unit]
    parts = [part for unit in units for part in split(unit)]
    for place, part in enumerate(parts):
        marker = 0x80 if place == len(parts) - 1 else 0
        yield (
            struct.pack(">BBHII", 0x80, marker | PAYLOAD, (number + place) % 65536, time, 7) + part
        )


def split(unit):
    if len(unit) <= LARGEST:
        return [unit]
    head, body = unit[0], unit[1:]
    pieces = [body[at : at + LARGEST] for at in range(0, len(body), LARGEST)]
    ends = {0: 0x80, len(pieces) - 1: 0x40}
    heads = [bytes([head & 0xE0 | 28, head & 0x1F | ends.get(n, 0)]) for n in range(len(pieces))]
    return [one + piece for one, piece in zip(heads, pieces, strict=True)]


class RtspCamera:
    """One video per connection, repeating the last; if it `hangs`, connections stay open."""

    def __init__(self, films, hangs=False, pace=0.01):
        self.films, self.hangs, self.pace = films, hangs, pace
        self.plays = 0
        self.stop = threading.Event()
        self.server = socket.create_server(("127.0.0.1", 0))
        self.server.settimeout(0.1)
        self.address = f"rtsp://127.0.0.1:{self.server.getsockname()[1]}/live"
        self.threads = [threading.Thread(target=self.listen, daemon=True)]

    def __enter__(self):
        self.threads[0].start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        for thread in self.threads:
            thread.join(timeout=5)
        self.server.close()

    def listen(self):
        while not self.stop.is_set():
            with contextlib.suppress(TimeoutError):
                connection, _ = self.server.accept()
                self.threads.append(
                    threading.Thread(target=self.serve, args=(connection,), daemon=True)
                )
                self.threads[-1].start()

    def serve(self, connection):
        with connection, connection.makefile("rb") as request, contextlib.suppress(OSError):
            connection.settimeout(5)
            while words := request.readline().split():
                head = {}
                while (line := request.readline().strip()) != b"":
                    name, _, value = line.decode().partition(":")
                    head[name.lower()] = value.strip()
                if "cseq" not in head:
                    break  # this is not RTSP
                connection.sendall(self.answer(words[0].decode(), head))
                if words[0] == b"PLAY":
                    self.play(connection)
                    break

    def answer(self, verb, head):
        lines, body = [f"CSeq: {head['cseq']}"], ""
        if verb == "OPTIONS":
            lines.append("Public: DESCRIBE, SETUP, PLAY, TEARDOWN")
        if verb == "DESCRIBE":
            start = ["v=0", "o=- 1 1 IN IP4 127.0.0.1", "s=camera", "t=0 0"]
            track = [f"m=video 0 RTP/AVP {PAYLOAD}", f"a=rtpmap:{PAYLOAD} H264/90000"]
            body = "".join(f"{line}\r\n" for line in [*start, *track, "a=control:track"])
            lines += ["Content-Type: application/sdp", f"Content-Base: {self.address}/"]
            lines.append(f"Content-Length: {len(body)}")
        if verb == "SETUP":
            lines.append("Transport: RTP/AVP/TCP;unicast;interleaved=0-1")
        if verb in ("SETUP", "PLAY"):
            lines.append("Session: 1")
        return ("\r\n".join(["RTSP/1.0 200 OK", *lines]) + f"\r\n\r\n{body}").encode()

    def play(self, connection):
        film = self.films[min(self.plays, len(self.films) - 1)]
        last = self.plays >= len(self.films) - 1
        self.plays += 1
        number = place = 0
        while not self.stop.is_set() and (last or place < len(film)):
            for packet in packets(film[place % len(film)], number, place * 3600):
                connection.sendall(b"$\x00" + struct.pack(">H", len(packet)) + packet)
                number += 1
            place += 1
            self.stop.wait(self.pace)
        if self.hangs:
            self.stop.wait()
