"""Run `stepcut demo` with several seeds: `python benchmarks/demo.py [--seeds 3]`.

Prints the scores before and after three labelled videos, and what the check found in four new
videos. The time is only meaningful on idle cores.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time

from shared import arguments, cpu_of_children

FIGURES = r"truth: (\d+) % without labels, (\d+) % with three.*?scores (\d+) %"
"""F1 without labels, with three labelled videos, and of the uniform baseline."""


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds, from 0")
    seeds = parser.parse_args().seeds
    print(f"{os.cpu_count()} cores. F1 in % on the 9 videos that are not labelled.")
    print("The seconds include waiting for other programs; CPU seconds do not.")
    print("seed  without labels  three labels  uniform baseline  seconds  CPU seconds")
    checked = []
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            began, used = time.monotonic(), cpu_of_children()
            words = ["demo", "--quiet", "--seed", str(seed), "-o", folder]
            told = subprocess.run(
                [sys.executable, "-m", "stepcut", *words],
                env={**os.environ, "STEPCUT_CACHE": f"{folder}/cache"},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
        found = re.search(FIGURES, told, re.DOTALL)
        assert found is not None, told
        before, after, uniform = found.groups()
        print(
            f"{seed:>4}  {before:>14}  {after:>12}  {uniform:>16}  "
            f"{time.monotonic() - began:>7.0f}  {cpu_of_children() - used:>11.0f}"
        )
        lines = [line.strip() for line in told.splitlines() if "→" in line]
        checked += [f"  seed {seed}: {' '.join(line.split())}" for line in lines]
    print("\nNew videos: the mistake that was made, and what the check reported.")
    print("\n".join(checked))


if __name__ == "__main__":
    main()
