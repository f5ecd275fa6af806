"""Soft-DTW against the recursion written as a loop, its gradient, and tslearn."""

from __future__ import annotations

from typing import Any

import cnc_oracles as oracles
import numpy as np
import pytest
import torch

from stepcut.paper.cnc import losses as softdtw
from stepcut.paper.cnc.losses import soft_dtw

LENGTHS = torch.tensor([[5, 7], [3, 4], [5, 1]])


@pytest.fixture(params=["loop", "diagonals"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The compiled loop, and what a GPU does."""
    name: str = request.param
    if name == "diagonals":
        monkeypatch.setattr(softdtw, "_align", on_diagonals)
    return name


def on_diagonals(cost: Any, gamma: float, ends: Any) -> tuple[Any, Any]:
    found = softdtw._align_on_gpu(torch.from_numpy(cost), gamma, torch.from_numpy(ends))
    return tuple(x.numpy() for x in found)


def make(batch: int = 3, rows: int = 5, columns: int = 7, scale: float = 3.0) -> torch.Tensor:
    random = torch.Generator().manual_seed(0)
    return torch.rand(batch, rows, columns, generator=random, dtype=torch.float64) * scale


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("gamma", [0.01, 0.1, 1.0, 10.0])
def test_equals_the_loop(gamma: float) -> None:
    cost = make()
    expected = [oracles.soft_dtw(c.numpy(), gamma) for c in cost]
    assert soft_dtw(cost, gamma).tolist() == pytest.approx(expected, rel=1e-12)
    assert soft_dtw(cost.float(), gamma).tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.usefixtures("path")
def test_lengths_leave_padding_out() -> None:
    cost = make()
    pairs = zip(cost.numpy(), LENGTHS.tolist(), strict=True)
    expected = [oracles.soft_dtw(c[:n, :m]) for c, (n, m) in pairs]
    padded = cost.clone()
    padded[1, 3:] = torch.nan
    padded.requires_grad_()
    values = soft_dtw(padded, lengths=LENGTHS)
    assert values.tolist() == pytest.approx(expected, rel=1e-12)
    (gradient,) = torch.autograd.grad(values.sum(), padded)
    assert torch.isfinite(gradient).all()
    assert (gradient[1, 3:] == 0).all()
    assert (gradient[1, :, 4:] == 0).all()


@pytest.mark.usefixtures("path")
def test_gradient_is_exact() -> None:
    cost = make().requires_grad_()
    assert torch.autograd.gradcheck(lambda c: soft_dtw(c, 0.3), cost)
    assert torch.autograd.gradcheck(lambda c: soft_dtw(c, 0.1, LENGTHS), cost)


@pytest.mark.usefixtures("path")
def test_range_of_floats_is_no_limit() -> None:
    """Costs whose exponentials are 0 or infinite in any float, and an alignment that begins dear and ends cheap."""
    cost = make(scale=1e4) - 3e3
    cost[:, 0, 0] = 1e6
    cost.requires_grad_()
    values = soft_dtw(cost, 0.01)
    expected = [oracles.soft_dtw(c, 0.01) for c in cost.detach().numpy()]
    assert values.tolist() == pytest.approx(expected, rel=1e-12)
    (gradient,) = torch.autograd.grad(values.sum(), cost)
    assert torch.isfinite(gradient).all()
    assert gradient[:, 0, 0].tolist() == pytest.approx([1.0] * 3)


@pytest.mark.usefixtures("path")
def test_forbidden_cells_and_nan() -> None:
    cost = make(batch=2)
    cost[0, 2, :6] = torch.inf  # one way through row 2 is left
    cost[1, 2, 3] = torch.nan
    cost.requires_grad_()
    values = soft_dtw(cost, 0.1)
    assert torch.isfinite(values[0])
    assert torch.isnan(values[1])
    (gradient,) = torch.autograd.grad(values[0], cost)
    assert (gradient[0, 2, :6] == 0).all()
    assert float(gradient[0, 2, 6]) == pytest.approx(1.0)


def test_both_ways_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    cost = make(2, 33, 61).requires_grad_()
    weights = torch.arange(1.0, 3.0, dtype=cost.dtype)
    here = soft_dtw(cost)
    (g,) = torch.autograd.grad(here, cost, weights)
    monkeypatch.setattr(softdtw, "_align", on_diagonals)
    there = soft_dtw(cost)
    (h,) = torch.autograd.grad(there, cost, weights)
    torch.testing.assert_close(here, there)
    torch.testing.assert_close(g, h)


@pytest.mark.slow
def test_agrees_with_tslearn() -> None:
    """Slow, since tslearn compiles its kernels at every start."""
    metrics = pytest.importorskip("tslearn.metrics")
    random = np.random.default_rng(0)
    x, y = random.normal(size=(9, 3)), random.normal(size=(6, 3))
    cost = torch.from_numpy(((x[:, None] - y[None]) ** 2).sum(-1))[None].requires_grad_()
    value = soft_dtw(cost, 0.5)
    (gradient,) = torch.autograd.grad(value.sum(), cost)
    share, expected = metrics.soft_dtw_alignment(x, y, gamma=0.5)
    assert value.item() == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(gradient[0].numpy(), share, rtol=1e-7, atol=1e-12)
