"""Measure the speed of feature extraction against its limit, and the memory of a worker.

    python benchmarks/extract.py [VIDEOS...] [--device cuda] [--only speed]

Without VIDEOS, made videos and, where available, recorded ones. Decoding and network share the cores,
so the limit is 1 / (decode time + network time) per frame, each measured alone on all cores; on a GPU
it is the slower of the two. Rates count sampled frames (2 per second of video). Runs are interleaved;
medians are shown.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import av
import numpy as np

from shared import arguments
from stepcut.features.backbones import load_backbone
from stepcut.features.extract import extract
from stepcut.features.find import find_videos
from stepcut.features.video.sample import sample_frames
from stepcut.parallel.engine import Local

FPS = 2
BOTTLE = Path(__file__).resolve().parents[2] / "shared" / "data" / "g1_bottle" / "videos"
Run = Callable[[], object]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("videos", nargs="*", help="folders or files (default: synthetic videos)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=["speed", "memory", "decode"], help="only this part")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if args.videos:
            sets = {"given videos": find_videos(args.videos)}
        else:
            sets = {"made: 640x480 H.264": make_films(Path(folder, "plain"), 6, 20)}
            if BOTTLE.is_dir():
                sets["g1_bottle: 640x480 AV1"] = find_videos(BOTTLE)
        if args.only in ("speed", None):
            for name, videos in sets.items():
                measure_speed(name, videos, args.device, args.rounds)
        if args.only in ("decode", None):
            for name, key in (("one key frame per second", 30), ("a key frame every 0.1 s", 3)):
                sets[f"made: {name}"] = make_films(Path(folder, str(key)), 2, 20, key)
            for name, videos in sets.items():
                ways = {way: (decoding(videos, way), 1) for way in (False, True)}
                gains = np.divide(*measure(ways, args.rounds).values())
                wall, cpu = map(middle, gains.T.tolist())
                print(f"\n{name}: decoding, exact over --fast: CPU time {cpu}, wall time {wall}")
        if args.only in ("memory", None):
            print()
            for minutes in (1, 16):
                film = Path(folder, f"long{minutes}.mp4")
                write_film(film, 0, 300 * minutes, 1920, 1080, 5)
                peak = peak_of_worker(film, args.device)
                print(f"Peak of a worker, {minutes} minutes of 1080p: {peak:.0f} MB")


def measure(ways: dict[Any, tuple[Run, int]], rounds: int) -> dict[Any, np.ndarray]:
    """Wall and CPU seconds of every run, divided by its number; the first round only warms up."""
    spent: dict[Any, list[np.ndarray]] = {way: [] for way in ways}
    for _ in range(1 + rounds):
        for way, (run, number) in ways.items():
            begun = np.array([time.perf_counter(), cpu_seconds()])
            run()
            spent[way].append((np.array([time.perf_counter(), cpu_seconds()]) - begun) / number)
    return {way: np.array(times[1:]) for way, times in spent.items()}


def measure_speed(name: str, videos: list[Path], device: str, rounds: int) -> None:
    """Print the rates of decoding, network and both, and the ratio to the limit."""
    network = load_backbone(device=device)
    engines: dict[str, Any] = {"stepcut": Local(), "stepcut, one worker": Local(1)}
    on_gpu = str(getattr(network, "device", "cpu")).startswith("cuda")
    some = [picture for v in videos[:4] for _, picture in sample_frames(v, FPS, network.size)]
    frames = np.stack(some * (-(-512 // len(some)) if on_gpu else 1))
    count = sum(1 for video in videos for _ in sample_frames(video, FPS, 16))

    def run_network() -> None:
        batch = getattr(network, "batch", 32)
        for at in range(0, len(frames), batch):
            network.extract(frames[at : at + batch])

    def extract_all(engine: Any) -> None:  # hashing, decoding, network, storing; workers are warm
        with tempfile.TemporaryDirectory() as cache:
            extract(videos, network, fps=FPS, cache=cache, engine=engine, strict=True)

    ways: dict[str, tuple[Run, int]] = {
        "decode": (decoding(videos), count),
        "network": (run_network, len(frames)),
        **{name: (partial(extract_all, engine), count) for name, engine in engines.items()},
    }
    spent = measure(ways, rounds)
    for engine in engines.values():
        engine.close()
    print(f"\n{name}: {len(videos)} videos, {count} frames, {network!r}, {rounds} rounds")
    for way, times in spent.items():
        wall, cpu = np.median(times, axis=0)
        print(f"  {way:<19} {1 / wall:8.1f} frames/s   {1000 * cpu:6.1f} ms of CPU time per frame")
    decode, embed, ours, *_ = spent.values()
    limit = np.maximum(decode, embed) if on_gpu else decode + embed
    for clock, reached in zip(("wall", "CPU"), (limit / ours).T.tolist(), strict=True):
        print(f"  share of the limit, {clock} time: {middle(reached)}")


def middle(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def decoding(videos: list[Path], fast: bool = False) -> Run:
    """Sample all videos at the size of the network."""
    cores = os.cpu_count() or 1
    workers = min(len(videos), cores)

    def one(video: Path) -> None:
        for _ in sample_frames(video, FPS, 224, threads=max(1, cores // workers), fast=fast):
            pass

    def every() -> None:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(one, videos))

    return every


def own_processes() -> dict[int, list[str]]:
    """The fields of /proc/PID/stat of this process and of those that it started."""
    stats = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            stats[int(file.parent.name)] = file.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
    mine = [os.getpid()]
    for pid in mine:
        mine += [child for child, words in stats.items() if int(words[1]) == pid]
    return {pid: stats[pid] for pid in mine}


def cpu_seconds() -> float:
    """CPU seconds of this process and of its children so far."""
    ticks = sum(int(word) for words in own_processes().values() for word in words[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def peak_of_worker(film: Path, device: str) -> float:
    """Peak memory in MB of a fresh worker that extracts a video."""
    before, engine = own_processes().keys(), Local(1)
    with tempfile.TemporaryDirectory() as cache:
        extract(film, fps=FPS, cache=cache, device=device, engine=engine, strict=True)
    texts = [Path(f"/proc/{p}/status").read_text() for p in own_processes().keys() - before]
    engine.close()
    return max(int(text.partition("VmHWM:")[2].split()[0]) for text in texts) / 1000


def make_films(folder: Path, count: int, seconds: int, key: int = 120) -> list[Path]:
    """Videos of a moving texture, 30 frames per second, with a key frame every `key`."""
    folder.mkdir(exist_ok=True)
    films = [folder / f"film{number}.mp4" for number in range(count)]
    for number, film in enumerate(films):
        write_film(film, number, seconds * 30, 640, 480, 30, key)
    return films


def write_film(
    path: Path, seed: int, count: int, width: int, height: int, rate: int, key: int = 120
) -> None:
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 255, (height // 8, width // 4, 3), dtype=np.uint8)
    texture = coarse.repeat(16, axis=0).repeat(8, axis=1)[: 2 * height, : 2 * width]
    x = y = 0
    how = {"preset": "veryfast", "crf": "28", "g": str(key)}
    with av.open(str(path), "w") as out:
        stream: Any = out.add_stream("libx264", rate=rate, options=how)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number in range(count):
            x, y = (x + int(rng.integers(0, 9))) % width, (y + int(rng.integers(0, 5))) % height
            picture = np.ascontiguousarray(texture[y : y + height, x : x + width])
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts = number
            out.mux(stream.encode(frame))
        out.mux(stream.encode())


if __name__ == "__main__":
    main()
