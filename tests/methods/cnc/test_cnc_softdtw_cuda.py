"""Soft-DTW's kernels for CUDA against torch."""

from __future__ import annotations

import math
from types import ModuleType

import pytest
import torch
from cnc_gpu import DEVICE, needs_gpu, needs_triton
from torch import Tensor

from stepcut.methods.cnc import softdtw

pytestmark = needs_triton


@pytest.fixture
def cuda() -> ModuleType:
    """The module, which cannot be imported where Triton is not."""
    from stepcut.methods.cnc import _softdtw_cuda

    return _softdtw_cuda


def make(batch: int, rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Costs in float64, and how many rows and columns of each are real: all of the first."""
    random = torch.Generator().manual_seed(rows)
    cost = torch.rand(batch, rows, columns, generator=random, dtype=torch.float64) * 3
    ends = torch.stack([torch.randint(1, most + 1, (batch,), generator=random) for most in (rows, columns)], dim=1)
    ends[0] = torch.tensor([rows, columns])
    return cost.to(DEVICE), ends.to(DEVICE)


def by_torch(cost: Tensor, gamma: float, ends: Tensor) -> tuple[Tensor, Tensor]:
    """Value and share as they are computed without a kernel, in float64."""
    given = cost.double().requires_grad_()
    value = softdtw._SoftDTW.apply(given, gamma, ends)
    (share,) = torch.autograd.grad(value.sum(), given)
    return value.detach(), share


@pytest.mark.parametrize("gamma", [0.01, 0.1, 10.0])
@pytest.mark.parametrize("size", [(3, 5, 7), (2, 1, 1), (4, 32, 32), (2, 70, 33), (1, 1, 9)])
def test_equals_torch(cuda: ModuleType, size: tuple[int, int, int], gamma: float) -> None:
    cost, ends = make(*size)
    expected = by_torch(cost, gamma, ends)
    for got, wanted in zip(cuda.align(cost, gamma, ends), expected, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-9, atol=1e-12)
    single = cost.float()
    for got, wanted in zip(cuda.align(single, gamma, ends), by_torch(single, gamma, ends), strict=True):
        assert got.dtype == torch.float32
        torch.testing.assert_close(got.double(), wanted, rtol=1e-6, atol=1e-6)


def test_float32_keeps_its_digits_where_sums_of_costs_are_large(cuda: ModuleType) -> None:
    cost, ends = make(2, 40, 40)
    single = (cost * 1000).float()
    _, share = cuda.align(single, 1.0, ends)
    torch.testing.assert_close(share.double(), by_torch(single, 1.0, ends)[1], rtol=1e-6, atol=1e-6)


def test_walls_and_broken_costs(cuda: ModuleType) -> None:
    cost, _ = make(4, 6, 6)
    cost[0, 2, :5] = torch.inf  # one way is left
    cost[1, 3] = torch.inf  # none is
    cost[2, 3, 3] = torch.nan
    ends = torch.full((4, 2), 6, device=DEVICE)
    value, share = cuda.align(cost, 0.1, ends)
    assert math.isfinite(value[0].item())
    assert share[0, 2].tolist() == pytest.approx([0, 0, 0, 0, 0, 1])
    assert value[1].item() == math.inf
    assert math.isnan(value[2].item())
    assert math.isfinite(value[3].item())
    assert torch.isfinite(share).all()


@needs_gpu
def test_is_used_on_a_gpu() -> None:
    cost, ends = make(3, 20, 30)
    given = cost.clone().requires_grad_()
    value = softdtw.soft_dtw(given, 0.1, ends)
    assert "Cuda" in type(value.grad_fn).__name__
    (share,) = torch.autograd.grad(value.sum(), given)
    expected = by_torch(cost, 0.1, ends)
    torch.testing.assert_close(value.detach(), expected[0])
    torch.testing.assert_close(share, expected[1])
