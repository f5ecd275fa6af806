"""Measure `learn` under load: wall and CPU time alone, and beside processes that keep the cores
busy.

    python benchmarks/busy.py
        synthetic features of twelve videos, six busy processes
    python benchmarks/busy.py FEATURES --load 4     your features (.npy, .safetensors)
    python benchmarks/busy.py --spin
        threads spin while they wait, as they do by default

Target: at most 2.5 times the wall time without load, at load 6 on two cores, and CPU time within 20
%. A loop on one core, measured alike, shows what the scheduler leaves to a program of one thread:
beside six busy processes on two cores a fair share is 2/7 of a core, 3.5 times the wall time.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import numpy as np

from shared import arguments, report

WALL, CPU = 2.5, 1.2
"""Limits of the ratios of wall and CPU time."""
SPIN = {"OMP_WAIT_POLICY": "active", "KMP_BLOCKTIME": "200", "OPENBLAS_THREAD_TIMEOUT": "26"}
LOOP = ["-c", "for _ in range(300_000_000): pass"]
Spent = tuple[float, float]
"""Wall and CPU seconds."""


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("features", nargs="?", help="folder of features (default: synthetic)")
    parser.add_argument("--load", type=int, default=6, help="number of busy processes")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--spin", action="store_true", help="threads spin while they wait")
    args = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(args.features) if args.features else make_features(Path(folder, "features"))
        learn(source, Path(folder, "warm.proc"), args.spin)  # compiles
        spent = []
        for number in range(args.rounds):
            quiet = learn(source, Path(folder, f"quiet{number}.proc"), args.spin)
            alone = measure(LOOP)
            with busy(args.load):
                beside = learn(source, Path(folder, f"busy{number}.proc"), args.spin)
                slowed = measure(LOOP)
            spent.append((*quiet, *beside, slowed[0] / alone[0]))
        wall, cpu, busy_wall, busy_cpu, loop = np.median(spent, axis=0)
        walls, cpus = busy_wall / wall, busy_cpu / cpu
        print(f"{os.cpu_count()} cores, load before {load:.1f}, rounds: {args.rounds}")
        print(f"alone             wall {wall:6.1f} s   CPU {cpu:6.1f} s")
        print(f"beside {args.load} busy     wall {busy_wall:6.1f} s   CPU {busy_cpu:6.1f} s")
        print(f"ratio             wall {walls:6.2f}     CPU {cpus:6.2f}")
        print(f"of the limit      wall {walls / WALL:6.2f}     CPU {cpus / CPU:6.2f}")
        print(f"loop on one core  wall {loop:6.2f}")


def learn(source: Path, output: Path, spin: bool) -> Spent:
    """Wall and CPU seconds of `stepcut learn` in a separate process."""
    words = ["learn", str(source), "--rate", "2", "-k", "7", "-o", str(output), "--quiet"]
    cache = {"STEPCUT_CACHE": str(output.parent / "cache")}
    return measure(["-m", "stepcut", *words], {**(SPIN if spin else {}), **cache})


def measure(words: list[str], settings: Mapping[str, str] = MappingProxyType({})) -> Spent:
    """Wall and CPU seconds of Python with these arguments and environment variables."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, *words],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **settings},
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Context in which `count` processes keep the cores busy."""
    loads = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for load in loads:
            load.kill()
            load.wait()


def make_features(folder: Path) -> Path:
    """Features of twelve videos, seven steps each, in random order."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    steps = rng.normal(size=(7, 128))
    for number in range(12):
        label = np.repeat(np.arange(7), rng.integers(20, 60, 7))
        rows = steps[label] + 2 * rng.normal(size=(len(label), 128))
        np.save(folder / f"video{number:02d}.npy", rows.astype(np.float32))
    return folder


if __name__ == "__main__":
    with report(__file__):
        main()
