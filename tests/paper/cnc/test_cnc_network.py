"""The networks: frames with context, prepared vectors, the fast path against the plain one."""

from fractions import Fraction

import numpy as np
import pytest
import torch
from errors_kit import raises
from torch.nn import functional as F

from stepcut.errors import FeatureError
from stepcut.paper.cnc.network import MapEncoder, VectorEncoder, centre_and_smooth
from stepcut.paper.cnc.training import context_rows, draw


def plain(network, maps):
    """The network as it stands in the paper, without dropout."""
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
    plain, mixed = (
        MapEncoder(4, 3, 5, 0.0, stride=7.5, trained_stride=-0.5, mixed=m) for m in (0, 1)
    )
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
