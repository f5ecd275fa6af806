"""Measure the cost of workers and Ray on this machine: `python benchmarks/scale.py`. Runs are
interleaved; medians are shown.
"""

from __future__ import annotations

import platform
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import shared
from extract import FPS, decoding, make_films, make_long_film, peak_of_worker
from extract import measure as timed
from stepcut.features.extract import extract
from stepcut.features.video.sample import sample_frames
from stepcut.parallel.engine import Local, count_cores
from stepcut.version import __version__

Costs = dict[str, Any]


def main() -> None:
    parser = shared.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    print(figures(measure(parser.parse_args().rounds)))


def measure(rounds: int) -> Costs:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        films = make_films(folder, count=6, seconds=60)
        workers = measure_workers(films, folder, rounds)
        begun = time.process_time()
        decoding(films, 1)()
        decode = (time.process_time() - begun) / workers["frames"]
        long = {n: make_long_film(folder / f"long{n}.mp4", n, 320, 240) for n in (1, 4, 16)}
        memory = {str(n): peak_of_worker(film, "cpu") for n, film in long.items()}
    return {
        "machine": f"{platform.machine()}, {platform.system()}",
        "version": __version__,
        "cpu_frame": workers.pop("cpu_frame"),
        "cpu_decode": decode,
        "efficiency": workers["efficiency"],
        "measured": {**workers, "memory": memory},
    }


def measure_workers(films: list[Path], folder: Path, rounds: int) -> dict[str, Any]:
    """Frames per second and CPU time of one and two workers, and of two on Ray."""
    from stepcut.parallel.engine import Ray

    begun = time.perf_counter()
    engines: dict[str, Any] = {"ray": Ray(2), "one": Local(1), "two": Local(2)}
    start = time.perf_counter() - begun
    frames = sum(1 for film in films for _ in sample_frames(film, FPS, 16))

    def run(engine: Any) -> None:
        with tempfile.TemporaryDirectory(dir=folder) as cache:
            extract(films, fps=FPS, cache=cache, device="cpu", engine=engine)

    spent = timed({name: (partial(run, engine), 1) for name, engine in engines.items()}, rounds)
    for engine in engines.values():
        engine.close()
    one, two, ray = (spent[name] for name in ("one", "two", "ray"))
    over = np.median(ray / two, axis=0) - 1
    return {
        "cores": count_cores(),
        "frames": frames,
        "rounds": rounds,
        "rate_1": frames / float(np.median(one[:, 0])),
        "rate_2": frames / float(np.median(two[:, 0])),
        "efficiency": float(np.median(one[:, 1] / two[:, 1])),
        "ray": float(over[0]),
        "ray_cpu": float(over[1]),
        "ray_start": start,
        "cpu_frame": float(np.median(two[:, 1])) / frames,
    }


def figures(costs: Costs) -> str:
    """The measurements."""
    m = costs["measured"]
    rows = {
        "one worker with all cores": f"{m['rate_1']:.1f} frames per second",
        "two workers": f"{m['rate_2']:.1f} frames per second",
        "CPU time of one over two": f"{m['efficiency']:.2f}",
        "Ray over local, two warm workers": f"{m['ray']:+.1%} wall, {m['ray_cpu']:+.1%} CPU time",
        "starting Ray": f"{m['ray_start']:.0f} s",
        f"peak of a worker, videos of {', '.join(m['memory'])} minutes": (
            f"{', '.join(f'{value:.0f}' for value in m['memory'].values())} MB"
        ),
        "a frame, decoded and embedded, on one core": f"{1000 * costs['cpu_frame']:.1f} ms, "
        f"of which {1000 * costs['cpu_decode']:.1f} ms decoding",
    }
    head = f"stepcut {costs['version']}, {m['cores']} cores ({costs['machine']}): {m['frames']} frames "
    head += f"of 640x480 videos, {m['rounds']} interleaved runs, medians.\n\n| | |\n|---|---|"
    return "\n".join([head, *(f"| {what} | {value} |" for what, value in rows.items())])


if __name__ == "__main__":
    main()
