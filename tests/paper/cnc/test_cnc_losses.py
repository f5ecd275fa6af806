"""The losses against loops written from the equations; gradients and invariances."""

from __future__ import annotations

from collections.abc import Callable

import cnc_oracles as oracles
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from stepcut.paper.cnc import losses
from stepcut.paper.cnc.settings import Losses

SECONDS = torch.tensor([60.0, 25.0, 90.0, 40.0], dtype=torch.float64)


def make(
    videos: int = 3, frames: int = 7, dim: int = 16, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(seed)
    u = torch.randn(videos, frames, dim, generator=random, dtype=torch.float64) * 0.7
    t = torch.rand(videos, frames, generator=random, dtype=torch.float64).sort(1).values
    mask = torch.ones(videos, frames, dtype=torch.bool)
    mask[0, -2:] = False
    mask[1, 1] = False
    return u, t, SECONDS[:videos], mask


def call(name: str, u: Tensor, t: Tensor, d: Tensor, mask: Tensor | None = None) -> Tensor:
    if name in ("tc3i", "lav", "lav+tcc"):
        return losses.loss_terms(name, u, t, d, mask, Losses(), 10.0)["loss"]
    function: Callable[..., Tensor] = getattr(losses, name)
    return function(u, t, d, mask) if name == "cidm" else function(u, t, mask)


NAMES = ["tcc", "cidm", "tc3i", "lav", "lav+tcc", "opel", "rgwot"]
PLANS = ["opel", "rgwot"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_equals_the_loop(name: str, masked: bool, seed: int) -> None:
    u, t, d, mask = make(seed=seed)
    arrays = [x.numpy() for x in (u, t, *(() if name in ("tcc", *PLANS) else (d,)))]
    oracle, given = getattr(oracles, name.replace("+", "_")), mask if masked else None
    expected = oracle(*arrays, mask=mask.numpy() if masked else None)
    assert float(call(name, u, t, d, given)) == pytest.approx(expected, rel=1e-9)
    single = call(name, u.float(), t.float(), d.float(), given)
    assert float(single) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", sorted({*NAMES} - {"rgwot"}))
def test_gradient_is_exact(name: str) -> None:
    u, t, d, mask = make(frames=5, dim=4)
    u.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: call(name, x, t, d, mask), u)


@pytest.mark.parametrize("name", NAMES)
def test_hard_cases_have_finite_gradients(name: str) -> None:
    u, t, d, _ = make()
    u, t, d = u.float(), t.float(), d.float()
    far = u.clone()
    far[0, 0] = 1e4
    cases = {
        "identical": (torch.ones_like(u), t),
        "zero": (torch.zeros_like(u), t),
        "two the same": (u[:, [0, 0, 2, 3, 4, 5, 6]], t),
        "one far": (far, t),
        "times repeat": (u, torch.full_like(t, 0.5)),
        "large": (u * 1e3, t),
    }
    for case, (x, times) in cases.items():
        x = x.clone().requires_grad_()
        value = call(name, x, times, d)
        (gradient,) = torch.autograd.grad(value, x)
        assert torch.isfinite(value), case
        assert torch.isfinite(gradient).all(), case


@pytest.mark.parametrize("name", ["tcc", "lav"])
@pytest.mark.slow
def test_the_gradient_is_the_same_each_time(name: str) -> None:
    random = torch.Generator().manual_seed(0)
    given, times = (
        torch.randn(12, 32, 64, generator=random),
        torch.linspace(0, 1, 32).expand(12, 32),
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(2)  # which may sum in any order
    try:
        gradients = []
        for _ in range(5):
            u = given.clone().requires_grad_()
            call(name, u, times, torch.full((12,), 60.0)).backward()
            gradients.append(u.grad)
    finally:
        torch.set_num_threads(threads)
    assert all(torch.equal(one, gradients[0]) for one in gradients)


@pytest.mark.parametrize("name", NAMES)
def test_order_of_the_videos_does_not_matter(name: str) -> None:
    u, t, d, mask = make(videos=4)
    p = torch.tensor([2, 0, 3, 1])
    moved, expected = call(name, u[p], t[p], d[p], mask[p]), call(name, u, t, d, mask)
    assert float(moved) == pytest.approx(float(expected), rel=1e-12)


@pytest.mark.parametrize("name", ["tcc", "cidm", "tc3i", "alignment", *PLANS])
def test_padding_is_not_seen(name: str) -> None:
    u, t, d, _ = make(videos=2)
    mask = torch.ones(2, 10, dtype=torch.bool)
    mask[:, 7:] = False
    padded_u = F.pad(u, (0, 0, 0, 3), value=torch.nan).requires_grad_()
    padded_t = F.pad(t, (0, 3), value=torch.nan)
    value = call(name, padded_u, padded_t, d, mask)
    assert value.item() == pytest.approx(float(call(name, u, t, d)), rel=1e-12)
    (gradient,) = torch.autograd.grad(value, padded_u)
    assert torch.isfinite(gradient).all()
    assert (gradient[:, 7:] == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_autocast_changes_nothing(name: str) -> None:
    u, t, d, _ = make()
    u, t, d = u.float(), t.float(), d.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = call(name, u, t, d)
    assert inside.dtype == torch.float32
    assert float(inside) == float(call(name, u, t, d))
    half = call(name, u.bfloat16(), t, d)
    assert float(half) == float(call(name, u.bfloat16().float(), t, d))


@pytest.mark.parametrize("name", NAMES)
def test_a_video_of_padding_alone_counts_for_nothing(name: str) -> None:
    u, t, d, _ = make()
    mask = torch.ones(3, 7, dtype=torch.bool)
    mask[1] = False
    u.requires_grad_()
    value = call(name, u, t, d, mask)
    two = [0, 2]
    assert value.item() == pytest.approx(call(name, u[two], t[two], d[two]).item(), rel=1e-12)
    (gradient,) = torch.autograd.grad(value, u)
    assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("name", PLANS)
def test_plans_find_the_steps_of_videos_in_another_order(name: str) -> None:
    """Trained on noisy rows, equal steps come close, though the second video swaps two of them."""
    random = torch.Generator().manual_seed(0)
    orders = torch.tensor([[0, 1, 2, 3], [0, 2, 1, 3], [0, 1, 2, 3]]).repeat_interleave(6, dim=1)
    places = torch.randn(4, 8, generator=random)[orders]
    rows = places + 0.9 * torch.randn(3, 24, 8, generator=random)
    times, seconds = (torch.arange(24) / 24).expand(3, 24), torch.full((3,), 48.0)
    weights = 0.3 * torch.randn(8, 6, generator=random)
    weights.requires_grad_()

    def right() -> float:
        u = losses.unit(rows @ weights)
        return float((orders[1][(u[0] @ u[1].T).argmax(1)] == orders[0]).float().mean())

    before, optimiser = right(), torch.optim.Adam([weights], lr=0.02)
    for _ in range(60):
        terms = losses.loss_terms(name, rows @ weights, times, seconds, None, Losses(), 3.0)
        optimiser.zero_grad()
        terms["loss"].backward()
        optimiser.step()
    assert set(terms) == {"loss", name, "cidm"}
    assert right() > max(before, 0.8)


def test_the_virtual_frame_takes_what_has_no_partner() -> None:
    """Two equal videos, but a frame of the first is like nothing in the second."""
    u = torch.eye(5, dtype=torch.float64)[torch.tensor([[0, 1, 4], [0, 1, 2]])]
    rows = torch.ones(2, 3, dtype=torch.bool)
    cost = losses._bordered(1 - u[:1] @ u[1:].mT, 0.5)
    plan = losses._transport(-cost / 0.05, rows[:1], rows[1:])[0]
    assert plan.sum(1).tolist() == pytest.approx([0.25] * 4)
    assert plan.sum(0).tolist() == pytest.approx([0.25] * 4, abs=0.01)
    assert plan.argmax(1)[:3].tolist() == [0, 1, 3]


def test_tcc_is_zero_error_on_equal_videos() -> None:
    """Well separated frames, the same in both videos, land where they started."""
    u = 50 * torch.eye(6, dtype=torch.float64).expand(2, 6, 6)
    t = torch.linspace(0, 1, 6, dtype=torch.float64).expand(2, 6)
    floor = 0.001 * np.log(losses.VARIANCE_FLOOR)
    assert float(losses.tcc(u, t)) == pytest.approx(floor, abs=1e-9)
    assert float(losses.tcc(u, t.flip(1))) == pytest.approx(floor, abs=1e-9)


def test_cidm_window_is_in_seconds() -> None:
    u = torch.tensor([[[0.0], [1.0]]], dtype=torch.float64)
    t = torch.tensor([[0.0, 0.5]], dtype=torch.float64)
    gamma = 1.25
    near = losses.cidm(u, t, torch.tensor([20.0]))  # exactly 10 s apart
    far = losses.cidm(u, t, torch.tensor([20.1]))
    assert float(near) == pytest.approx(2 * (1 / gamma) / 4)
    # A frame is near itself; the two others push apart: gamma (2 - 1).
    assert float(far) == pytest.approx(2 * gamma / 4)


def test_column_norms_are_those_of_the_authors_code() -> None:
    """dist[i, j] = max(0, |u_j|^2 + |v_j|^2 - 2 u_i v_j), there and back, as their code adds norms."""
    u, t, _, _ = make(videos=2, frames=6, dim=5)

    def shares(x: Tensor, y: Tensor) -> Tensor:
        norms = [float((x[j] ** 2).sum() + (y[j] ** 2).sum()) for j in range(6)]
        near = [[norms[j] - 2 * float(x[i] @ y[j]) for j in range(6)] for i in range(6)]
        rows = [[-max(0.0, each) / 5 / 0.1 for each in row] for row in near]
        return torch.softmax(torch.tensor(rows, dtype=torch.float64), dim=1)

    total = 0.0
    for a, b in ((0, 1), (1, 0)):
        beta = shares(shares(u[a], u[b]) @ u[b], u[a])
        mu = beta @ t[a]
        var = (beta * (t[a][None] - mu[:, None]) ** 2).sum(1)
        total += float(((t[a] - mu) ** 2 / var + 0.001 * var.log()).mean()) / 2
    assert float(losses.tcc(u, t, column_norms=True)) == pytest.approx(total, rel=1e-9)
    assert float(losses.tcc(u, t)) != pytest.approx(total, rel=1e-3)


def test_cidm_without_a_gradient_trains_tcc_alone() -> None:
    u, t, d, _ = make()
    u.requires_grad_()
    still = losses.loss_terms("tc3i", u, t, d, None, Losses(cidm_gradient=False), 10.0)
    moving = losses.loss_terms("tc3i", u, t, d, None, Losses(), 10.0)
    assert still["loss"].item() == moving["loss"].item()
    (gradient,) = torch.autograd.grad(still["loss"], u, retain_graph=True)
    (expected,) = torch.autograd.grad(losses.tcc(u, t), u)
    torch.testing.assert_close(gradient, expected)
