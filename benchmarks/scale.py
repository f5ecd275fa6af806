"""What workers and Ray cost and gain on this machine, and what that means for a cluster.

    python benchmarks/scale.py                        measure: workers, Ray against local, memory, costs
    python benchmarks/scale.py --costs costs.json     the same, and keep the costs in a file
    python benchmarks/scale.py --plan costs.json      no measuring: the capacity plan of docs/scale.md from such a file
    python benchmarks/scale.py --quick                a few minutes instead of many

Efficiency: frames per second of two workers over twice those of one, each on a core of its own, where decoder and
backbone share it. Overhead: seconds of --engine ray over those of --engine local with as many workers, both started and
warm. Rounds are interleaved, medians are shown. On a machine that does other work besides, the same in CPU seconds per
frame says more: what a frame costs one worker over what it costs when two work side by side.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from extract import make_films
from stepcut.progress import duration
from stepcut.scale.contract import Engine
from stepcut.scale.local import Local
from stepcut.see.features import extract
from stepcut.see.video import sample_frames
from stepcut.storage import write_json
from stepcut.version import __version__

FPS = 2
HOURS = {"EgoProceL": 62, "Ego4D": 3670}
TASKS = {"EgoProceL": 16, "Ego4D": 947}
"""Ego4D has no tasks of its own; as many as there would be at EgoProceL's 3.9 hours each."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one round, short films")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-ray", action="store_true", help="leave Ray out")
    parser.add_argument("--costs", type=Path, metavar="FILE", help="keep the costs here; other entries stay")
    parser.add_argument("--plan", type=Path, metavar="FILE", help="print the capacity plan from these costs")
    args = parser.parse_args()
    if args.plan:
        print(plan(json.loads(args.plan.read_text())))
        return
    with tempfile.TemporaryDirectory() as folder:
        films = make_films(Path(folder), count=4, seconds=15 if args.quick else 60)
        measured = measure_workers(films, Path(folder), 1 if args.quick else args.rounds, not args.no_ray)
        measured |= measure_memory(Path(folder), [30, 60, 120] if args.quick else [60, 240, 960])
    measured |= {"cpu_step": measure_step(60 if args.quick else 300), "cpu_decode": measured.pop("decode")}
    if args.costs:
        kept = json.loads(args.costs.read_text()) if args.costs.exists() else {}
        write_json(args.costs, {**kept, **measured})


# ---------------------------------------------------------------------- workers


def measure_workers(films: list[Path], folder: Path, rounds: int, with_ray: bool) -> dict[str, Any]:
    """Frames per second by one and two workers, and the same on Ray."""
    engines: dict[str, Engine] = {"1 worker": Local(1), "2 workers": Local(2)}
    starts = {}
    for engine in engines.values():
        engine.threads = 1  # type: ignore[attr-defined]
        engine.map(pin, range(engine.workers))
    if with_ray:
        from stepcut.scale.ray import Ray

        begin = time.perf_counter()
        engines["2 workers on Ray"] = Ray(2)
        starts["Ray"] = time.perf_counter() - begin
        engines["2 workers, free"] = Local(2)  # Ray chooses which worker gets what, so its workers are not pinned
    seconds: dict[str, list[float]] = {name: [] for name in engines}
    cpu: dict[str, list[float]] = {name: [] for name in engines}
    frames = 0
    for turn in range(rounds + 1):
        for name, engine in engines.items():
            cache = folder / f"{turn}-{name}"
            before, begin = sum(engine.map(spent, range(engine.workers))), time.perf_counter()  # type: ignore[arg-type]
            features, _ = extract(films, fps=FPS, cache=cache, device="cpu", engine=engine)
            took = time.perf_counter() - begin
            after = sum(engine.map(spent, range(engine.workers)))  # type: ignore[arg-type]
            frames = sum(len(one.rows) for one in features)
            if turn:  # the first turn loads the backbones
                seconds[name].append(took)
                cpu[name].append(max(0.0, after - before))
    for engine in engines.values():
        engine.close()
    rate = {name: frames / statistics.median(each) for name, each in seconds.items()}
    print(f"{frames} frames of 640x480 films, {rounds} rounds, {platform.processor() or platform.machine()}")
    for name, value in rate.items():
        print(f"  {name:<18} {value:8.1f} frames/s")
    print(f"  efficiency of 2 workers: {rate['2 workers'] / (2 * rate['1 worker']):.2f} (goal 0.90)")
    if with_ray:
        print(f"  Ray over local: {rate['2 workers, free'] / rate['2 workers on Ray'] - 1:+.1%} (goal under +10 %)")
        print(f"  starting Ray: {starts['Ray']:.1f} s")
    per_frame = {name: statistics.median(each) / frames for name, each in cpu.items()}
    for name, value in per_frame.items():
        print(f"  {name:<18} {1000 * value:8.2f} ms of CPU time per frame")
    by_cpu = per_frame["1 worker"] / per_frame["2 workers"]
    print(f"  efficiency of 2 workers by CPU time: {by_cpu:.2f}")
    if with_ray:
        print(f"  Ray over local by CPU time: {per_frame['2 workers on Ray'] / per_frame['2 workers, free'] - 1:+.1%}")
    return {
        "machine": platform.machine(),
        "version": __version__,
        "cpu_frame": per_frame["1 worker"],
        "efficiency": by_cpu,
        "decode": measure_decoding(films),
    }


def measure_decoding(films: list[Path]) -> float:
    """CPU seconds of decoding and scaling alone, per frame sampled."""
    begin, count = time.process_time(), 0
    for film in films:
        count += sum(1 for _ in sample_frames(film, FPS, 224, threads=1))
    cost = (time.process_time() - begin) / count
    print(f"  decoding and scaling alone: {1000 * cost:.2f} ms of CPU time per frame")
    return cost


def pin(core: int) -> None:
    """Keep this worker, and the threads it will start, on one core; a pause lets every worker get one of these."""
    time.sleep(1.0)
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[core]})


def spent(_: int) -> float:
    """CPU seconds of this worker since it began; a pause lets every worker get one of these."""
    time.sleep(0.2)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


# ---------------------------------------------------------------------- memory


def measure_memory(folder: Path, lengths: list[int]) -> dict[str, Any]:
    """The greatest memory of a fresh worker for videos of growing length."""
    peaks = {}
    for length in lengths:
        film = make_films(folder / "long", 1, length) if (folder / "long").mkdir(exist_ok=True) is None else []
        engine = Local(1)
        try:
            extract(film, fps=FPS, cache=folder / f"memory-{length}", device="cpu", engine=engine)
            peaks[str(length)] = engine.map(peak, [0])[0]
        finally:
            engine.close()
    for length, megabytes in peaks.items():
        print(f"  video of {length:>4} s: worker's peak {megabytes:.0f} MB")
    values = [float(value) for value in peaks.values() if not isinstance(value, Exception)]
    print(f"  longest over shortest: {values[-1] / values[0]:.2f} (flat: 1.00)")
    return {"worker_megabytes": values[-1]}


def peak(_: int) -> float:
    """The greatest memory that this worker has had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# ---------------------------------------------------------------------- training


def measure_step(steps: int) -> float:
    """Seconds of one training step on vectors of 1,280 numbers, on one core."""
    import torch

    from stepcut.correspond import Embedder

    torch.set_num_threads(1)
    random = np.random.default_rng(0)
    features = [random.normal(size=(600, 1280)).astype(np.float32) for _ in range(5)]
    took = []
    for count in (5, steps, 2 * steps):  # the first compiles; the difference of the others leaves preparing out
        begin = time.process_time()
        Embedder(device="cpu", steps=count, patience=count, rate=2).fit(features)
        took.append(time.process_time() - begin)
    step = (took[2] - took[1]) / steps
    print(f"  training step on vectors, one core: {1000 * step:.1f} ms of CPU time")
    return step


# ---------------------------------------------------------------------- plan


SIZES = (("1 GPU, 16 cores", 1, 16), ("8 GPUs, 128 cores", 8, 128), ("100 CPU workers", 0, 100))


def plan(costs: dict[str, Any]) -> str:
    """The capacity plan as Markdown: time and cost of every size for every collection, and what limits it.

    Seeing on GPUs takes as long as the slower of decoding (on all cores) and the backbone (on all GPUs); while the
    latter is not measured, the former is what it takes at least. Tasks are learned side by side.
    """
    lines = ["| data | hardware | seeing | learning | cost | the next bottleneck |", "|---|---|---|---|---|---|"]
    for data, hours in HOURS.items():
        frames, tasks = hours * 3600 * FPS, TASKS[data]
        for name, gpus, cores in SIZES:
            known = not gpus or costs["gpu_frame"] is not None
            network = (costs["gpu_frame"] or 0.0) / gpus if gpus else 0.0
            decode = costs["cpu_decode" if gpus else "cpu_frame"] / (cores * costs["efficiency"])
            see = frames * max(decode, network)
            step, steps = (costs["gpu_step"], 10_000) if gpus else (costs["cpu_step"], 1_000)
            learn = -(-tasks // (gpus or cores)) * steps * step
            limit = "the backbone on the CPUs" if not gpus else "decoding" if decode > network else "the backbone"
            if learn > see:
                limit = "training: one GPU for each task"
            price = (see + learn) / 3600 * (gpus * costs["gpu_price"] + cores * costs["cpu_price"])
            least = "" if known else "at least "
            cells = (
                f"{data}, {hours:,} h",
                name,
                least + duration(see),
                duration(learn),
                f"{least}${price:,.2f}",
                limit,
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
