"""What an embedder sees: frames drawn with their context, prepared vectors, and frames under a backbone that learns."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from stepcut.errors import OptionError
from stepcut.features.backbones.contract import Graph
from stepcut.features.backbones.resnet50 import resnet50
from stepcut.features.backbones.torch_runtime import FUNCTIONS, TorchRuntime, as_tensors
from stepcut.methods.cnc.embedder import Embedder
from stepcut.methods.cnc.network import VectorEncoder, centre_and_smooth
from stepcut.methods.cnc.sampling import context_rows, draw
from stepcut.methods.cnc.tune import FrameEncoder, TunableBackbone


def test_draw_is_sorted_different_and_padded() -> None:
    lengths = [50, 8, 40, 30, 60, 70]
    (batch,) = draw(np.random.default_rng(0), lengths, videos=6, frames=16, offsets=(-0.5, 0.0), rate=2.0)
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
        np.testing.assert_allclose(times[place, mask[place]], (rows - starts[video]) / lengths[video])


def test_context_is_in_seconds() -> None:
    rows = np.array([0, 10, 59])
    assert context_rows(rows, 60, (-0.5, 0.0), rate=30).tolist() == [[0, 0], [0, 10], [44, 59]]
    assert context_rows(rows, 60, (-2.0, 0.0, 2.0), rate=Fraction(30000, 1001)).tolist() == [
        [0, 0, 59],
        [0, 10, 59],
        [0, 59, 59],
    ]


def test_preparation_centres_smooths_and_projects() -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=(50, 6)) + 5
    plain = centre_and_smooth(x, rate=1, seconds=0)
    np.testing.assert_allclose(plain, x - x.mean(0), atol=1e-5)
    smooth = centre_and_smooth(x, rate=2, seconds=1.5)
    place = np.arange(50)
    weights = np.exp(-0.5 * ((place[:, None] - place[None]) / 3.0) ** 2) * (abs(place[:, None] - place[None]) <= 12)
    expected = (weights @ (x - x.mean(0))) / weights.sum(1, keepdims=True)
    np.testing.assert_allclose(smooth, expected, atol=1e-5)
    network = VectorEncoder(features=6, components=3, dim=2, hidden=4, smooth=0)
    network.learn_axes([x])
    projected = network.store(x, torch.device("cpu")).numpy()
    assert np.mean(projected**2) == pytest.approx(1.0, rel=1e-4)
    covariance = projected.T @ projected / 50
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-4)


def tiny_graph() -> Graph:
    random = np.random.default_rng(0)
    weights: dict[str, NDArray[Any]] = {}

    def conv(name: str, norm: str, out: int, into: int, k: int) -> None:
        weights[f"{name}.weight"] = (random.normal(size=(out, into, k, k)) / k).astype(np.float32)
        for part in ("weight", "running_var"):
            weights[f"{norm}.{part}"] = np.ones(out, np.float32)
        for part in ("bias", "running_mean"):
            weights[f"{norm}.{part}"] = np.zeros(out, np.float32)

    conv("conv1", "bn1", 4, 3, 7)
    for part, (out, into, k) in enumerate([(2, 4, 1), (2, 2, 3), (4, 2, 1)], start=1):
        conv(f"layer1.0.conv{part}", f"layer1.0.bn{part}", out, into, k)
    conv("layer1.0.downsample.0", "layer1.0.downsample.1", 4, 4, 1)
    return resnet50(weights, "conv2a")


def test_tuning_end_to_end_is_exact_in_parts() -> None:
    graph = tiny_graph()
    backbone = TunableBackbone(graph)
    random = np.random.default_rng(0)
    frames = [random.integers(0, 255, size=(n, 16, 16, 3), dtype=np.uint8) for n in (12, 9)]
    with torch.no_grad():
        maps = backbone(torch.from_numpy(frames[0]))
    convs = as_tensors(graph.convs, "cpu")
    plain = TorchRuntime(lambda x: graph.forward(FUNCTIONS, x, convs, **graph.options), graph.mean, graph.scale)
    np.testing.assert_allclose(maps.numpy(), plain(frames[0]), rtol=2e-3, atol=2e-3)
    results = []
    for chunk in (1000, 5):
        embedder = Embedder(
            tune_backbone=True, backbone=backbone, chunk=chunk, dim=4, hidden=6, iterations=2, rate=2, frames=8
        )
        out = embedder.fit(frames).transform(frames)
        network = embedder.network_
        assert isinstance(network, FrameEncoder)
        moved = network.state_dict()["backbone.weights.0"].cpu() - backbone.state_dict()["weights.0"]
        assert moved.abs().max() > 0  # the backbone learned, and the user's own is as it was
        results.append(out)
    for whole, parts in zip(*results, strict=True):
        np.testing.assert_allclose(parts, whole, rtol=1e-3, atol=1e-4)
    settings = json.loads(json.dumps(embedder.settings()))
    again = Embedder.restore(settings, embedder.state())  # the backbone is described, and tuned weights are the state
    np.testing.assert_array_equal(again.transform(frames)[0], out[0])
    embedder.backbone = torch.nn.Flatten()
    with pytest.raises(OptionError, match="a Flatten, a module of your own"):
        embedder.settings()
