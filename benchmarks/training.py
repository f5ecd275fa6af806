"""Measure an iteration of the paper's embedder: `python benchmarks/training.py [--device cuda]
[--kinds ...]`.

Maps are 1024 x 14 x 14, 5 videos x 32 frames x 2 context frames per iteration, as in the paper;
vectors have 1024 numbers. Random features, seed 0: their values do not affect the time.
"""

from __future__ import annotations

import statistics
import time
from itertools import pairwise
from typing import Any

import numpy as np

from shared import arguments, report
from stepcut.paper.cnc.embedder import Embedder
from stepcut.version import __version__


def measure(kind: str, loss: str, device: str, iterations: int) -> float:
    """Milliseconds per iteration: the median over parts of the run, without its start."""
    random = np.random.default_rng(0)
    shape = (1024, 14, 14) if kind == "maps" else (1024,)
    features = [random.normal(size=(100, *shape)).astype(np.float32) for _ in range(6)]
    stamps: list[tuple[float, float]] = []
    given: dict[str, Any] = {
        "loss": loss,
        "rate": 2.0,
        "patience": 10 * iterations,
        "device": device,
    }
    given["iterations"] = iterations
    embedder = Embedder.of(**given)
    embedder.fit(features, progress=lambda event: stamps.append((event.done, time.perf_counter())))
    marks = [stamp for stamp in stamps if stamp[0] and stamp[0] % (iterations / 10) == 0]
    rates = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(marks[2:]) if b[0] > a[0]]
    return 1000 * statistics.median(rates)


def main() -> None:
    """Print one row per loss."""
    parser = arguments(__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--kinds", nargs="+", default=["vectors"], help="vectors, maps")
    parser.add_argument("--losses", nargs="+", default=["tc3i", "tcc", "lav", "lav+tcc"])
    parser.add_argument("--iterations", type=int, default=500)
    args = parser.parse_args()
    print(f"stepcut {__version__}, {args.device}, ms per iteration")
    for kind in args.kinds:
        for loss in args.losses:
            print(
                f"{kind:8} {loss:8} {measure(kind, loss, args.device, args.iterations):.2f}",
                flush=True,
            )


if __name__ == "__main__":
    with report(__file__):
        main()
