"""The losses and soft-DTW against loops written from the equations; gradients and invariances."""

import cnc_oracles as oracles
import pytest
import torch
from torch.nn import functional as F

from stepcut.paper.cnc import losses
from stepcut.paper.cnc.losses import soft_dtw
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


LENGTHS = torch.tensor([[5, 7], [3, 4], [5, 1]])


@pytest.fixture(params=["loop", "diagonals"])
def path(request, monkeypatch):
    """The compiled loop, and what a GPU does."""
    name = request.param
    if name == "diagonals":
        monkeypatch.setattr(losses, "_align", on_diagonals)
    return name


def on_diagonals(cost, gamma, ends):
    found = losses._align_on_gpu(torch.from_numpy(cost), gamma, torch.from_numpy(ends))
    return tuple(x.numpy() for x in found)


def make_costs(batch=3, rows=5, columns=7, scale=3.0):
    random = torch.Generator().manual_seed(0)
    return torch.rand(batch, rows, columns, generator=random, dtype=torch.float64) * scale


@pytest.mark.usefixtures("path")
@pytest.mark.parametrize("gamma", [0.01, 0.1, 1.0, 10.0])
def test_soft_dtw_equals_the_loop(gamma):
    cost = make_costs()
    expected = [oracles.soft_dtw(c.numpy(), gamma) for c in cost]
    assert soft_dtw(cost, gamma).tolist() == pytest.approx(expected, rel=1e-12)
    assert soft_dtw(cost.float(), gamma).tolist() == pytest.approx(expected, rel=1e-5)


@pytest.mark.usefixtures("path")
def test_lengths_leave_padding_out():
    cost = make_costs()
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
def test_the_gradient_of_soft_dtw_is_exact():
    cost = make_costs().requires_grad_()
    assert torch.autograd.gradcheck(lambda c: soft_dtw(c, 0.3), cost)
    assert torch.autograd.gradcheck(lambda c: soft_dtw(c, 0.1, LENGTHS), cost)


@pytest.mark.usefixtures("path")
def test_range_of_floats_forbidden_cells_and_nan():
    # Costs whose exponentials are 0 or infinite in any float, and an alignment that begins dear and ends cheap.
    cost = make_costs(scale=1e4) - 3e3
    cost[:, 0, 0] = 1e6
    cost.requires_grad_()
    values = soft_dtw(cost, 0.01)
    expected = [oracles.soft_dtw(c, 0.01) for c in cost.detach().numpy()]
    assert values.tolist() == pytest.approx(expected, rel=1e-12)
    (gradient,) = torch.autograd.grad(values.sum(), cost)
    assert torch.isfinite(gradient).all()
    assert gradient[:, 0, 0].tolist() == pytest.approx([1.0] * 3)
    cost = make_costs(batch=2)
    cost[0, 2, :6] = torch.inf  # one way through row 2 is left
    cost[1, 2, 3] = torch.nan
    cost.requires_grad_()
    values = soft_dtw(cost, 0.1)
    assert torch.isfinite(values[0])
    assert torch.isnan(values[1])
    (gradient,) = torch.autograd.grad(values[0], cost)
    assert (gradient[0, 2, :6] == 0).all()
    assert float(gradient[0, 2, 6]) == pytest.approx(1.0)
