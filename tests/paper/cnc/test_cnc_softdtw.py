"""Soft-DTW against the recursion written as a loop, and its gradient."""

import cnc_oracles as oracles
import pytest
import torch

from stepcut.paper.cnc import losses as softdtw
from stepcut.paper.cnc.losses import soft_dtw

LENGTHS = torch.tensor([[5, 7], [3, 4], [5, 1]])


@pytest.fixture(params=["loop", "diagonals"])
def path(request, monkeypatch):
    """The compiled loop, and what a GPU does."""
    name = request.param
    if name == "diagonals":
        monkeypatch.setattr(softdtw, "_align", on_diagonals)
    return name


def on_diagonals(cost, gamma, ends):
    found = softdtw._align_on_gpu(torch.from_numpy(cost), gamma, torch.from_numpy(ends))
    return tuple(x.numpy() for x in found)


def make(batch=3, rows=5, columns=7, scale=3.0):
    random = torch.Generator().manual_seed(0)
    return torch.rand(batch, rows, columns, generator=random, dtype=torch.float64) * scale


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("gamma", [0.01, 0.1, 1.0, 10.0])
def test_equals_the_loop(gamma):
    cost = make()
    expected = [oracles.soft_dtw(c.numpy(), gamma) for c in cost]
    assert soft_dtw(cost, gamma).tolist() == pytest.approx(expected, rel=1e-12)
    assert soft_dtw(cost.float(), gamma).tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.usefixtures("path")
def test_lengths_leave_padding_out():
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
def test_gradient_is_exact():
    cost = make().requires_grad_()
    assert torch.autograd.gradcheck(lambda c: soft_dtw(c, 0.3), cost)
    assert torch.autograd.gradcheck(lambda c: soft_dtw(c, 0.1, LENGTHS), cost)


@pytest.mark.usefixtures("path")
def test_range_of_floats_forbidden_cells_and_nan():
    # Costs whose exponentials are 0 or infinite in any float, and an alignment that begins dear and ends cheap.
    cost = make(scale=1e4) - 3e3
    cost[:, 0, 0] = 1e6
    cost.requires_grad_()
    values = soft_dtw(cost, 0.01)
    expected = [oracles.soft_dtw(c, 0.01) for c in cost.detach().numpy()]
    assert values.tolist() == pytest.approx(expected, rel=1e-12)
    (gradient,) = torch.autograd.grad(values.sum(), cost)
    assert torch.isfinite(gradient).all()
    assert gradient[:, 0, 0].tolist() == pytest.approx([1.0] * 3)
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
