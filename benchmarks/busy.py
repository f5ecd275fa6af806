"""Measure `learn` under load: wall and CPU time alone, and beside processes that keep the cores
busy.

    python benchmarks/busy.py
        synthetic features of twelve videos, six busy processes
    python benchmarks/busy.py FEATURES --load 4     your features (.npy, .safetensors)

The second half of the table lets as many threads as cores spin while they wait, as numerical
libraries do by default.

Target: at most 2.5 times the wall time without load, at load 6 on two cores, and CPU time within 20
%. The busy processes run once in a session of their own, as a service or another terminal, and once
in the same session. Linux shares the cores among sessions first (autogroup). Within a session, a
loop on one core, measured alike, shows what is left to a program of one thread: beside six busy
processes on two cores a fair share is 2/7 of the machine, 3.5 times the wall time.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import numpy as np

from shared import arguments, report

WALL, CPU = 2.5, 1.2
"""Limits of the ratios of wall and CPU time."""
SPIN = {
    "OMP_WAIT_POLICY": "active",
    "KMP_BLOCKTIME": "200",
    "OPENBLAS_NUM_THREADS": str(os.cpu_count()),
}
LOOP = ["-c", "for _ in range(300_000_000): pass"]
Spent = tuple[float, float]
"""Wall and CPU seconds."""


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("features", nargs="?", help="folder of features (default: synthetic)")
    parser.add_argument("--load", type=int, default=6, help="number of busy processes")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        source = Path(args.features) if args.features else make_features(Path(folder, "features"))
        learn(source, folder, {})  # compiles
        spent: dict[tuple[str, str], list[Spent]] = defaultdict(list)
        loops = []
        for _ in range(args.rounds):
            loop = measure(LOOP)[0]
            for threads, settings in {"stepcut": {}, "spinning": SPIN}.items():
                spent[threads, "alone"].append(learn(source, folder, settings))
                with busy(args.load, apart=True):
                    spent[threads, "in another session"].append(learn(source, folder, settings))
                with busy(args.load, apart=False):
                    spent[threads, "in the same session"].append(learn(source, folder, settings))
            with busy(args.load, apart=False):
                loops.append(measure(LOOP)[0] / loop)
        print(f"{os.cpu_count()} cores, load before {load:.1f}, medians of {args.rounds} rounds")
        print(f"limits of the ratios to alone: wall {WALL}, CPU {CPU}")
        print(f"threads   beside {args.load} busy         wall s  ratio   CPU s  ratio")
        for (threads, where), each in spent.items():
            (wall, cpu), quiet = np.median(each, axis=0), np.median(spent[threads, "alone"], axis=0)
            print(
                f"{threads:<8}  {where:<19}  {wall:6.1f}  {wall / quiet[0]:5.2f}  "
                f"{cpu:6.1f}  {cpu / quiet[1]:5.2f}"
            )
        print(f"loop on one core beside {args.load} in the same session: {np.median(loops):.2f}")


def learn(source: Path, folder: str, settings: Mapping[str, str]) -> Spent:
    """Wall and CPU seconds of `stepcut learn` in a separate process."""
    output = tempfile.mktemp(".proc", dir=folder)
    words = ["learn", str(source), "--rate", "2", "-k", "7", "-o", output, "--quiet"]
    cache = {"STEPCUT_CACHE": str(Path(folder, "cache"))}
    return measure(["-m", "stepcut", *words], {**settings, **cache})


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
def busy(count: int, apart: bool) -> Iterator[None]:
    """Context in which `count` processes keep the cores busy, in this session or in another one."""
    code = f"import os\nfor _ in range({count - 1}):\n if not os.fork(): break\nwhile True: pass"
    group = {"start_new_session": True} if apart else {"process_group": 0}
    loads = subprocess.Popen([sys.executable, "-c", code], **group)
    try:
        yield
    finally:
        os.killpg(loads.pid, signal.SIGKILL)
        loads.wait()


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
