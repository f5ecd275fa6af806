"""Compare Ray with the backbone on a GPU with one process on the same GPU: equal features, and
speed.

    python benchmarks/scale_gpu.py VIDEOS...              one actor on each GPU, CPU workers decode
    python benchmarks/scale_gpu.py VIDEOS... --fps 30     more frames of every video
    python benchmarks/scale_gpu.py VIDEOS... --device cpu --actors 1
        the same actors without a GPU

Both are warm before timing starts; runs are interleaved, medians are shown. The exit code is 1 if
any feature differs. With --piece, videos of at least twice that many seconds are split between the
workers.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from shared import arguments, report
from stepcut.features import extract as extraction
from stepcut.features.backbones import HeldBackbone, load_backbone, open_backbone
from stepcut.features.features import Features
from stepcut.parallel.engine import count_cores
from stepcut.parallel.ray import Ray
from stepcut.version import __version__


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("videos", nargs="+", help="folders or files")
    parser.add_argument("--device", default="cuda", help="cuda (default) or cpu")
    parser.add_argument(
        "--actors", type=int, help="number of actors with a backbone (default: one per GPU)"
    )
    parser.add_argument("--fps", default="2", help="rows per second of video (default 2)")
    parser.add_argument("--piece", type=float, default=600.0, help="seconds of video per piece")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()

    begin = time.perf_counter()
    extraction.PIECE = args.piece
    engine = Ray(holders=args.actors)
    there, _ = open_backbone("efficientnet-lite0", device=args.device, engine=engine)
    start = time.perf_counter() - begin
    if not isinstance(there, HeldBackbone):
        raise SystemExit("no actor has a backbone; use --actors 1 without a GPU.")
    here = load_backbone(device=args.device)
    print(
        f"stepcut {__version__}, {count_cores()} cores, {len(there.held.actors)} actor(s): {there.fingerprint}"
    )
    ways: dict[str, tuple[Any, Ray | None]] = {"one process": (here, None), "Ray": (there, engine)}
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    found: dict[str, list[Features]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(args.rounds + 1):  # warm-up
            for way, (backbone, where) in ways.items():
                begin = time.perf_counter()
                cache = Path(folder, f"{turn}-{way}")
                found[way], failures = extraction.extract(
                    args.videos, backbone, args.fps, cache, engine=where
                )
                seconds[way] += [time.perf_counter() - begin] if turn else []
                assert not failures, failures
        pairs = list(zip(found["one process"], found["Ray"], strict=True))
        same = all(np.array_equal(a.rows, b.rows) for a, b in pairs)
        worst = max(float(np.abs(np.float32(a.rows) - np.float32(b.rows)).max()) for a, b in pairs)
        frames = sum(len(one.rows) for one, _ in pairs)
    engine.close()
    print(
        f"{len(pairs)} videos, {frames} frames at {args.fps} per second, {args.rounds} rounds, medians"
    )
    for way, took in seconds.items():
        print(f"  {way:<12} {frames / statistics.median(took):8.1f} frames/s")
    over = (
        statistics.median(
            b / a for a, b in zip(seconds["one process"], seconds["Ray"], strict=True)
        )
        - 1
    )
    print(
        f"  Ray over one process: {over:+.1%} (excluding the start of Ray and its actors: {start:.1f} s)"
    )
    print(f"  features identical: {'yes' if same else f'no, by up to {worst:.3g}'}")
    return 0 if same else 1


if __name__ == "__main__":
    with report(__file__):
        sys.exit(main())
