"""Races between stepcut and peers that live in a Python of their own: interleaved runs, medians."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
PAUSE = 0.2
"""Seconds before each run: the threads of a library that has just worked go on spinning for a while."""
Arrays = dict[str, Any]


class Peer:
    """A peer at work in a process of its own, one run per call."""

    def __init__(self, name: str, python: str, arrays: Arrays, folder: Path, clock: str) -> None:
        given, self.found = folder / f"{name}.npz", folder / f"{name}.npy"
        np.savez(given, **arrays)
        command = [python, str(HERE / "cut_peers.py"), name, clock, str(given), str(self.found)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.peak = 0.0

    def __call__(self) -> float:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        self.peak = float(answer["peak_mb"])
        return float(answer["seconds"])

    def result(self) -> Any:
        return np.load(self.found, allow_pickle=False)

    def close(self) -> None:
        self.process.communicate()


def find_peers(names: list[str], pythons: list[str]) -> dict[str, str]:
    """Which Python can run which peer."""
    able: dict[str, str] = {}
    for name in names:
        for python in pythons:
            command = [python, str(HERE / "cut_peers.py"), "--can", name]
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                able[name] = python
                break
        else:
            print(f"{name} is not installed here; left out (--peers-python names a Python that has it).")
    return able


def run(work: Callable[[], Any], clock: Callable[[], float]) -> float:
    """The seconds it takes."""
    start = clock()
    work()
    return clock() - start


def race(ours: Callable[[], Any], peers: dict[str, Peer], rounds: int, clock: str) -> dict[str, float]:
    """The median seconds of each, run by turns; the first run of each does not count."""
    times: dict[str, list[float]] = {"stepcut": [], **{name: [] for name in peers}}
    for turn in range(rounds + 1):
        for name, taken in times.items():
            time.sleep(PAUSE)
            seconds = peers[name]() if name in peers else run(ours, CLOCKS[clock])
            if turn:
                taken.append(seconds)
    return {name: statistics.median(values) for name, values in times.items()}
