"""Measure `learn` on many videos: wall time, CPU time and peak memory, and F1 beside the full
computation.

    python benchmarks/large.py                  1,000 toy kitchens of ten minutes, two rows a second
    python benchmarks/large.py --full 128       compare with the full computation on 128 videos
    python benchmarks/large.py --full 0         without this comparison
    python benchmarks/large.py --videos 0       only this comparison
    python benchmarks/large.py --quick          128 videos, without this comparison

Targets for 1,000 videos on two cores: 600 s and 4 GB, including the features. F1 is at most one
point below the full computation, in which all videos take part in everything. Every line is a fresh
process, and includes the time that numba needs to load or compile its loops.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module

import numpy as np

from extract import peak_resident
from shared import arguments, report

SECONDS, GIGABYTES = 600, 4
RATE = 2
SAMPLING = (
    "stepcut.methods.stepcut.learning",
    "stepcut.checking.calibrate",
)
"""Modules in which `MANY` videos stand for all."""


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--videos", type=int, default=1000)
    parser.add_argument("--full", type=int, default=128, metavar="VIDEOS")
    parser.add_argument("--dim", type=int, default=32, help="dimension of the features")
    parser.add_argument("--quick", action="store_true", help="128 videos, no full computation")
    args = parser.parse_args()
    print(f"{os.cpu_count()} cores, load before {os.getloadavg()[0]:.1f}, {args.dim} dimensions")
    print(f"limits: {SECONDS} s, {GIGABYTES} GB\n")
    print("                             wall            CPU           peak memory      F1")
    videos = 128 if args.quick else args.videos
    if videos:
        show(f"fit, {videos} videos", videos, args.dim, only_fit=True)
        show(f"learn, {videos} videos", videos, args.dim)
    if args.full and not args.quick:
        some = show(f"fit, {args.full} videos", args.full, args.dim, only_fit=True)
        every = show("  full computation", args.full, args.dim, only_fit=True, full=True)
        print(f"\nF1 beside the full computation: {some - every:+.2f} points")


def show(name: str, *given: int, **kind: bool) -> float:
    """Measure in a separate process, print a line and return F1."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, context) as pool:
        wall, cpu, peak, f1 = pool.submit(measure, *given, **kind).result()
    parts = (
        f"{wall:6.0f} s ({wall / SECONDS:4.2f})",
        f"{cpu:6.0f} s",
        f"{peak / 1000:5.2f} GB ({peak / 1000 / GIGABYTES:4.2f})",
        f"{f1:5.1f}",
    )
    print(f"{name:<25}" + "   ".join(parts), flush=True)
    return f1


def measure(
    videos: int, dim: int, only_fit: bool = False, full: bool = False
) -> tuple[float, float, float, float]:
    """Wall and CPU seconds, peak memory in MB and F1 of learning from toy kitchens."""
    import stepcut
    from stepcut.evaluation import score
    from stepcut.methods import StepCut
    from stepcut.toy import STEPS, toy_features

    if full:
        for module in SAMPLING:
            import_module(module).MANY = sys.maxsize  # type: ignore[attr-defined]
    rows, timelines = toy_features(videos, dim=dim, duration=600, rate=RATE)
    start, before = time.perf_counter(), time.process_time()
    if only_fit:
        labels = StepCut(steps=len(STEPS), rate=RATE, seed=0).fit(rows).labels_
    else:
        procedure = stepcut.learn(rows, rate=RATE, steps=len(STEPS), seed=0)
        found = procedure.labels
        labels = [found[str(place)] for place in range(videos)]
    wall, cpu = time.perf_counter() - start, time.process_time() - before
    times = [(np.arange(len(one)) + 0.5) / RATE for one in rows]
    true = [line.labels(at, STEPS) + 1 for line, at in zip(timelines, times, strict=True)]
    return wall, cpu, peak_resident(), score(labels, true).f1


if __name__ == "__main__":
    with report(__file__):
        main()
