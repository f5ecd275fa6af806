"""How fast correspond is, as ratios to named peers measured in the same run: losses, soft-DTW, training, memory.

    python benchmarks/correspond.py [--quick] [--device cuda] [--data DIR] [loss softdtw vectors maps recipe]

Medians of interleaved runs; on a busy machine `--lowest` takes the lowest of each instead. Peers that are not installed
(tslearn, pysdtw) are skipped with a notice. `recipe` needs the CaptainCook4D features. Without names, everything that
the machine can do is measured.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stepcut.methods.cnc import losses
from stepcut.methods.cnc.embedder import Embedder
from stepcut.methods.cnc.inputs import MapInput
from stepcut.methods.cnc.network import MapEncoder
from stepcut.methods.cnc.sampling import draw
from stepcut.methods.cnc.softdtw import soft_dtw

Work = Callable[[], Any]


class Typical:
    """What stands for many runs."""

    of: Callable[[list[float]], float] = staticmethod(statistics.median)


def measure(works: dict[str, Work], device: torch.device, rounds: int, inner: int = 1) -> dict[str, float]:
    """The median seconds of each work, all of them in turn, `rounds` times; the first round does not count."""

    def once(work: Work) -> float:
        if device.type == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(inner):
            work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        return (time.perf_counter() - start) / inner

    for work in works.values():
        once(work)
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            times[name].append(once(work))
    return {name: Typical.of(taken) for name, taken in times.items()}


def show(title: str, medians: dict[str, float], ours: str, goal: float) -> None:
    print(f"\n{title}")
    for name, taken in medians.items():
        ratio = "" if name == ours else f"   ours is {taken / medians[ours]:5.1f} times faster (goal {goal:g})"
        print(f"  {name:<34} {1000 * taken:9.3f} ms{ratio}")


def pair_tcc(u: Tensor, v: Tensor, t: Tensor) -> Tensor:
    """TCC of one ordered pair, as one would write it for two videos."""
    scale = 1 / (u.shape[1] * 0.1)
    alpha = torch.softmax(-(torch.cdist(u, v) ** 2) * scale, dim=1)
    beta = torch.softmax(-(torch.cdist(alpha @ v, u) ** 2) * scale, dim=1)
    mu = beta @ t
    var = (beta * (t[None] - mu[:, None]) ** 2).sum(1).clamp_min(1e-6)
    return ((t - mu) ** 2 / var + 0.001 * torch.log(var)).mean()


def video_cidm(u: Tensor, t: Tensor, seconds: Tensor) -> Tensor:
    d = torch.cdist(u, u)
    apart = t[:, None] - t[None]
    gamma = apart**2 + 1
    near = apart.abs() * seconds <= 10
    return torch.where(near, d / gamma, gamma * torch.clamp(2 - d, min=0)).mean()


def bench_loss(device: torch.device, quick: bool) -> None:
    torch.manual_seed(0)
    u = torch.randn(5, 32, 128, device=device, requires_grad=True)
    t = torch.rand(5, 32, device=device).sort(1).values
    d = torch.full((5,), 600.0, device=device)

    def loop() -> Tensor:
        pairs = [pair_tcc(u[a], u[b], t[a]) for a in range(5) for b in range(5) if a != b]
        return torch.stack(pairs).mean() + torch.stack([video_cidm(u[a], t[a], d[a]) for a in range(5)]).mean()

    def calls() -> Tensor:
        pairs = [losses.tcc(u[[a, b]], t[[a, b]]) for a in range(5) for b in range(a + 1, 5)]
        return torch.stack(pairs).mean() + torch.stack([losses.cidm(u[[a]], t[[a]], d[[a]]) for a in range(5)]).mean()

    def ours() -> Tensor:
        return losses.tc3i(u, t, d)

    assert abs(float((loop() - ours()).detach())) < 1e-3 * abs(float(ours().detach()))
    works = {
        name: (lambda f=f: f().backward())
        for name, f in {"ours": ours, "a loop over pairs": loop, "our own tcc, pair by pair": calls}.items()
    }
    best = "ours"
    if device.type == "cuda":
        print(f"\nTC3I forward and backward launches {count_kernels(works['ours'])} kernels")
        best = "ours, recorded as in training"
        works = {best: record(works["ours"]), **works}
    medians = measure(works, device, rounds=20 if quick else 60)
    goal = 10 if device.type == "cpu" else 20
    show(f"TC3I forward and backward, B 5, T 32, d 128, {device.type}", medians, best, goal)


def count_kernels(work: Work) -> int:
    """How many kernels some work launches on the GPU; each takes microseconds, however small."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    work()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        work()
        torch.cuda.synchronize()
    return sum(event.device_type == DeviceType.CUDA for event in seen.events())


def record(work: Work) -> Work:
    """The same work, recorded as a CUDA graph, which is how training plays every step."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        work()
    return graph.replay


def played(work: Work, device: torch.device) -> Work:
    """Work as training does it: recorded on a GPU, plain on a CPU."""
    return record(work) if device.type == "cuda" else work


def bench_softdtw(device: torch.device, quick: bool) -> None:
    """Value and gradient with respect to the cost, with one thread and with all (the peers share the batch too)."""
    peers = find_peers(device)
    every = torch.get_num_threads()
    for threads in sorted({1, every}) if device.type == "cpu" else [every]:
        use_threads(threads)
        where = f"cpu, {threads} thread{'s' * (threads > 1)}" if device.type == "cpu" else device.type
        for batch, size in ((20, 32), (4, 256)):
            torch.manual_seed(0)
            x = torch.nn.functional.normalize(torch.randn(batch, size, 16, device=device), dim=2)
            y = torch.nn.functional.normalize(torch.randn(batch, size, 16, device=device), dim=2)
            cost = torch.cdist(x, y).square().requires_grad_()
            ones = torch.ones(batch, device=device)
            works: dict[str, Work] = {}
            for name, peer in {"ours": lambda _x, _y, cost: soft_dtw(cost, 0.1), **peers}.items():
                works[name] = lambda f=peer, x=x, y=y, c=cost, g=ones: torch.autograd.grad(f(x, y, c), c, g)
            rounds = (5 if quick else 20) if device.type == "cpu" else 5
            taken = measure(works, device, rounds, inner=5 if size < 100 else 1)
            show(f"soft-DTW forward and backward, {batch} of {size} x {size}, {where}", taken, "ours", 5)
            if device.type == "cpu":
                from stepcut.methods.cnc._softdtw_cpu import align

                given = cost.detach().numpy()
                kernel = {"alone": lambda c=given, n=threads: align(c, 0.1, None, n, True)}
                print(f"  of ours, the kernel alone {1000 * measure(kernel, device, rounds, inner=5)['alone']:.3f} ms")
    use_threads(every)


def use_threads(count: int) -> None:
    """So many threads for torch, and for numba, in which the peers are written."""
    torch.set_num_threads(count)
    if importlib.util.find_spec("numba") is not None:
        import numba

        numba.set_num_threads(min(count, numba.config.NUMBA_NUM_THREADS))


def find_peers(device: torch.device) -> dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]]:
    """Other people's soft-DTW on the same cost matrices, without the time they would take to compute distances."""
    peers: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {}
    given: list[Tensor] = []

    def distances(_x: Tensor, _y: Tensor) -> Tensor:
        return given[0]

    def add(name: str, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        def run(x: Tensor, y: Tensor, cost: Tensor) -> Tensor:
            given[:] = [cost]
            return loss(x, y)

        peers[name] = run

    try:
        from tslearn.metrics import SoftDTWLossPyTorch

        add("tslearn", SoftDTWLossPyTorch(gamma=0.1, dist_func=distances))
    except ImportError as error:
        print(f"tslearn is skipped: {error}")
    try:
        from pysdtw import SoftDTW

        add("pysdtw", SoftDTW(gamma=0.1, dist_func=distances, use_cuda=device.type == "cuda"))
    except ImportError as error:
        print(f"pysdtw is skipped: {error}")
    return peers


def training_step(embedder: Embedder, features: list[np.ndarray], steps: int) -> tuple[float, Embedder]:
    """Seconds of one training step inside `fit`, between its first tenth and its end."""
    stamps: list[tuple[float, float]] = []
    embedder.fit(features, progress=lambda event: stamps.append((event.done, time.perf_counter())))
    begin = next(stamp for stamp in stamps if stamp[0] >= steps / 10)
    return (stamps[-1][1] - begin[1]) / (stamps[-1][0] - begin[0]), embedder


def speed(step: float) -> str:
    return f"{1 / step:.2f} steps/s, {1000 * step:.2f} ms a step"


def rest(alone: float, step: float) -> str:
    share = 100 * max(0.0, 1 - alone / step)
    return f"the network's own forward and backward {1000 * alone:.2f} ms; {share:.0f} % is not the network (goal 20)"


def bench_vectors(device: torch.device, quick: bool) -> None:
    random = np.random.default_rng(0)
    features = [random.normal(size=(500, 1024)).astype(np.float32) for _ in range(10)]
    steps = (100 if quick else 400) * (10 if device.type == "cuda" else 1)
    taken, embedder = training_step(Embedder(steps=steps, patience=10 * steps, device=device.type), features, steps)
    network = embedder.network_.train()
    x = torch.randn(160, 5, 64, device=device)
    u = torch.randn(5, 32, 128, device=device, requires_grad=True)
    t = torch.rand(5, 32, device=device).sort(1).values
    d = torch.full((5,), 500.0, device=device)
    adam = torch.optim.Adam(network.parameters(), fused=True, capturable=device.type == "cuda")
    works: dict[str, Work] = {
        "the network's own arithmetic": lambda: network(x).sum().backward(),
        "the loss": lambda: losses.tc3i(u, t, d).backward(),
        "Adam": adam.step,
    }
    inner = 20 if device.type == "cuda" else 1  # one after the other, as in training: a launch alone takes longer
    parts = measure({name: played(work, device) for name, work in works.items()}, device, 30, inner)
    ahead = 25 if device.type == "cuda" else 1
    drawing = {"draw": lambda: draw(random, [500] * 10, 5, 32, (-4, -2, 0, 2, 4), 1, ahead)}
    parts["drawing frames"] = measure(drawing, device, 30)["draw"] / ahead
    print(f"\nvector encoder, 10 videos of 500 x 1024, {device.type}: {speed(taken)}")
    print(f"  {rest(parts[next(iter(works))], taken)}")
    for name, seconds in parts.items():
        print(f"  {name:<34} {1000 * seconds:9.3f} ms")


def bench_maps(device: torch.device, quick: bool) -> None:
    """The paper's embedder: 5 videos x 32 frames x 2 context maps of 1024 x 14 x 14."""
    cuda = device.type == "cuda"
    frames = 32 if cuda else 8
    steps = (300 if quick else 1500) if cuda else 3
    random = np.random.default_rng(0)
    length = 200 if cuda else 20
    block = random.random(size=(length, 1024, 14, 14), dtype=np.float32).astype(np.float16)
    features = [np.roll(block, shift, axis=0) for shift in range(5)]
    embedder = Embedder(frames=frames, rate=2.0, steps=steps, patience=10 * steps, device=device.type)
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    taken, embedder = training_step(embedder, features, steps)
    network = embedder.network_
    assert isinstance(network, MapEncoder)
    network.train()
    source = MapInput(2, 0.5, 256)
    rows = torch.cat([source.store(network, video, device) for video in features[:1]]).to(device)
    places = torch.randint(0, length, (5 * frames, 2), device=device)
    maps = source.gather(rows, places)

    def forward_backward() -> None:
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=cuda):
            out = network(maps)
        out.float().square().mean().backward()

    def plain() -> None:
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=cuda):
            out = network.plain(maps.contiguous(memory_format=torch.channels_last_3d))
        out.float().square().mean().backward()

    works = {"2-D": played(forward_backward, device), "3-D": played(plain, device)}
    medians = measure(works, device, 10 if cuda else 1)
    print(f"\npaper's embedder, 5 x {frames} frames x 2 maps of 1024 x 14 x 14, {device.type}: {speed(taken)}")
    print(f"  10,000 steps take {taken * 10_000 / 60:.1f} min (goals on an H200: 2 min, 7.8 ms a step)")
    print(f"  {rest(medians['2-D'], taken)}")
    print(f"  the plain 3-D network takes {medians['3-D'] / medians['2-D']:.2f} times as long")
    for what, flop in (("counted with the padding", 2.44e12), ("without products with zero", 1.63e12)):
        work = flop * frames / 32
        print(f"  {work / 1e12:.2f} TFLOP {what}: {work / taken / 1e12:.2f} TFLOP/s in the whole step")
    if cuda:
        peak = measure_peak(device)
        share = 100 * 2.44e12 / taken / peak
        print(
            f"  a bf16 matrix product reaches {peak / 1e12:.0f} TFLOP/s; the whole step {share:.0f} % of it (goal 40)"
        )
        print(f"  peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
        profile(forward_backward)


def measure_peak(device: torch.device) -> float:
    a = torch.randn(8192, 8192, device=device, dtype=torch.bfloat16)
    return 2 * 8192**3 / measure({"mm": lambda: a @ a}, device, 10, inner=10)["mm"]


def profile(work: Work) -> None:
    """Where the GPU's time goes in one pass of the network."""
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    with record(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
        work()
        torch.cuda.synchronize()
    print(seen.key_averages().table(sort_by="self_cuda_time_total", row_limit=14, max_name_column_width=60))


def bench_recipe(data: Path | None, device: torch.device) -> None:
    """CaptainCook4D recipe 1, 18 recordings, omnivore: from features on disk to embeddings."""
    if data is None or not data.is_dir():
        print("\nrecipe is skipped: give --data DIR, the folder of CaptainCook4D with features/omnivore")
        return
    files = sorted((data / "features" / "omnivore").glob("1_*.npy"))
    start, worked = time.perf_counter(), time.process_time()
    features = [np.load(file, allow_pickle=False) for file in files]
    embedder = Embedder(device=device.type).fit(features)
    embedder.transform(features)
    taken, worked = time.perf_counter() - start, time.process_time() - worked
    steps = len(embedder.curve_.values)
    where = f"{device.type}, {torch.get_num_threads()} threads"
    print(f"\nrecipe 1, {len(files)} recordings, omnivore, {where}: {taken:.1f} s for {steps} steps (goal 120 s)")
    print(f"  processor time {worked:.1f} s")


def main() -> None:
    parts = ("loss", "softdtw", "vectors", "maps", "recipe")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"what to measure: {', '.join(parts)}; all when left out")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--data", type=Path, help="the folder of CaptainCook4D")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--lowest", action="store_true", help="the lowest of all runs instead of their median")
    args = parser.parse_args()
    if args.lowest:
        Typical.of = staticmethod(min)
    device = torch.device(args.device)
    where = torch.cuda.get_device_name() if device.type == "cuda" else f"{torch.get_num_threads()} threads"
    print(f"torch {torch.__version__}, {device.type} ({where})")
    works: dict[str, Work] = {
        "loss": lambda: bench_loss(device, args.quick),
        "softdtw": lambda: bench_softdtw(device, args.quick),
        "vectors": lambda: bench_vectors(device, args.quick),
        "maps": lambda: bench_maps(device, args.quick),
        "recipe": lambda: bench_recipe(args.data, device),
    }
    for part in args.parts or parts:
        if part not in works:
            sys.exit(f"{part!r} is unknown. Choose from {', '.join(parts)}.")
        works[part]()
    if device.type == "cpu":
        import resource

        scale = 1024 if sys.platform == "linux" else 1
        print(f"\npeak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
