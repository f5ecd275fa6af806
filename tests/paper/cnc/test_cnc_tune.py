"""End-to-end training: a trainable backbone, exact in chunks, saved and restored."""

import json
from typing import Any

import numpy as np
import torch
from errors_kit import raises
from numpy.typing import NDArray

from stepcut.errors import OptionError
from stepcut.features.backbones.networks import resnet50_graph
from stepcut.features.backbones.runtime import as_tensors, run_torch, torch_functions
from stepcut.paper.cnc.embedder import Embedder
from stepcut.paper.cnc.tune import FrameEncoder, TunableBackbone


def tiny_graph():
    random = np.random.default_rng(0)
    weights: dict[str, NDArray[Any]] = {}

    def conv(name, norm, out, into, k):
        weights[f"{name}.weight"] = (random.normal(size=(out, into, k, k)) / k).astype(np.float32)
        for part in ("weight", "running_var"):
            weights[f"{norm}.{part}"] = np.ones(out, np.float32)
        for part in ("bias", "running_mean"):
            weights[f"{norm}.{part}"] = np.zeros(out, np.float32)

    conv("conv1", "bn1", 4, 3, 7)
    for part, (out, into, k) in enumerate([(2, 4, 1), (2, 2, 3), (4, 2, 1)], start=1):
        conv(f"layer1.0.conv{part}", f"layer1.0.bn{part}", out, into, k)
    conv("layer1.0.downsample.0", "layer1.0.downsample.1", 4, 4, 1)
    return resnet50_graph(weights, "conv2a")


def test_tuning_end_to_end_is_exact_in_parts():
    graph = tiny_graph()
    backbone = TunableBackbone(graph)
    random = np.random.default_rng(0)
    frames = [random.integers(0, 255, size=(n, 16, 16, 3), dtype=np.uint8) for n in (12, 9)]
    with torch.no_grad():
        maps = backbone(torch.from_numpy(frames[0]))
    convs = as_tensors(graph.convs, "cpu")
    plain = run_torch(
        lambda x: graph.forward(torch_functions(), x, convs), graph.mean, graph.scale, "cpu"
    )
    np.testing.assert_allclose(maps.numpy(), plain(frames[0]), rtol=2e-3, atol=2e-3)
    results = []
    for chunk in (1000, 5):
        small = {"dim": 4, "hidden": 6, "iterations": 2, "rate": 2, "frames": 8}
        embedder = Embedder.of(tune_backbone=True, backbone=backbone, chunk=chunk, **small)
        out = embedder.fit(frames).transform(frames)
        network = embedder.network_
        assert isinstance(network, FrameEncoder)
        moved = (
            network.state_dict()["backbone.weights.0"].cpu() - backbone.state_dict()["weights.0"]
        )
        assert moved.abs().max() > 0  # the backbone learned, and the user's own is as it was
        results.append(out)
    for whole, parts in zip(*results, strict=True):
        np.testing.assert_allclose(parts, whole, rtol=1e-3, atol=1e-4)
    settings = json.loads(json.dumps(embedder.settings()))
    # The backbone is described, and tuned weights are the state.
    again = Embedder.restore(settings, embedder.state())
    np.testing.assert_array_equal(again.transform(frames)[0], out[0])
    embedder.backbone = embedder.backbone_ = torch.nn.Flatten()
    with raises(OptionError, "Flatten"):
        embedder.settings()
