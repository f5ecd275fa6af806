"""The kernels for CUDA against the same loss by torch in float64."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch
from cnc_gpu import DEVICE, needs_gpu, needs_triton
from torch import Tensor

from stepcut.methods.cnc import _losses_torch, kernels, losses
from stepcut.methods.cnc.kernels import Settings

pytestmark = needs_triton


@pytest.fixture
def cuda() -> ModuleType:
    """The module, which cannot be imported where Triton is not."""
    from stepcut.methods.cnc import _losses_cuda

    return _losses_cuda


def make(videos: int, frames: int, dim: int, masked: bool) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    random = torch.Generator().manual_seed(videos * frames)
    u = torch.randn(videos, frames, dim, generator=random)
    t = torch.rand(videos, frames, generator=random).sort(1).values
    seconds = torch.rand(videos, generator=random) * 60 + 20
    if not masked:
        return u.to(DEVICE), t.to(DEVICE), seconds.to(DEVICE), None
    real = torch.rand(videos, frames, generator=random) > 0.3
    real[0, 0] = True
    real[2:] = False  # videos of padding alone
    u, t = u.masked_fill(~real[:, :, None], 0), t.masked_fill(~real, 0)
    return u.to(DEVICE), t.to(DEVICE), seconds.to(DEVICE), real.to(DEVICE)


WEIGHED = Settings(cycle=1.5, contrast=0.7)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("size", [(5, 32, 128), (3, 7, 16), (2, 20, 4), (4, 33, 100), (3, 64, 128)])
def test_equals_torch(cuda: ModuleType, size: tuple[int, int, int], masked: bool) -> None:
    u, t, seconds, real = make(*size, masked)
    whole = WEIGHED
    cases: list[tuple[Settings, Tensor | None]] = [
        (whole, seconds),
        (whole._replace(contrast=None), None),
        (whole._replace(cycle=None, margin=9.0), seconds),
    ]
    for settings, lasting in cases:
        expected = _losses_torch.measure(
            u.double(), t.double(), None if lasting is None else lasting.double(), real, settings
        )
        for got, wanted in zip(cuda.measure(u, t, lasting, real, settings), expected, strict=True):
            torch.testing.assert_close(got.double(), wanted, rtol=1e-5, atol=1e-5 * float(wanted.abs().max()))


def test_hard_cases_are_finite(cuda: ModuleType) -> None:
    u, t, seconds, _ = make(3, 7, 16, masked=False)
    far = u.clone()
    far[0, 0] = 1e4
    for x, times in [(torch.ones_like(u), t), (torch.zeros_like(u), t), (far, t), (u, torch.full_like(t, 0.5))]:
        for got in cuda.measure(x, times, seconds, None, WEIGHED):
            assert torch.isfinite(got).all()


def test_same_numbers_every_time(cuda: ModuleType) -> None:
    u, t, seconds, _ = make(5, 32, 64, masked=False)
    first, again = (cuda.measure(u, t, seconds, None, WEIGHED) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        assert torch.equal(one, other)


@needs_gpu
def test_is_chosen_on_a_gpu(cuda: ModuleType) -> None:
    u, t, seconds, _ = make(5, 32, 128, masked=False)
    assert kernels.choose_way(u) is cuda.measure
    assert kernels.choose_way(u.double()) is _losses_torch.measure
    assert kernels.choose_way(u.new_zeros(2, 65, 128)) is _losses_torch.measure
    u.requires_grad_()
    losses.tc3i(u, t, seconds).backward()
    gradient = u.grad
    assert gradient is not None
    slow = u.detach().double().requires_grad_()
    losses.tc3i(slow, t, seconds).backward()
    assert slow.grad is not None
    torch.testing.assert_close(gradient.double(), slow.grad, rtol=1e-5, atol=1e-5 * float(slow.grad.abs().max()))
