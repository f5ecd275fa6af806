"""Measure `learn` under load: wall and CPU time alone, and beside six processes that keep the cores
busy: `python benchmarks/busy.py`.

Target: at most 2.5 times the wall time without load, at load 6 on two cores, and CPU time within 20
%. The busy processes run once in a session of their own, as a service or another terminal, and once
in the same session. Linux shares the cores among sessions first (autogroup). Within a session a fair
share beside six busy processes on two cores is 2/7 of the machine, 3.5 times the wall time.
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from shared import arguments, report

WALL, CPU = 2.5, 1.2
"""Limits of the ratios of wall and CPU time."""
Spent = tuple[float, float]
"""Wall and CPU seconds."""


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--load", type=int, default=6, help="number of busy processes")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        source = make_features(Path(folder, "features"))
        learn(source, folder)  # compiles
        spent: dict[str, list[Spent]] = defaultdict(list)
        for _ in range(args.rounds):
            spent["alone"].append(learn(source, folder))
            for where, apart in (("in another session", True), ("in the same session", False)):
                with busy(args.load, apart):
                    spent[where].append(learn(source, folder))
    print(f"{os.cpu_count()} cores, load before {load:.1f}, medians of {args.rounds} rounds")
    print(f"limits of the ratios to alone: wall {WALL}, CPU {CPU}")
    print(f"beside {args.load} busy         wall s  ratio   CPU s  ratio")
    quiet = np.median(spent["alone"], axis=0)
    for where, each in spent.items():
        wall, cpu = np.median(each, axis=0)
        ratios = wall / quiet[0], cpu / quiet[1]
        print(f"{where:<19}  {wall:6.1f}  {ratios[0]:5.2f}  {cpu:6.1f}  {ratios[1]:5.2f}")


def learn(source: Path, folder: str) -> Spent:
    """Wall and CPU seconds of `stepcut learn` in a separate process."""
    output = tempfile.mktemp(".proc", dir=folder)
    words = ["learn", str(source), "--rate", "2", "-k", "7", "-o", output, "--quiet"]
    env = {**os.environ, "STEPCUT_CACHE": str(Path(folder, "cache"))}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "stepcut", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=env)
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
