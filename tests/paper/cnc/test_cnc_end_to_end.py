"""Tuning the backbone from the command line: learn, save, load, and use on videos."""

import numpy as np
import pytest
from resnet_weights import resnet_file
from safetensors.numpy import load_file

import stepcut
from stepcut.cli.main import main
from stepcut.features.backbones.networks import resnet50_graph
from stepcut.formats import read
from stepcut.paper.cnc.method import CnC
from stepcut.paper.cnc.tune import FrameEncoder, TunableBackbone
from stepcut.toy import make_kitchen

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
    method = procedure.method
    assert isinstance(method, CnC)
    network = method.embedder_.network_
    assert isinstance(network, FrameEncoder)
    tuned = network.backbone
    assert isinstance(tuned, TunableBackbone)
    moved = {
        name: float(np.abs(weight.detach().cpu().numpy() - untuned[name][0]).max())
        for name, weight in zip(tuned.names, tuned.weights, strict=True)
    }
    assert min(moved.values()) > 1e-4, moved  # every convolution learned

    assert main(["segment", saved, str(videos[0]), "-o", str(cut), "--quiet"]) == 0
    name = videos[0].stem
    assert [(s.step, s.start, s.end) for s in read(cut)] == [
        (s.step, s.start, s.end) for s in procedure.timelines[name]
    ]

    rows = procedure.learned_features()[0].rows
    embedded = method.read(rows).embedding
    with_untuned = dict(method.state())
    for number, each in enumerate(tuned.names):
        with_untuned[f"embedder.backbone.weights.{number}"] = untuned[each][0]
        with_untuned[f"embedder.backbone.biases.{number}"] = untuned[each][1]
    other = CnC.restore(method.settings(), with_untuned).read(rows).embedding
    assert np.abs(other - embedded).max() > 1e-3 * np.abs(embedded).max()
