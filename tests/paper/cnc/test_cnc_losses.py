"""The losses and soft-DTW against loops written from the equations, and the networks against plain ones."""

from fractions import Fraction

import cnc_oracles as oracles
import numpy as np
import pytest
import torch
from errors_kit import raises
from torch.nn import functional as F

from stepcut.errors import FeatureError
from stepcut.paper.cnc import losses
from stepcut.paper.cnc.losses import soft_dtw
from stepcut.paper.cnc.network import MapEncoder, VectorEncoder, centre_and_smooth
from stepcut.paper.cnc.settings import Losses
from stepcut.paper.cnc.training import context_rows, draw

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
    some = {"identical": torch.ones_like(u), "zero": torch.zeros_like(u), "one far": far}
    some |= {"two the same": u[:, [0, 0, 2, 3, 4, 5, 6]], "large": u * 1e3}
    cases = {case: (x, t) for case, x in some.items()}
    cases["times repeat"] = (u, torch.full_like(t, 0.5))
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
def test_lengths_leave_padding_out_and_the_gradient_is_exact():
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


def plain(network, maps):
    x = F.relu(network.norm1(network.conv1(maps)))
    x = F.relu(network.norm2(network.conv2(x)))
    x = F.relu(network.full1(F.adaptive_max_pool3d(x, 1).flatten(1)))
    return network.project(F.relu(network.full2(x)))


@pytest.mark.parametrize(("context", "size"), [(1, (1, 1)), (2, (5, 4)), (4, (5, 4))])
def test_fast_path_equals_the_plain_network(context, size):
    torch.manual_seed(0)
    network = MapEncoder(channels=6, dim=5, hidden=7, dropout=0.0).double()
    maps = torch.randn(4, 6, context, *size, dtype=torch.float64)
    results = []
    for run in (plain, MapEncoder.forward):
        network.norm1.reset_running_stats()
        network.norm2.reset_running_stats()
        network.zero_grad()
        network.train()
        out = run(network, maps)
        out.square().sum().backward()
        network.eval()
        gradients = [p.grad.clone() for p in network.parameters() if p.grad is not None]
        buffers = [b.clone() for b in network.buffers()]
        results.append([out.detach(), *gradients, *buffers, run(network, maps).detach()])
    for slow, fast in zip(*results, strict=True):
        torch.testing.assert_close(fast, slow)


def test_channels_and_time_are_never_mixed():
    """One marked channel of one frame arrives in that channel at that time, and nowhere else."""
    maps = np.zeros((6, 4, 3, 3), np.float32)
    maps[3, 2] = 1.0  # frame 3, channel 2
    network = MapEncoder(channels=4, dim=4, hidden=8, context=2, stride=0.5)
    rows = network.store(maps, torch.device("cpu"))
    places = torch.from_numpy(context_rows(np.arange(6), 6, network.offsets, rate=2))
    gathered = network.gather(rows, places)
    assert gathered.shape == (6, 4, 2, 3, 3)
    marked = {tuple(place) for place in gathered.amax((3, 4)).nonzero().tolist()}
    # Itself at time 1, context of the next at time 0: (frame, channel, time).
    assert marked == {(3, 2, 1), (4, 2, 0)}
    expected = np.stack([maps[[0, 0, 1, 2, 3, 4]], maps], axis=2)
    np.testing.assert_array_equal(gathered.numpy(), expected)


def test_as_the_authors_code_mixes_channels_looks_ahead_and_back():
    torch.manual_seed(0)
    plain, mixed = (MapEncoder(4, 3, 5, 0, 2, 7.5, -0.5, mixed=m) for m in (0, 1))
    mixed.load_state_dict(plain.state_dict())
    assert (mixed.trained_on, mixed.offsets) == ((0.0, 0.5), (-7.5, 0.0))
    frames = torch.randn(3, 2, 4, 2, 2)  # (N, c, C, h, w), as the backbone gives them
    read = frames.contiguous().view(3, 4, 2, 2, 2)  # their reshape, without a transpose
    torch.testing.assert_close(mixed(frames.transpose(1, 2)), plain(read))


def test_the_vector_encoder_is_two_convolutions_and_context_is_in_seconds():
    torch.manual_seed(0)
    network = VectorEncoder(features=9, components=4, dim=3, hidden=6)
    rows = torch.randn(2, VectorEncoder.TAPS, 4)
    one, two = network.conv1, network.conv2
    weights = one.weight.view(6, 3, 4).transpose(1, 2), two.weight.view(3, 3, 6).transpose(1, 2)
    first = F.conv1d(rows.transpose(1, 2), weights[0], one.bias).relu()
    second = F.conv1d(first, weights[1], two.bias)
    expected = second[:, :, 0] + rows[:, 2] @ network.straight.weight.T
    torch.testing.assert_close(network(rows), expected)
    rows = np.array([0, 10, 59])
    assert context_rows(rows, 60, (-0.5, 0.0), rate=30).tolist() == [[0, 0], [0, 10], [44, 59]]
    ntsc = context_rows(rows, 60, (-2.0, 0.0, 2.0), rate=Fraction(30000, 1001))
    assert ntsc.tolist() == [[0, 0, 59], [0, 10, 59], [0, 59, 59]]
    with raises(FeatureError, "3 channels", "8"):
        MapEncoder(channels=8, dim=4, hidden=8)(torch.zeros(2, 3, 2, 5, 5))


def test_draw_is_sorted_different_and_padded():
    lengths = [50, 8, 40, 30, 60, 70]
    (batch,) = draw(np.random.default_rng(0), lengths, 6, 16, (-0.5, 0.0), rate=2.0)
    assert batch.context.shape == (6, 16, 2)
    context, times, durations, mask = (part.numpy() for part in batch.parts())
    starts = np.cumsum([0, *lengths])
    for place in range(6):
        rows = context[place, mask[place], 1]
        video = int(np.searchsorted(starts, rows[0], side="right")) - 1
        assert (np.diff(rows) > 0).all()
        assert rows[-1] < starts[video + 1]
        assert len(rows) == min(16, lengths[video])
        assert durations[place] == lengths[video] / 2
        back = context[place, mask[place], 0]
        np.testing.assert_array_equal(back, np.maximum(rows - 1, starts[video]))
        expected = (rows - starts[video]) / lengths[video]
        np.testing.assert_allclose(times[place, mask[place]], expected)


def test_preparation_centres_smooths_and_projects():
    random = np.random.default_rng(0)
    x = random.normal(size=(50, 6)) + 5
    plain = centre_and_smooth(x, rate=1, seconds=0)
    np.testing.assert_allclose(plain, x - x.mean(0), atol=1e-5)
    smooth = centre_and_smooth(x, rate=2, seconds=1.5)
    apart = np.arange(50)[:, None] - np.arange(50)
    weights = np.exp(-0.5 * (apart / 3.0) ** 2) * (abs(apart) <= 12)
    expected = (weights @ (x - x.mean(0))) / weights.sum(1, keepdims=True)
    np.testing.assert_allclose(smooth, expected, atol=1e-5)
    network = VectorEncoder(features=6, components=3, dim=2, hidden=4, smooth=0)
    network.learn_axes([x])
    projected = network.store(x, torch.device("cpu")).numpy()
    assert np.mean(projected**2) == pytest.approx(1.0, rel=1e-4)
    covariance = projected.T @ projected / 50
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-4)


@pytest.mark.parametrize("unit", [1e-8, 1.0, 1e6])
def test_the_unit_of_the_features_makes_no_difference(unit):
    x = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    network = VectorEncoder(features=6, components=3, dim=2, hidden=4, smooth=0)
    network.learn_axes([unit * x])
    rows = network.store(unit * x, torch.device("cpu"))
    assert float(rows.square().mean()) == pytest.approx(1, rel=1e-3)
    # Nothing but what single precision rounds.
    still = np.full((40, 6), unit, np.float32)
    network.learn_axes([still])
    assert float(network.store(still, torch.device("cpu")).abs().max()) < 0.5
    network.learn_axes([0 * x])
    assert network.axes.isfinite().all()
