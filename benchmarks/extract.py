"""Measure the speed of feature extraction against its limit, and the memory for an hour of video.

    python benchmarks/extract.py                          synthetic and, if available, real videos
    python benchmarks/extract.py VIDEOS... --device cuda  your videos, on a GPU
    python benchmarks/extract.py --quick                  a minute instead of several

Decoding and network share the cores, so the limit is 1 / (decode time + network time) per frame,
each measured alone on all cores; on a GPU it is the slower of the two. Rates count sampled frames
(2 per second of video). Runs are interleaved; medians are shown.
"""

from __future__ import annotations

import os
import statistics
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
from stepcut.features.backbones.runtime import Backbone
from stepcut.features.extract import extract
from stepcut.features.find import find_videos
from stepcut.features.video.sample import sample_frames
from stepcut.parallel.engine import Local

FPS = 2
DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
BOTTLE = DATA / "g1_bottle" / "videos"


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("videos", nargs="*", help="folders or files (default: synthetic videos)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one run, short videos")
    parser.add_argument("--only", choices=["speed", "memory", "decode"], help="only this part")
    args = parser.parse_args()
    rounds, parts = 1 if args.quick else args.rounds, [args.only or "speed", args.only or "decode"]
    with tempfile.TemporaryDirectory() as folder:
        films = make_sets(Path(folder), args.quick, args.device, "decode" in parts)
        sets = {"given videos": find_videos(args.videos)} if args.videos else films
        for number, (name, videos) in enumerate(sets.items()):
            if "speed" in parts and number < 2:
                measure_speed(name, videos, args.device, rounds)
            if "decode" in parts:
                measure_decoding(name, videos, rounds)
        if args.only in ("memory", None):
            minutes = 1 if args.quick else 60
            film = make_long_film(Path(folder, "long.mp4"), minutes)
            size, peak = film.stat().st_size / 1e6, peak_of_worker(film, args.device)
            print(f"\n{minutes} minutes of 1080p, {size:.0f} MB: {peak:.0f} MB in the worker")
    return 0


def make_sets(folder: Path, quick: bool, device: str, all_of_them: bool) -> dict[str, list[Path]]:
    """Synthetic and real videos by name."""
    seconds = 10 if quick else 20
    sets = {"synthetic: 640x480 H.264": make_films(folder / "plain", 2 if quick else 6, seconds)}
    if BOTTLE.is_dir():
        sets["g1_bottle: 640x480 AV1"] = find_videos(BOTTLE)[: 4 if quick else None]
    if all_of_them:
        for name, key in (("one key frame per second", 30), ("a key frame every 0.1 s", 3)):
            sets[f"synthetic: {name}"] = make_films(folder / str(key), 2, seconds, key)
        if device == "cuda":
            sets["synthetic: 1080p"] = make_films(folder / "hd", 6, seconds, size=(1920, 1080))
    return sets


def measure_speed(name: str, videos: list[Path], device: str, rounds: int) -> None:
    """Print the rates of decoding, network and both, and the ratio to the limit."""
    network = load_backbone(device=device)
    on_gpu = str(getattr(network, "device", "cpu")).startswith("cuda")
    some = [picture for v in videos[:4] for _, picture in sample_frames(v, FPS, network.size)]
    frames = np.stack(some * (-(-512 // len(some)) if on_gpu else 1))
    count = sum(1 for video in videos for _ in sample_frames(video, FPS, 16))
    engine = Local()
    ways: dict[str, tuple[Callable[[], None], int]] = {
        "decode, videos in parallel": (lambda: decode_all(videos, len(videos)), count),
        "decode, one after another": (lambda: decode_all(videos, 1), count),
        "network": (lambda: run_network(network, frames), len(frames)),
        "stepcut": (lambda: extract_all(videos, network, engine), count),
    }
    wall: dict[str, list[float]] = {way: [] for way in ways}  # seconds per frame
    work: dict[str, list[float]] = {way: [] for way in ways}  # seconds of CPU time per frame
    for turn in range(-1, rounds):  # the first one starts workers and builds networks
        for way, (run, number) in ways.items():
            begun, busy = time.perf_counter(), cpu_seconds()
            run()
            if turn >= 0:
                wall[way].append((time.perf_counter() - begun) / number)
                work[way].append((cpu_seconds() - busy) / number)
    engine.close()
    print(f"\n{name}: {len(videos)} videos, {count} frames, {network!r}, {rounds} rounds")
    for way in ways:
        rate, cost = 1 / statistics.median(wall[way]), 1000 * statistics.median(work[way])
        print(f"  {way:<27} {rate:8.1f} frames/s   {cost:6.1f} ms of CPU time per frame")
    for clock, times in (("wall", wall), ("CPU", work)):
        reached = [
            (max(min(a, b), c) if on_gpu else min(a, b) + c) / ours
            for a, b, c, ours in zip(*times.values(), strict=True)
        ]
        print(f"  share of the limit, {clock} time: {middle(reached)}")


def measure_decoding(name: str, videos: list[Path], rounds: int) -> None:
    """Print the gain of `--fast`: ratio of exact to fast decoding."""
    spent: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for _ in range(rounds):
        for fast in spent:
            begun, busy = time.perf_counter(), time.process_time()
            decode_all(videos, len(videos), fast)
            spent[fast].append((time.perf_counter() - begun, time.process_time() - busy))
    print(f"\n{name}: decoding, {rounds} rounds, exact over fast")
    pairs = list(zip(spent[False], spent[True], strict=True))
    wall, cpu = ([exact[n] / less[n] for exact, less in pairs] for n in (0, 1))
    print(f"  CPU time {middle(cpu)}, wall time {middle(wall)}")


def middle(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def decode_all(videos: list[Path], beside: int, fast: bool = False) -> None:
    """Sample all videos at the size of the network, so many beside each other."""
    cores = os.cpu_count() or 1
    workers = min(beside, cores)

    def one(video: Path) -> None:
        threads = max(1, cores // workers)
        for _ in sample_frames(video, FPS, 224, threads=threads, fast=fast):
            pass

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(one, videos))


def run_network(network: Backbone, frames: np.ndarray) -> None:
    batch = getattr(network, "batch", 32)
    for at in range(0, len(frames), batch):
        network.extract(frames[at : at + batch])


def extract_all(videos: list[Path], network: Backbone, engine: Local) -> None:
    """`stepcut features`: hashing, decoding, network, storing; the workers are warm."""
    with tempfile.TemporaryDirectory() as cache:
        extract(videos, network, fps=FPS, cache=cache, engine=engine, strict=True)


def cpu_seconds() -> float:
    """CPU seconds of this process and of its children so far."""
    stats = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            stats[int(file.parent.name)] = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
    mine = [os.getpid()]
    for pid in mine:
        mine += [child for child, words in stats.items() if int(words[1]) == pid]
    ticks = sum(int(word) for pid in mine for word in stats[pid][11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def peak_of_worker(film: Path, device: str) -> float:
    """Peak memory in MB of a fresh worker that extracts a video."""
    engine = Local(1)
    with tempfile.TemporaryDirectory() as cache:
        extract(film, fps=FPS, cache=cache, device=device, engine=engine, strict=True)
    [peak] = engine.map(peak_resident, [0])
    engine.close()
    if isinstance(peak, Exception):
        raise peak
    return peak


def peak_resident(_: int) -> float:
    """Peak memory of this process in MB, which /proc tells without that of its parent."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1000
    return float("nan")


def make_films(
    folder: Path, count: int, seconds: int, key: int = 120, size: tuple[int, int] = (640, 480)
) -> list[Path]:
    """Videos of a moving texture, 30 frames per second, with a key frame every `key`."""
    folder.mkdir(exist_ok=True)
    films = [folder / f"film{number}.mp4" for number in range(count)]
    for number, film in enumerate(films):
        write_film(film, drift(number, seconds * 30, *size), *size, 30, key)
    return films


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

    how = {"preset": "veryfast", "crf": "28", "g": str(key)}
    with av.open(str(path), "w") as out:
        stream: Any = out.add_stream("libx264", rate=rate, options=how)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number, picture in enumerate(pictures):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts = number
            out.mux(stream.encode(frame))
        out.mux(stream.encode())


def make_long_film(path: Path, minutes: int, width: int = 1920, height: int = 1080) -> Path:
    """One encoded minute at 5 frames per second, its packets repeated to the requested length."""
    import av

    minute = path.with_suffix(".minute.mp4")
    write_film(minute, drift(0, 300, width, height), width, height, 5)
    with av.open(str(path), "w") as out:
        stream: Any = None
        for number in range(minutes):
            with av.open(str(minute)) as source:
                given = source.streams.video[0]
                stream = stream or out.add_stream_from_template(given)
                shift = int(Fraction(60 * number) / Fraction(given.time_base))
                for packet in source.demux(given):
                    if packet.dts is not None:
                        packet.pts, packet.dts = packet.pts + shift, packet.dts + shift
                        packet.stream = stream
                        out.mux(packet)
    return path


if __name__ == "__main__":
    sys.exit(main())
