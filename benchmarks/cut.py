"""How fast the cut is, and how low its energies are, beside the peers: `python benchmarks/cut.py --help`.

Peers that are not installed are left out, saying so. Those that need an environment of their own are found with
`--peers-python`. Every ratio is between medians of interleaved runs on the same input in this one process's time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cut_race import CLOCKS, Peer, find_peers, race
from stepcut.methods.baselines.subset import choose_subset, distances
from stepcut.methods.cnc.fuzzy import fuzzy_c_means
from stepcut.methods.cnc.fuzzy.cpu import count_threads
from stepcut.methods.cnc.graph import chain, energy, expand, window_links
from stepcut.methods.segmenters import SEGMENTERS
from stepcut.tables import Table
from stepcut.version import __version__


def make_costs(frames: int, steps: int, kind: str, data: Path | None) -> Any:
    """1 - memberships (T, K): by chance, or of CaptainCook4D frames, repeated to the wanted length."""
    if kind == "random":
        shares = np.random.default_rng(0).dirichlet(np.ones(steps), size=frames)
        return 1 - shares
    assert data is not None
    real = real_shares(data, steps)
    return 1 - real[np.arange(frames) % len(real)].astype(np.float64)


@cache
def real_shares(data: Path, steps: int) -> Any:
    """The memberships of all frames of one recipe."""
    import cut_data

    rows = np.concatenate(cut_data.recipe_tasks(data, only="Scrambled Eggs")[0].rows)
    return fuzzy_c_means(rows, steps, restarts=1, iterations=50)[0]


# ---------------------------------------------------------------------- the exact chain


def measure_chain(options: argparse.Namespace, able: dict[str, str]) -> list[Table]:
    lengths = [1_000, 20_000] if options.quick else [1_000, 20_000, 100_000, 1_000_000]
    names = ["PyMaxflow", "gco-wrapper"]
    most_for_peers = 20_000  # beyond, they take minutes
    rows: list[list[Any]] = []
    slopes: list[list[Any]] = []
    weight = 2.0
    for kind in kinds(options):
        for steps in (7, 15):
            every = make_costs(lengths[-1], steps, kind, options.data)
            points = []
            for frames in lengths:
                unary = np.ascontiguousarray(every[:frames])
                links = np.stack([np.arange(frames - 1), np.arange(1, frames)], axis=1)
                arrays = {"unary": unary, "weight": weight, "links": links, "weights": np.full(frames - 1, weight)}
                with tempfile.TemporaryDirectory() as folder:
                    here = [n for n in names if n in able and frames <= most_for_peers]
                    peers = {name: Peer(name, able[name], arrays, Path(folder), options.clock) for name in here}
                    seconds = race(
                        lambda unary=unary: chain(unary, weight), peers, 3 if options.quick else 5, options.clock
                    )
                    reached = {name: peer.result().ravel().astype(np.int64) for name, peer in peers.items()}
                    for peer in peers.values():
                        peer.close()
                lowest = energy(unary, links, weight, chain(unary, weight))
                above = [energy(unary, links, weight, reached[n]) - lowest if n in reached else None for n in names]
                times = [seconds[n] / seconds["stepcut"] if n in reached else None for n in names]
                rows.append([kind, steps, frames, seconds["stepcut"] * 1e3, *times, lowest, *above])
                points.append((frames, seconds["stepcut"]))
            x, y = np.log([p[0] for p in points[1:]]), np.log([p[1] for p in points[1:]])
            if len(x) > 1:
                slopes.append([kind, steps, float(np.polyfit(x, y, 1)[0])])
    columns = ["memberships", "K", "frames", "stepcut, ms", *(f"{name}, times that" for name in names)]
    columns += ["energy", *(f"{name}'s is higher by" for name in names)]
    tables = [Table(columns, rows, "The chain: exact dynamic programming against alpha-expansion", digits=2)]
    if slopes:
        caption = f"Growth of the exact chain from {lengths[1]:,} to {lengths[-1]:,} frames: time ~ frames^slope"
        tables.append(Table(["memberships", "K", "slope"], slopes, caption, digits=2))
    return tables


# ---------------------------------------------------------------------- alpha-expansion over a window


def measure_expand(options: argparse.Namespace, able: dict[str, str]) -> list[Table]:
    frames, rate = (2_000 if options.quick else 20_000), 2.0
    rows: list[list[Any]] = []
    for kind in kinds(options):
        for smoothness in (1.0, 5.0):
            unary = make_costs(frames, 7, kind, options.data)
            links, weights = window_links(frames, 10.0, rate, smoothness * rate)
            found: list[Any] = []

            def ours(
                found: Any = found, u: Any = unary, e: Any = links, w: Any = weights, s: float = smoothness
            ) -> None:
                found[:] = [expand(u, e, w, start=chain(u, s * rate))]

            peer, times = "gco-wrapper", [None, None]
            with tempfile.TemporaryDirectory() as folder:
                arrays = {"unary": unary, "links": links, "weights": weights}
                peers = {peer: Peer(peer, able[peer], arrays, Path(folder), options.clock)} if peer in able else {}
                seconds = race(ours, peers, 1, options.clock)
                if peers:
                    theirs = energy(unary, links, weights, peers[peer].result().astype(np.int64))
                    times = [seconds[peer], theirs]
                    peers[peer].close()
            rows.append(
                [kind, smoothness, seconds["stepcut"], times[0], energy(unary, links, weights, found[0]), times[1]]
            )
    caption = f"Alpha-expansion, {frames:,} frames at {rate:g} a second, K = 7, links up to 10 seconds ({len(links):,})"
    columns = ["memberships", "smoothness, s", "stepcut, s", "gco-wrapper, s", "energy, stepcut", "energy, gco-wrapper"]
    return [Table(columns, rows, caption, digits=2)]


def kinds(options: argparse.Namespace) -> list[str]:
    """The memberships to cut: drawn at random, and, given the data, real ones."""
    return ["random", "CaptainCook4D"] if options.data else ["random"]


# ---------------------------------------------------------------------- fuzzy c-means


def make_blobs(frames: int, dim: int, k: int) -> Any:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((frames, dim), dtype=np.float32)
    places = 2 * rng.standard_normal((k, dim), dtype=np.float32)
    for first in range(0, frames, 10_000):
        x[first : first + 10_000] += places[rng.integers(k, size=len(x[first : first + 10_000]))]
    return x


def product_rate(device: str, clock: Callable[[], float], size: int = 1024) -> float:
    """The rate of this machine's matrix product, in GFLOP/s, float32, square: the best of many."""
    import torch

    size = size * 8 if device != "cpu" else size
    a = torch.randn(size, size, device=device)
    best = float("inf")
    for _ in range(10):
        start = clock()
        for _ in range(3):
            a @ a
        wait(device)
        best = min(best, (clock() - start) / 3)
    return 2 * size**3 / best / 1e9


def wait(device: str) -> None:
    if device != "cpu":
        import torch

        torch.cuda.synchronize()


def plain_objective(x: Any, centres: Any, m: float) -> float:
    """J by its definition, in float64."""
    total = 0.0
    for first in range(0, len(x), 1_000):
        near = ((x[first : first + 1_000, None].astype(np.float64) - centres) ** 2).sum(axis=2)
        shares = near ** (-1 / (m - 1))
        shares /= shares.sum(axis=1, keepdims=True)
        total += float((shares**m * near).sum())
    return total


def measure_fuzzy(options: argparse.Namespace, able: dict[str, str]) -> Iterator[Table]:
    frames, dim, k, m, turns = (5_000 if options.quick else 20_000), 128, 7, 2.0, 20
    x = make_blobs(frames, dim, k)
    shares = np.random.default_rng(0).uniform(size=(frames, k))
    shares /= shares.sum(axis=1, keepdims=True)
    power = shares**m
    start = power.T @ x.astype(np.float64) / power.sum(axis=0)[:, None]

    def ours() -> Any:
        # A peer's n-th turn computes the centres once more from its memberships; ours begins with those.
        return fuzzy_c_means(x, k, m, start=start, iterations=turns - 1, tolerance=0, device=options.device)[1]

    with tempfile.TemporaryDirectory() as folder:
        arrays = {"x": x.astype(np.float64), "shares": shares, "m": m, "turns": turns}
        names = [name for name in ("scikit-fuzzy", "fuzzy-c-means") if name in able]
        peers = {name: Peer(name, able[name], arrays, Path(folder), options.clock) for name in names}
        seconds = race(ours, peers, 3 if options.quick else 5, options.clock)
        reached = {"stepcut": plain_objective(x, ours(), m)}
        reached.update({name: plain_objective(x, peer.result(), m) for name, peer in peers.items()})
        for peer in peers.values():
            peer.close()
    rows: list[list[Any]] = [
        [name, value * 1e3, value / seconds["stepcut"], reached[name], 100 * (reached[name] / reached["stepcut"] - 1)]
        for name, value in seconds.items()
    ]
    caption = (
        f"Fuzzy c-means, {frames:,} frames, d {dim}, K {k}, m {m:g}, {turns} turns from one start, on {options.device}"
    )
    columns = ["who", "ms", "times stepcut", "objective", "% above stepcut"]
    yield Table(columns, rows, caption, digits=2)
    yield measure_share(options)


def measure_share(options: argparse.Namespace) -> Table:
    """What share of the matrix-product rate the turns reach, input and output included."""
    sizes = [(20_000, 7), (20_000, 15)] if options.quick else [(20_000, 7), (200_000, 15)]
    sizes += [(1_000_000, 15)] if options.device != "cpu" else []
    rows: list[list[Any]] = []
    device, clock = options.device, CLOCKS[options.clock]
    for frames, k in sizes:
        x = make_blobs(frames, 128, k)
        times: dict[int, list[float]] = {5: [], 25: []}
        best = 0.0
        for _ in range(3):
            best = max(best, product_rate(device, clock))
            for turns, taken in times.items():
                begun = clock()
                fuzzy_c_means(x, k, 2.0, start=x[:k], iterations=turns, tolerance=0, device=device)
                wait(device)
                taken.append(clock() - begun)
        whole = statistics.median(times[25])
        per_turn = (min(times[25]) - min(times[5])) / 20
        speed = 4 * frames * 128 * k / per_turn / 1e9  # two products of 2 T d K operations
        rows.append([device, frames, k, whole, per_turn * 1e3, speed, best, 100 * speed / best])
    columns = ["device", "frames", "K", "seconds, 25 turns", "ms a turn", "GFLOP/s", "matrix product", "share %"]
    return Table(columns, rows, "Fuzzy c-means against the matrix product of the machine (float32, d 128)", digits=1)


# ---------------------------------------------------------------------- subset selection


def choose_plainly(apart: Any, k: int) -> list[int]:
    """The greedy choice with every gain computed every time."""
    served, chosen = apart.max(axis=0), []
    for _ in range(k):
        chosen.append(int(np.argmax([np.maximum(served - row, 0).sum() for row in apart])))
        served = np.minimum(served, apart[chosen[-1]])
    return chosen


def measure_subset(options: argparse.Namespace, _: dict[str, str]) -> list[Table]:
    rows: list[list[Any]] = []
    frames, clock = (2_000 if options.quick else 20_000), CLOCKS[options.clock]
    for k in (7, 15):
        x = make_blobs(frames, 128, k)
        apart = distances(x, x[np.random.default_rng(1).choice(frames, 10 * k, replace=False)])
        times = []
        for _turn in range(3):
            begun = clock()
            lazy, gains = choose_subset(apart, k)
            between = clock()
            plain = choose_plainly(apart, k)
            times.append((between - begun, clock() - between))
        quick, slow = np.median(times, axis=0)
        same = "yes" if lazy == plain else "no"
        rows.append([frames, 10 * k, k, float(quick) * 1e3, float(slow / quick), gains, 10 * k * k, same])
    columns = ["frames", "states", "K", "lazy ms", "plain/lazy", "gains lazy", "gains plain", "same choice"]
    return [Table(columns, rows, "Subset selection", digits=1)]


# ---------------------------------------------------------------------- memory


def use_memory(what: str, frames: int) -> None:
    """Do one thing at its largest, then say how much memory the process had before and at its peak."""
    steps, dim = 15, 128
    if what in ("chain", "expand"):
        unary = np.random.default_rng(0).random((frames, steps), dtype=np.float32)
        links, weights = window_links(frames if what == "expand" else 1, 10.0, 2.0, 2.0)
    else:
        x = make_blobs(frames, dim, steps)

    def act() -> Any:
        if what == "chain":
            return chain(unary, 2.0)
        if what == "expand":
            return expand(unary, links, weights, start=chain(unary, 2.0))
        if what == "fuzzy c-means":
            return fuzzy_c_means(x, steps, restarts=1, iterations=5)
        return SEGMENTERS[what](steps=steps).fit_predict([x])

    before = peak_memory()
    act()
    print(json.dumps({"before": before, "peak": peak_memory()}))


def peak_memory() -> float:
    """MB that this process had at most. (`getrusage` would count those of the process that started it.)"""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1024


def measure_memory(options: argparse.Namespace, _: dict[str, str]) -> list[Table]:
    rows: list[list[Any]] = []
    most = 50_000 if options.quick else 1_000_000
    sizes = {"fuzzy c-means": most, "procut": most, "chain": most, "expand": 20_000, "kmeans": 200_000}
    sizes |= {"subset": 200_000, "asot": 200_000}
    for what, frames in sizes.items():
        frames = min(frames, most)
        command = [sys.executable, __file__, "--memory-of", what, "--frames", str(frames)]
        answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        rows.append([what, frames, answer["before"], answer["peak"]])
    caption = "Peak memory of the process, d 128, K 15, default settings (before: with imports and input alone)"
    return [Table(["what", "frames", "before, MB", "peak, MB"], rows, caption, digits=0)]


PARTS: dict[str, Callable[[argparse.Namespace, dict[str, str]], Iterable[Table]]] = {
    "chain": measure_chain,
    "expand": measure_expand,
    "fuzzy": measure_fuzzy,
    "subset": measure_subset,
    "memory": measure_memory,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "parts", nargs="*", default=[], help=f"what to measure: {', '.join(PARTS)}; all of it by default"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, few rounds")
    parser.add_argument("--data", type=Path, help="the folder of CaptainCook4D, for real memberships")
    parser.add_argument("--peers-python", action="append", default=[], help="a Python that has peers; may be repeated")
    parser.add_argument("--device", default="cpu", help="cpu, or cuda: then fuzzy c-means alone is measured")
    parser.add_argument(
        "--clock",
        choices=CLOCKS,
        default="wall",
        help="cpu: seconds of processor time, for a busy machine and one thread",
    )
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    parser.add_argument("--frames", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_of:
        use_memory(options.memory_of, options.frames)
        return
    parts = ["fuzzy"] if options.device != "cpu" else options.parts or list(PARTS)
    machine = f"{platform.machine()}, {count_threads()} threads of {os.cpu_count()} cores"
    print(f"stepcut {__version__}, Python {platform.python_version()}, {machine}, {options.clock} time, seed 0")
    names = {
        "chain": ["PyMaxflow", "gco-wrapper"],
        "expand": ["gco-wrapper"],
        "fuzzy": ["scikit-fuzzy", "fuzzy-c-means"],
    }
    wanted = sorted({name for part in parts for name in names.get(part, [])})
    able = find_peers(wanted, [sys.executable, *options.peers_python])
    if not options.data:
        print("--data is not given: random costs only.")
    for part in parts:
        for table in PARTS[part](options, able):
            print(f"\n{table.markdown()}", flush=True)


if __name__ == "__main__":
    main()
