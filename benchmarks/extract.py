"""Measure the speed of feature extraction against its limit, and the memory for one hour of video.

    python benchmarks/extract.py
        synthetic videos, and real ones if they are available
    python benchmarks/extract.py VIDEOS... --device cuda  your videos, on a GPU
    python benchmarks/extract.py --quick                  a minute instead of several

The limit: on a CPU, decoding and backbone share the cores, so it is 1 / (decode time + backbone
time) per frame, each measured alone with all cores and the fastest engine. On a GPU they run in
parallel, so it is the slower of the two. All rates count sampled frames (2 per second of video),
not decoded ones. Runs are interleaved; medians are shown.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from shared import arguments
from stepcut.features.backbones import load_backbone
from stepcut.features.backbones.backbone import Backbone
from stepcut.features.extract import extract
from stepcut.features.find import find_videos
from stepcut.features.video.sample import sample_frames

FPS = 2
ROOT = Path(__file__).resolve().parent.parent
BOTTLE, KNOTS = (
    ROOT.parent / "shared" / "data" / name / "videos" for name in ("g1_bottle", "knot_tying")
)
GOALS = {"cpu": 0.90, "cuda": 0.85}
MEMORY_GOAL = 1500


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("videos", nargs="*", help="folders or files (default: synthetic videos)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--quick",
        action="store_true",
        help="one run, short videos, one minute of video for the memory",
    )
    parser.add_argument("--only", choices=["speed", "memory", "decode"], help="only these parts")
    parser.add_argument(
        "--minutes", type=int, default=60, help="length of the video for the memory test"
    )
    parser.add_argument("--peak", nargs=2, metavar=("VIDEO", "DEVICE"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peak:
        return print_peak(*args.peak)
    rounds = 1 if args.quick else args.rounds
    with tempfile.TemporaryDirectory() as folder:
        sets = {}
        if args.videos:
            sets["given videos"] = find_videos(args.videos)
        else:
            sets["synthetic: 640x480 H.264"] = make_films(
                Path(folder), count=2 if args.quick else 6, seconds=10 if args.quick else 20
            )
            if BOTTLE.is_dir():
                sets["g1_bottle: 640x480 AV1"] = find_videos(BOTTLE)[: 4 if args.quick else None]
        for name, videos in sets.items() if args.only in ("speed", None) else ():
            measure_speed(name, videos, args.device, rounds)
        if not args.videos and KNOTS.is_dir() and BOTTLE.is_dir() and args.only in ("decode", None):
            some = [
                video
                for place in (KNOTS, BOTTLE)
                for video in find_videos(place)[: 1 if args.quick else 8]
            ]
            sets["real pictures: 640x480 H.264"] = film_again(
                Path(folder, "real"), some, seconds=10
            )
        if not args.videos:
            sets["synthetic: one key frame per second"] = make_films(
                Path(folder, "second"), count=2, seconds=20, key=30
            )
            sets["synthetic: a key frame every 0.1 s"] = make_films(
                Path(folder, "dense"), count=2, seconds=20, key=3
            )
            if args.device == "cuda":
                sets["made: 1080p"] = make_films(
                    Path(folder, "large"), count=6, seconds=20, size=(1920, 1080)
                )
        for name, videos in sets.items() if args.only in ("decode", None) else ():
            measure_decoding(name, videos, args.device, rounds)
        if args.only in ("memory", None):
            measure_memory(Path(folder), args.device, minutes=1 if args.quick else args.minutes)
    return 0


def measure_speed(name: str, videos: list[Path], device: str, rounds: int) -> None:
    """Print the rates of decoding, backbone and both, their limit, and the ratio to it."""
    best = load_backbone(device=device)
    plain = load_backbone(device=device, runtime="torch")
    on_gpu = getattr(best, "device", "cpu").startswith("cuda")
    frames = np.stack(
        [picture for video in videos[:4] for _, picture in sample_frames(video, FPS, best.size)]
    )
    frames = np.concatenate([frames] * (-(-512 // len(frames)) if on_gpu else 1))
    count = sum(1 for video in videos for _ in sample_frames(video, FPS, 16))
    ways: dict[str, tuple[Callable[[], float], int]] = {
        "decode in parallel": (lambda: decode_all(videos, side_by_side=True), count),
        "decode in sequence": (lambda: decode_all(videos, side_by_side=False), count),
        "backbone": (lambda: run_backbone(best, frames), len(frames)),
        "stepcut": (lambda: extract_all(videos, best), count),
    }
    if not on_gpu:
        ways["stepcut on torch"] = (lambda: extract_all(videos, plain), count)
    best.extract(frames[:4])
    plain.extract(frames[:4])
    wall: dict[str, list[float]] = {way: [] for way in ways}  # seconds per frame
    work: dict[str, list[float]] = {way: [] for way in ways}  # seconds of CPU time per frame
    for _ in range(rounds):
        for way, (run, number) in ways.items():
            busy = time.process_time()
            wall[way].append(run() / number)
            work[way].append((time.process_time() - busy) / number)
    print(
        f"\n{name}: {len(videos)} videos, {count} frames sampled, {best!r}, {os.cpu_count()} cores, {rounds} rounds"
    )
    for way in ways:
        rate, cost = 1 / statistics.median(wall[way]), statistics.median(work[way])
        print(f"  {way:<20} {rate:8.1f} frames/s   {1000 * cost:6.1f} ms of CPU time per frame")
    goal = GOALS["cuda" if on_gpu else "cpu"]
    what = "the slower of decode and backbone" if on_gpu else "1 / (decode + backbone)"
    reached = ratios(wall, on_gpu)
    print(
        f"  ratio to {what}: {statistics.median(reached):.2f} (target {goal:.2f}; runs {spread(reached)})"
    )
    if not on_gpu:
        thrift = ratios(work, on_gpu)
        print(
            f"  the same in CPU time, independent of other load: {statistics.median(thrift):.2f} ({spread(thrift)})"
        )
        gains = [
            slow / fast
            for slow, fast in zip(wall["stepcut on torch"], wall["stepcut"], strict=True)
        ]
        print(f"  ratio to plain torch: {statistics.median(gains):.2f} ({spread(gains)})")


def measure_decoding(name: str, videos: list[Path], device: str, rounds: int) -> None:
    """Print the gain of `--fast`: ratio of exact to fast decoding, in time and CPU time."""
    ways = [(False, None), (True, None), *([(True, "cuda")] if device == "cuda" else [])]
    spent: dict[tuple[bool, str | None], list[tuple[float, float]]] = {way: [] for way in ways}
    for _ in range(rounds):
        for fast, gpu in ways:
            busy = time.process_time()
            clock = decode_all(videos, side_by_side=True, fast=fast, gpu=gpu)
            spent[fast, gpu].append((clock, time.process_time() - busy))
    print(f"\n{name}: decoding, {rounds} rounds, exact over fast")
    for way in ways[1:]:
        pairs = zip(spent[False, None], spent[way], strict=True)
        clocks, cpus = zip(
            *((exact[0] / less[0], exact[1] / less[1]) for exact, less in pairs), strict=True
        )
        print(
            f"  {way[1] or 'cpu':<5} CPU time {statistics.median(cpus):.2f} (rounds {spread(cpus)}), "
            f"wall time {statistics.median(clocks):.2f}"
        )


def ratios(times: dict[str, list[float]], on_gpu: bool) -> list[float]:
    """Ratio of the limit to stepcut's time per frame, for each run."""
    rounds = zip(
        times["decode in parallel"],
        times["decode in sequence"],
        times["backbone"],
        times["stepcut"],
        strict=True,
    )
    return [
        (max(min(side, one), backbone) if on_gpu else min(side, one) + backbone) / ours
        for side, one, backbone, ours in rounds
    ]


def spread(values: Sequence[float]) -> str:
    return f"{min(values):.2f} to {max(values):.2f}"


def decode_all(
    videos: list[Path], side_by_side: bool, fast: bool = False, gpu: str | None = None
) -> float:
    """Seconds to sample all videos at the size of the backbone."""
    cores = os.cpu_count() or 1
    workers = min(len(videos), cores) if side_by_side else 1

    def one(video: Path) -> None:
        for _ in sample_frames(
            video, FPS, 224, threads=max(1, cores // workers), fast=fast, gpu=gpu
        ):
            pass

    start = time.perf_counter()
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(one, videos))
    return time.perf_counter() - start


def run_backbone(backbone: Backbone, frames: np.ndarray) -> float:
    batch = getattr(backbone, "batch", 32)
    start = time.perf_counter()
    for at in range(0, len(frames), batch):
        backbone.extract(frames[at : at + batch])
    return time.perf_counter() - start


def extract_all(videos: list[Path], backbone: Backbone) -> float:
    """Seconds of `stepcut features`: hashing, decoding, backbone, storing; the engine is warm."""
    with tempfile.TemporaryDirectory() as cache:
        start = time.perf_counter()
        _, failures = extract(videos, backbone, fps=FPS, cache=cache)
        seconds = time.perf_counter() - start
    if failures:
        raise SystemExit(f"{failures[0]}")
    return seconds


def measure_memory(folder: Path, device: str, minutes: int) -> None:
    """Print the peak memory of extracting one long 1080p video, minus torch and the engine."""
    film = make_long_film(folder / "long.mp4", minutes)
    alone, whole = peak("-", device), peak(str(film), device)
    print(
        f"\npeak memory, {minutes} minutes of 1920x1080 H.264, {film.stat().st_size / 1e6:.0f} MB:"
    )
    print(f"  {whole:.0f} MB, of which {alone:.0f} MB are torch, the engine and its weights")
    print(f"  {whole - alone:.0f} MB in addition (target: under {MEMORY_GOAL} MB)")


def peak(video: str, device: str) -> float:
    words = [sys.executable, __file__, "--peak", video, device]
    return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


def print_peak(video: str, device: str) -> int:
    """Extract `video` ("-": none) in this process and print the peak resident memory in MB."""
    import torch

    backbone = load_backbone(device=device)
    backbone.extract(np.zeros((4, backbone.size, backbone.size, 3), np.uint8))
    torch.zeros(1)
    if video != "-":
        with tempfile.TemporaryDirectory() as cache:
            extract(video, backbone, fps=FPS, cache=cache, strict=True)
    print(peak_resident())
    return 0


def peak_resident() -> float:
    """Peak memory in MB, from /proc if possible: the other counter includes the parent's peak."""
    with contextlib.suppress(OSError), open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM"):
                return int(line.split()[1]) / 1000
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def make_films(
    folder: Path, count: int, seconds: int, key: int = 120, size: tuple[int, int] = (640, 480)
) -> list[Path]:
    """Synthetic videos of a moving texture, 30 fps, with B-frames and a key frame every `key`."""
    films = []
    folder.mkdir(exist_ok=True)
    for number in range(count):
        film = folder / f"film{number}.mp4"
        write_film(film, drift(number, seconds * 30, *size), *size, 30, key)
        films.append(film)
    return films


def film_again(folder: Path, videos: Sequence[Path], seconds: int) -> list[Path]:
    """The beginnings of real videos, encoded like the synthetic ones."""
    folder.mkdir()
    for number, video in enumerate(videos):
        pictures = (picture for _, picture in sample_frames(video, 30, (480, 640), end=seconds))
        write_film(folder / f"film{number}.mp4", pictures, 640, 480, 30)
    return sorted(folder.iterdir())


def drift(seed: int, count: int, width: int, height: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 255, (height // 8, width // 4, 3), dtype=np.uint8)
    texture = coarse.repeat(16, axis=0).repeat(8, axis=1)[: 2 * height, : 2 * width]
    x = y = 0
    for _ in range(count):
        x, y = (x + int(rng.integers(0, 9))) % width, (y + int(rng.integers(0, 5))) % height
        yield np.ascontiguousarray(texture[y : y + height, x : x + width])


def write_film(
    path: Path, pictures: Iterator[np.ndarray], width: int, height: int, rate: int, key: int = 120
) -> None:
    import av

    with av.open(str(path), "w") as out:
        stream: Any = out.add_stream(
            "libx264", rate=rate, options={"preset": "veryfast", "crf": "28", "g": str(key)}
        )
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number, picture in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts = number
            out.mux(stream.encode(frame))
        out.mux(stream.encode())


def make_long_film(
    path: Path, minutes: int, rate: int = 5, width: int = 1920, height: int = 1080
) -> Path:
    """One encoded minute at `rate` fps, its packets repeated to the requested length."""
    import av

    minute = path.with_suffix(".minute.mp4")
    write_film(minute, drift(0, 60 * rate, width, height), width, height, rate)
    with av.open(str(path), "w") as out:
        stream: Any = None
        for number in range(minutes):
            with av.open(str(minute)) as source:
                given = source.streams.video[0]
                stream = stream or out.add_stream_from_template(given)
                shift = int(Fraction(60 * number) / Fraction(given.time_base))
                for packet in source.demux(given):
                    if packet.dts is not None:
                        packet.pts, packet.dts, packet.stream = (
                            packet.pts + shift,
                            packet.dts + shift,
                            stream,
                        )
                        out.mux(packet)
    return path


if __name__ == "__main__":
    sys.exit(main())
