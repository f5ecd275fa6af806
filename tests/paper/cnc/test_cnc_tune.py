"""End-to-end training: a trainable backbone, exact in chunks, saved and restored; from the command line."""

import json

import numpy as np
import pytest
import torch
from errors_kit import raises
from resnet_weights import resnet_file
from safetensors.numpy import load_file

import stepcut
from stepcut.cli.main import main
from stepcut.errors import OptionError
from stepcut.features.backbones.networks import resnet50_graph
from stepcut.features.backbones.runtime import as_tensors, run_torch, torch_functions
from stepcut.formats import read
from stepcut.paper.cnc.embedder import Embedder
from stepcut.paper.cnc.tune import TunableBackbone
from stepcut.toy import make_kitchen


def tiny_graph():
    random = np.random.default_rng(0)
    weights = {}

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
        tuned = embedder.network_.state_dict()["backbone.weights.0"].cpu()
        # The backbone learned, and the user's own is as it was.
        assert not torch.equal(tuned, backbone.state_dict()["weights.0"])
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


SMALL = ["train.iterations=2", "train.frames=3", "train.hidden=4", "train.dim=4"]


@pytest.mark.slow
def test_learn_tunes_the_backbone_and_segment_uses_it(tmp_path):
    weights = resnet_file(tmp_path / "resnet50.safetensors", stages=1)
    untuned = resnet50_graph(load_file(weights), "conv2a").convs
    videos = make_kitchen(tmp_path / "kitchen", videos=2, duration=8.0).videos
    saved, cut = str(tmp_path / "p.proc"), tmp_path / "cut.json"
    words = ["learn", *map(str, videos), "-k", "3", "--method", "cnc", "-o", saved, "--quiet"]
    words += ["--backbone", "resnet50", "--weights", str(weights), "--layer", "conv2a"]
    words += ["--fps", "1", "--set", *SMALL, "train.learning_rate=0.01"]
    assert main([*words, "train.tune_backbone=true"]) == 0
    weights.unlink()  # what was tuned lies in the procedure

    procedure = stepcut.load(saved)
    state = procedure.method.state()
    for number, name in enumerate(procedure.method.embedder_.network_.backbone.names):
        moved = np.abs(state[f"embedder.backbone.weights.{number}"] - untuned[name][0])
        assert moved.max() > 1e-4, name  # every convolution learned
    assert main(["segment", saved, str(videos[0]), "-o", str(cut), "--quiet"]) == 0
    assert [(s.step, s.start, s.end) for s in read(cut)] == [
        (s.step, s.start, s.end) for s in procedure.timelines[videos[0].stem]
    ]
