"""The losses against loops written from the equations; gradients and invariances."""

import cnc_oracles as oracles
import pytest
import torch
from torch.nn import functional as F

from stepcut.paper.cnc import losses
from stepcut.paper.cnc.settings import Losses

SECONDS = torch.tensor([60.0, 25.0, 90.0, 40.0], dtype=torch.float64)


def make(videos=3, frames=7, dim=16, seed=0):
    random = torch.Generator().manual_seed(seed)
    u = torch.randn(videos, frames, dim, generator=random, dtype=torch.float64) * 0.7
    t = torch.rand(videos, frames, generator=random, dtype=torch.float64).sort(1).values
    mask = torch.ones(videos, frames, dtype=torch.bool)
    mask[0, -2:] = False
    mask[1, 1] = False
    return u, t, SECONDS[:videos], mask


def call(name, u, t, d, mask=None):
    if name in ("tc3i", "lav", "lav+tcc"):
        return losses.loss_terms(name, u, t, d, mask, Losses(), 10.0)["loss"]
    function = getattr(losses, name)
    return function(u, t, d, mask) if name == "cidm" else function(u, t, mask)


NAMES = ["tcc", "cidm", "tc3i", "lav", "lav+tcc", "opel", "rgwot"]
PLANS = ["opel", "rgwot"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("seed", [0, 1])
def test_equals_the_loop(name, masked, seed):
    u, t, d, mask = make(seed=seed)
    arrays = [x.numpy() for x in (u, t, *(() if name in ("tcc", *PLANS) else (d,)))]
    oracle, given = getattr(oracles, name.replace("+", "_")), mask if masked else None
    expected = oracle(*arrays, mask=mask.numpy() if masked else None)
    assert float(call(name, u, t, d, given)) == pytest.approx(expected, rel=1e-9)
    single = call(name, u.float(), t.float(), d.float(), given)
    assert float(single) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", sorted({*NAMES} - {"rgwot"}))
def test_gradient_is_exact(name):
    u, t, d, mask = make(frames=5, dim=4)
    u.requires_grad_()
    assert torch.autograd.gradcheck(lambda x: call(name, x, t, d, mask), u)


@pytest.mark.parametrize("name", NAMES)
def test_hard_cases_have_finite_gradients(name):
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


@pytest.mark.parametrize("name", ["tcc", "cidm", "tc3i", "alignment", *PLANS])
def test_padding_is_not_seen(name):
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
def test_autocast_changes_nothing_and_a_video_of_padding_counts_for_nothing(name):
    u, t, d, _ = make()
    u, t, d = u.float(), t.float(), d.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = call(name, u, t, d)
    assert inside.dtype == torch.float32
    assert float(inside) == float(call(name, u, t, d))
    half = call(name, u.bfloat16(), t, d)
    assert float(half) == float(call(name, u.bfloat16().float(), t, d))
    u, t, d, _ = make()
    mask = torch.ones(3, 7, dtype=torch.bool)
    mask[1] = False
    u.requires_grad_()
    value = call(name, u, t, d, mask)
    two = [0, 2]
    assert value.item() == pytest.approx(call(name, u[two], t[two], d[two]).item(), rel=1e-12)
    (gradient,) = torch.autograd.grad(value, u)
    assert torch.isfinite(gradient).all()


def test_column_norms_are_those_of_the_authors_code():
    """dist[i, j] = max(0, |u_j|^2 + |v_j|^2 - 2 u_i v_j), there and back, as their code adds norms."""
    u, t, _, _ = make(videos=2, frames=6, dim=5)

    def shares(x, y):
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


def test_cidm_without_a_gradient_trains_tcc_alone():
    u, t, d, _ = make()
    u.requires_grad_()
    still = losses.loss_terms("tc3i", u, t, d, None, Losses(cidm_gradient=False), 10.0)
    moving = losses.loss_terms("tc3i", u, t, d, None, Losses(), 10.0)
    assert still["loss"].item() == moving["loss"].item()
    (gradient,) = torch.autograd.grad(still["loss"], u, retain_graph=True)
    (expected,) = torch.autograd.grad(losses.tcc(u, t), u)
    torch.testing.assert_close(gradient, expected)
