"""Several processes train exactly as one does: gradients, weights, loss curve, statistics of BatchNorm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

CASES: list[tuple[tuple[int, ...], dict[str, Any]]] = [
    ((8,), {"loss": "tc3i", "dim": 4, "iterations": 5, "videos": 5, "frames": 8}),
    (
        (8,),
        {"loss": "lav+tcc", "dim": 4, "iterations": 3, "videos": 2, "frames": 8},
    ),  # fewer videos than processes
    ((6, 3, 3), {"loss": "tc3i", "dim": 4, "iterations": 4, "videos": 4, "frames": 6, "hidden": 8}),
]
PROCESSES = 3


def fit(shape: tuple[int, ...], settings: dict[str, Any]) -> tuple[dict[str, Any], list[int]]:
    """Gradients of every iteration, losses, statistics of BatchNorm; and how many videos this process embeds in each.

    The weights stay what they are: Adam divides a gradient by its size, so where the true one is 0 (a constant added to
    all embeddings changes no loss) it would blow up what is left of it by rounding.
    """
    import torch

    from stepcut.paper.cnc import network
    from stepcut.paper.cnc.embedder import Embedder

    class Counting(Embedder):
        def _embed(self, shared: Any, network: Any, rows: Any, device: Any, batch: Any) -> Any:
            shares.append(len(batch.durations))
            return super()._embed(shared, network, rows, device, batch)

    shares: list[int] = []
    gradients: list[Any] = []

    def keep(optimiser: torch.optim.Adam) -> None:
        weights = [weight for group in optimiser.param_groups for weight in group["params"]]
        gradients.append(torch.cat([weight.grad.flatten() for weight in weights]).numpy())

    random = np.random.default_rng(0)
    features = [
        random.normal(size=(length, *shape)).astype(np.float32) for length in (20, 31, 5, 24, 40)
    ]
    # Dropout draws at random in every process; without it, all ways must agree to rounding.
    drop, network.F.dropout = network.F.dropout, lambda x, *_: x
    step, torch.optim.Adam.step = torch.optim.Adam.step, keep
    try:
        embedder = Counting(device="cpu", seed=3, **settings).fit(features)
    finally:
        network.F.dropout = drop
        torch.optim.Adam.step = step
    state = {name: np.ascontiguousarray(value) for name, value in embedder.state().items()}
    return {
        **state,
        "gradients": np.stack(gradients),
        "curve": np.array(embedder.curve_.values),
    }, shares


def main() -> None:
    """One of the processes that torchrun starts."""
    from safetensors.numpy import save_file
    from torch import distributed

    from stepcut.paper.cnc.ddp import together

    with together():
        rank = distributed.get_rank()
        for number, case in enumerate(CASES):
            state, shares = fit(*case)
            save_file(state, Path(sys.argv[1], f"{number}-{rank}.safetensors"))
            Path(sys.argv[1], f"{number}-{rank}.json").write_text(json.dumps(shares))


@pytest.mark.slow
def test_several_processes_train_as_one(tmp_path: Path) -> None:
    run = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={PROCESSES}",
    ]
    ran = subprocess.run(
        [*run, __file__, str(tmp_path)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    for number, (shape, settings) in enumerate(CASES):
        one, whole = fit(shape, settings)
        assert len(one["curve"]) == settings["iterations"]
        shares = [
            json.loads((tmp_path / f"{number}-{rank}.json").read_text())
            for rank in range(PROCESSES)
        ]
        assert [
            sum(each) for each in zip(*shares, strict=True)
        ] == whole  # no video is embedded twice
        assert max(max(share) for share in shares) < max(whole)
        for rank in range(PROCESSES):
            many = load_file(tmp_path / f"{number}-{rank}.safetensors")
            assert one.keys() == many.keys()
            for name in one:
                small = 1e-5 * np.abs(one[name]).max()
                np.testing.assert_allclose(
                    one[name], many[name], rtol=1e-4, atol=small, err_msg=f"{number} {name}"
                )


@pytest.mark.slow
def test_the_command_under_torchrun_learns_the_procedure_of_one_process(tmp_path: Path) -> None:
    import stepcut as sc

    random = np.random.default_rng(0)
    (tmp_path / "features").mkdir()
    for number in range(4):
        rows = np.repeat(np.eye(4, 16), 15 + 5 * number, axis=0)
        rows = rows + 0.2 * random.normal(size=rows.shape)
        np.save(tmp_path / "features" / f"v{number}.npy", rows.astype(np.float32))
    words = [
        "stepcut.cli.main",
        "learn",
        "features",
        "-k",
        "4",
        "--method",
        "cnc",
        "--set",
        'train={"iterations": 40}',
    ]
    torchrun = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node=2",
        "-m",
    ]
    shown = {}
    for name, start in (("one", [sys.executable, "-m"]), ("two", torchrun)):
        cache = ["--cache", f"cache-{name}", "-o", f"{name}.proc", "--quiet"]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        ran = subprocess.run(
            [*start, *words, *cache], cwd=tmp_path, env=env, capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stderr
        shown[name] = ran.stdout.replace(f"{name}.proc", "")
    assert shown["one"] == shown["two"]  # said once, not by every process
    one, two = sc.load(tmp_path / "one.proc"), sc.load(tmp_path / "two.proc")
    assert one.orders.ranked == two.orders.ranked
    assert all(np.array_equal(one.labels[name], two.labels[name]) for name in one.labels)
    curves = [
        np.loadtxt(tmp_path / f"{name}.proc" / "loss.csv", delimiter=",", skiprows=1)
        for name in ("one", "two")
    ]
    assert len(curves[0]) == 40
    np.testing.assert_allclose(curves[0], curves[1], rtol=1e-4, atol=1e-5)


def test_one_process_is_left_alone() -> None:
    from stepcut.paper.cnc.ddp import together
    from stepcut.parallel.contract import is_first_process, processes

    with together():
        assert processes() == 1
        assert is_first_process()


if __name__ == "__main__":
    main()
