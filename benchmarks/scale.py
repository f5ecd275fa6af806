"""Measure cost and gain of workers and Ray on this machine, and extrapolate to a cluster.

    python benchmarks/scale.py
        measure and print the tables of reports/scale.md (about 7 minutes)
    python benchmarks/scale.py --quick              a minute or two instead
    python benchmarks/scale.py --costs scale_costs.json --docs reports/scale.md
        store the costs and write the page
    python benchmarks/scale.py --tables scale_costs.json
        print the tables from a file

Efficiency: frames per second of two workers over twice those of one, each pinned to one core, which
its decoder and its backbone (one thread) share. Overhead: time of two workers on Ray over two local
ones, not pinned. Everything is warm before timing starts: starting Ray (shown), starting the
workers and loading their backbones are excluded. Runs are interleaved; ratios are per run, medians
are shown.

CPU time includes the driver, the workers and all processes of Ray. It is more reliable than wall
time under other load, which is also shown.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from extract import make_films, make_long_film, peak_resident
from scale_tables import FPS, TABLES, fill
from shared import arguments
from stepcut.features.extract import extract
from stepcut.features.video.sample import sample_frames
from stepcut.files.atomic import write_json, write_text
from stepcut.parallel.engine import count_cores
from stepcut.parallel.local import Local
from stepcut.version import __version__

TICK = os.sysconf("SC_CLK_TCK")


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--quick", action="store_true", help="one run, short videos")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--costs", type=Path, metavar="FILE", help="file to store the costs in; other entries stay"
    )
    parser.add_argument("--docs", type=Path, metavar="FILE", help="write the tables into this page")
    parser.add_argument(
        "--tables",
        type=Path,
        metavar="FILE",
        help="print the tables from this file, without measuring",
    )
    args = parser.parse_args()
    if args.tables:
        costs = json.loads(args.tables.read_text())
    else:
        kept = (
            args.costs
            if args.costs and args.costs.exists()
            else Path(__file__).with_name("scale_costs.json")
        )
        costs = json.loads(kept.read_text())
        costs |= measure(args.quick, 1 if args.quick else args.rounds)
        if args.costs:
            write_json(args.costs, costs)
    if args.docs:
        write_text(args.docs, fill(args.docs.read_text(), costs))
    for table in TABLES.values():
        print(f"\n{table(costs)}")
    return 0


def measure(quick: bool, rounds: int) -> dict[str, Any]:
    """Measure all costs of this machine."""
    with tempfile.TemporaryDirectory() as folder:
        films = make_copies(Path(folder), count=4 if quick else 6, seconds=15 if quick else 60)
        workers = measure_workers(films, Path(folder), rounds)
        memory = measure_memory(Path(folder), [1, 2] if quick else [1, 4, 16])
        decode = measure_decoding(films[:2])
    return {
        "machine": f"{platform.machine()}, {platform.system()}",
        "version": __version__,
        "cpu_frame": workers.pop("cpu_frame"),
        "cpu_decode": decode,
        "cpu_step": measure_step(60 if quick else 300),
        "efficiency": workers["efficiency"],
        "measured": {**workers, "memory": memory},
    }


def make_copies(folder: Path, count: int, seconds: int) -> list[Path]:
    """Copies of one video with different content hashes."""
    (film,) = make_films(folder, 1, seconds)
    copies = []
    for number in range(count):
        copies.append(folder / f"copy{number}.mp4")
        copies[-1].write_bytes(film.read_bytes() + b"\0\0\0\x09free" + bytes([number]))
    return copies


# ---------------------------------------------------------------------- workers


def measure_workers(films: list[Path], folder: Path, rounds: int) -> dict[str, Any]:
    """Frames per second and CPU time of one and two workers, and of two on Ray."""
    from stepcut.parallel.ray import Ray

    engines: dict[str, Any] = {"1": Local(1), "2": Local(2), "2 free": Local(2)}
    processes: dict[str, list[int]] = {}
    for name, engine in engines.items():
        engine.threads = 1
        before = {child.pid for child in multiprocessing.active_children()}
        engine.map(pin if name != "2 free" else wait, range(engine.workers))
        processes[name] = [
            c.pid for c in multiprocessing.active_children() if c.pid and c.pid not in before
        ]
    others = set(descendants())
    begin = time.perf_counter()
    engines["2 on Ray"] = Ray(2)
    start = time.perf_counter() - begin
    for name, engine in engines.items():  # one video per worker loads the backbones
        extract(
            films[: engine.workers],
            fps=FPS,
            cache=folder / f"warm-{name}",
            device="cpu",
            engine=engine,
        )
    processes["2 on Ray"] = [pid for pid in descendants() if pid not in others]

    seconds: dict[str, list[float]] = {name: [] for name in engines}
    cpu: dict[str, list[float]] = {name: [] for name in engines}
    frames = 0
    whole = Watch(descendants())
    for turn in range(rounds):
        for name, engine in engines.items():
            watch = Watch(processes[name])
            features, _ = extract(
                films, fps=FPS, cache=folder / f"{turn}-{name}", device="cpu", engine=engine
            )
            took, spent, _ = watch.read()
            seconds[name].append(took)
            cpu[name].append(spent)
            frames = sum(len(one.rows) for one in features)
            print(
                f"  round {turn + 1}, workers {name:<8} {frames / took:6.1f} frames/s",
                file=sys.stderr,
            )
    foreign = whole.read()[2]
    for engine in engines.values():
        engine.close()

    def ratio(times: dict[str, list[float]], over: str, under: str) -> float:
        return statistics.median(a / b for a, b in zip(times[over], times[under], strict=True))

    return {
        "cores": count_cores(),
        "frames": frames,
        "rounds": rounds,
        "others": foreign,
        "rate_1": frames / statistics.median(seconds["1"]),
        "rate_2": frames / statistics.median(seconds["2"]),
        "efficiency": ratio(seconds, "1", "2") / 2,
        "efficiency_cpu": ratio(cpu, "1", "2"),
        "ray": ratio(seconds, "2 on Ray", "2 free") - 1,
        "ray_cpu": ratio(cpu, "2 on Ray", "2 free") - 1,
        "ray_start": start,
        "cpu_frame": statistics.median(cpu["1"]) / frames,
    }


class Watch:
    """Wall time, CPU time of processes, and load by other programs."""

    def __init__(self, pids: Sequence[int]) -> None:
        self.pids = [os.getpid(), *pids]
        self.clock, self.spent, self.busy = (
            time.perf_counter(),
            cpu_seconds(self.pids),
            busy_seconds(),
        )

    def read(self) -> tuple[float, float, float]:
        """Wall seconds, CPU seconds of the processes, share of the cores used by others."""
        took, spent = time.perf_counter() - self.clock, cpu_seconds(self.pids) - self.spent
        foreign = busy_seconds() - self.busy - spent
        return took, spent, max(0.0, foreign / (took * (os.cpu_count() or 1)))


def cpu_seconds(pids: Sequence[int]) -> float:
    """CPU seconds of processes since they started."""
    return sum(sum(int(word) for word in stat(pid)[11:13]) for pid in pids) / TICK


def busy_seconds() -> float:
    """CPU seconds of the whole machine, without idle and disk wait."""
    words = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    return sum(int(word) for place, word in enumerate(words) if place not in (3, 4)) / TICK


def descendants() -> list[int]:
    """All child processes, recursively."""
    parents = {int(file.name): stat(int(file.name)) for file in Path("/proc").glob("[0-9]*")}
    found = [os.getpid()]
    for pid in found:
        found += [child for child, words in parents.items() if words and int(words[1]) == pid]
    return found[1:]


def stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; empty if the process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def pin(core: int) -> None:
    """Pin this worker to one core; the pause gives every worker one call."""
    time.sleep(1.0)
    mine = {sorted(os.sched_getaffinity(0))[core]}
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), mine)


def wait(_: int) -> None:
    """Pause, so that every worker gets one call."""
    time.sleep(1.0)


def measure_decoding(films: list[Path]) -> float:
    """CPU seconds of decoding and scaling per sampled frame."""
    begin, count = time.process_time(), 0
    for film in films:
        count += sum(1 for _ in sample_frames(film, FPS, 224, threads=1))
    return (time.process_time() - begin) / count


# ---------------------------------------------------------------------- memory


def measure_memory(folder: Path, minutes: list[int]) -> dict[str, float]:
    """Peak memory of a fresh worker in MB, for videos of increasing length."""
    peaks = {}
    for length in minutes:
        film = make_long_film(folder / f"{length}.mp4", length, rate=10, width=320, height=240)
        engine = Local(1)
        try:
            extract(film, fps=FPS, cache=folder / f"memory-{length}", device="cpu", engine=engine)
            (answer,) = engine.map(peak, [0])
        finally:
            engine.close()
        if isinstance(answer, Exception):
            raise answer
        peaks[str(length)] = answer
        print(f"  video of {length} min: worker's peak {answer:.0f} MB", file=sys.stderr)
    return peaks


def peak(_: int) -> float:
    """Peak memory of this worker in MB."""
    return peak_resident()


# ---------------------------------------------------------------------- training


def measure_step(steps: int) -> float:
    """CPU seconds of one training iteration on vectors of 1,280 numbers, on one core."""
    import torch

    from stepcut.paper.cnc.embedder import Embedder

    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    features = [random.normal(size=(600, 1280)).astype(np.float32) for _ in range(5)]
    took = []
    for count in (
        5,
        steps,
        2 * steps,
    ):  # the first run compiles; the difference of the others excludes preparation
        begin = time.process_time()
        Embedder.of(device="cpu", iterations=count, patience=count, rate=2).fit(features)
        took.append(time.process_time() - begin)
    return (took[2] - took[1]) / steps


if __name__ == "__main__":
    sys.exit(main())
