"""Embedder: it learns, resumes bit-identically, uses no labels; end-to-end training of a backbone."""

import csv
import io
import itertools
import json
from fractions import Fraction

import numpy as np
import pytest
import torch
from errors_kit import raises
from resnet_weights import resnet_file
from safetensors.numpy import load_file

import stepcut
from stepcut.cli.main import main
from stepcut.errors import FeatureError, NotLearned, OptionError, TrainingError
from stepcut.features.backbones.networks import resnet50_graph
from stepcut.features.backbones.runtime import as_tensors, run_torch, torch_functions
from stepcut.formats import read
from stepcut.methods.method import Curve
from stepcut.paper.cnc.embedder import Embedder
from stepcut.paper.cnc.losses import loss_terms
from stepcut.paper.cnc.settings import Losses
from stepcut.paper.cnc.training import Plan, converged, draw, train
from stepcut.paper.cnc.tune import TunableBackbone
from stepcut.progress import silent
from stepcut.toy import make_kitchen


def make_vectors(dim=12, lengths=(60, 45, 20)):
    random = np.random.default_rng(0)
    states = random.normal(size=(4, dim)) * 2
    videos = []
    for length in lengths:
        borders = np.sort(random.choice(np.arange(3, length - 3), 3, replace=False))
        labels = np.searchsorted(borders, np.arange(length), side="right")
        videos.append(states[labels] + random.normal(size=(length, dim)) + random.normal(size=dim))
    return videos


def make_maps():
    random = np.random.default_rng(0)
    return [random.normal(size=(length, 5, 4, 3)).astype(np.float32) for length in (20, 9, 14)]


class Stop(Exception):
    pass


@pytest.mark.parametrize(
    ("loss", "parts"),
    [("tc3i", ["tcc", "cidm"]), ("tcc", ["tcc"]), ("lav", ["soft_dtw", "cidm"]),
     ("lav+tcc", ["tcc", "soft_dtw", "cidm"])],
)  # fmt: skip
def test_loss_falls(loss, parts):
    embedder = Embedder.of(loss=loss, dim=8, seed=0, iterations=60).fit(make_vectors())
    values = [row[0] for row in embedder.curve_.values]
    assert np.mean(values[-10:]) < 0.97 * np.mean(values[:5])
    assert embedder.curve_.names == ("loss", *parts)
    rows = list(csv.reader(io.StringIO(embedder.curve_.csv())))
    assert rows[0] == ["iteration", *embedder.curve_.names]
    assert len(rows) == 61


@pytest.mark.parametrize("kind", ["vectors", "maps"])
def test_shapes_seeds_and_saving(kind):
    features = make_vectors() if kind == "vectors" else make_maps()
    given = {"dim": 6, "rate": Fraction(1, 2), "iterations": 4, "hidden": 8}
    embedder = Embedder.of(**given, seed=3).fit(features)
    out = embedder.transform(features)
    assert [rows.shape for rows in out] == [(len(rows), 6) for rows in features]
    assert all(rows.dtype == np.float32 for rows in out)
    settings = json.loads(json.dumps(embedder.settings()))
    again = Embedder.restore(settings, embedder.state())
    with pytest.raises(ValueError, match="1e999999999"):
        Embedder.restore({**settings, "rate": "1e999999999"}, embedder.state())
    assert again.settings() == embedder.settings()
    for first, second in zip(out, again.transform(features), strict=True):
        np.testing.assert_array_equal(first, second)
    before = torch.get_rng_state()
    twice = [Embedder.of(**{**given, "seed": seed}).fit(features) for seed in (3, 4)]
    same, other = (one.transform(features)[0] for one in twice)
    # The user's own random numbers are left alone.
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(same, out[0])
    assert not np.array_equal(other, out[0])


@pytest.mark.parametrize("kind", ["vectors", "maps"])
def test_resumes_to_the_bit(kind, tmp_path):
    features = make_vectors() if kind == "vectors" else make_maps()
    given = {"dim": 6, "iterations": 12, "hidden": 8, "device": "cpu"}
    whole = Embedder.of(**given).fit(features)

    def interrupt(event):
        if event.done in (5, 9):
            raise Stop

    file = tmp_path / "run.safetensors"
    for _ in range(2):  # stopped after 5, and after 9
        with pytest.raises(Stop):
            Embedder.of(**given).fit(features, progress=interrupt, checkpoint=file)
    resumed = Embedder.of(**given).fit(features, checkpoint=file)
    assert resumed.curve_.values == whole.curve_.values
    for name, value in whole.state().items():
        np.testing.assert_array_equal(resumed.state()[name], value)
    # A finished run is not trained again; another one does not take its checkpoint.
    done = []
    Embedder.of(**given).fit(features, progress=done.append, checkpoint=file)
    assert len(done) == 2
    with raises(OptionError, "other settings"):
        Embedder.of(**{**given, "seed": 1}).fit(features, checkpoint=file)
    file.write_bytes(b"nothing")
    with raises(OptionError, "not a checkpoint"):
        Embedder.of(**given).fit(features, checkpoint=file)


def test_accumulated_batches_are_one_step_of_their_mean():
    """Four batches in one iteration move the weights like one batch whose loss is their mean."""
    batches, weights = draw(np.random.default_rng(0), [9, 9], 2, 3, (0,), 1, 4), []
    for accumulate in (1, 4):
        torch.manual_seed(0)
        network = torch.nn.Linear(2, 1)

        def measure(batch, network=network, together=accumulate == 1):
            parts = batches if together else [batch]
            each = [network(one.times[:, :2]).square().mean() for one in parts]
            return {"loss": sum(each) / len(each)}

        plan = Plan(0.1, 0, 1, 100, 0.01, 1, accumulate=accumulate)
        curve = train(network, lambda _, count: batches[:count], measure, plan, 0, "", silent, None)
        weights.append([*network.parameters(), torch.tensor(curve.values)])
    for whole, apart in zip(*weights, strict=True):
        torch.testing.assert_close(apart, whole)


def test_the_embeddings_of_a_video_share_one_norm():
    features = make_vectors()
    both = [Embedder.of(dim=4, iterations=2, video_norm=n).fit(features) for n in (False, True)]
    plain, shared = (one.transform(features) for one in both)
    for rows, scaled in zip(plain, shared, strict=True):
        np.testing.assert_allclose(scaled, rows / np.linalg.norm(rows), rtol=1e-5)


def train_reading(every, progress=silent):
    torch.manual_seed(0)
    network = torch.nn.Linear(2, 1)
    return train(
        network,
        lambda random, count: draw(random, [9, 9], 2, 3, (0,), 1, count),
        lambda batch: {"loss": network(batch.times[:, :2]).square().mean()},
        Plan(0.1, 0, iterations=10, patience=100, tolerance=0.01, read_every=every),
        *(0, "", progress, None),
    )


def test_hook_sees_every_step_and_training_stops_when_converged():
    seen = []
    curve = train_reading(4, seen.append)
    reported = [event.values["loss"] for event in seen if event.values]
    assert len(reported) == 10
    assert reported == [row[0] for row in curve.values]
    assert curve.values == train_reading(1).values
    plan = Plan(1, 0, iterations=100, patience=4, tolerance=0.01, read_every=1)
    assert not converged(Curve(("loss",), [[float(x)] for x in range(8, 0, -1)]), plan)
    assert converged(Curve(("loss",), [[1.0]] * 8), plan)
    # Looked at every `patience` iterations.
    assert not converged(Curve(("loss",), [[1.0]] * 9), plan)
    assert not converged(Curve(("loss",), [[1.0]] * 4), plan)
    short = Embedder.of(dim=4, iterations=500, patience=10, tolerance=0.9).fit(make_vectors())
    assert len(short.curve_.values) < 500


def test_your_own_loss_and_one_that_diverges():
    def mean_square(u, *_):
        return u.square().mean()

    embedder = Embedder.of(loss=mean_square, dim=4, iterations=3).fit(make_vectors())
    assert embedder.curve_.names == ("loss",)
    with raises(OptionError, "mean_square"):
        embedder.settings()
    calls = itertools.count(1)

    def explode(u, *_):
        return u.sum() * (float("nan") if next(calls) == 3 else 1.0)

    with raises(TrainingError, "iteration 3", "learning_rate=0.0001"):
        Embedder.of(loss=explode, dim=4, iterations=5).fit(make_vectors())


def test_own_limits_follow_the_data():
    """Ten passes over the rows, and a window that does not swallow the steps of a short video."""
    features = make_vectors(lengths=(60, 45, 20))
    embedder = Embedder.of(dim=4, frames=10).fit(features)
    assert len(embedder.curve_.values) == 25  # 10 x 125 rows / (5 x 10)

    def cidm_of(videos, window):
        return Embedder.of(dim=4, iterations=1, window=window).fit(videos).curve_.values[0][2]

    assert cidm_of(features, None) == cidm_of(features, 45 / 40)
    assert cidm_of(features, None) != cidm_of(features, 10.0)
    long = make_vectors(lengths=(500, 450))
    assert cidm_of(long, None) == cidm_of(long, 10.0)
    assert cidm_of(long, None) != cidm_of(long, 11.2)


@pytest.mark.parametrize(("settings", "spoil", "kind", "said"), [
    ({}, lambda x: x[:1], OptionError, "2 videos"),
    ({"loss": "tci3"}, None, OptionError, "'tc3i'?"),
    ({"loss": 5}, None, OptionError, "loss='5'"),
    ({"rate": 0}, None, OptionError, "rate=0"),
    ({"device": "gpu"}, None, OptionError, "device='gpu'"),
    ({"tune_backbone": True}, None, OptionError, "tune_backbone"),
    ({"tune_backbone": True, "backbone": 5}, None, OptionError, "backbone=5"),
    ({}, lambda x: [x[0], x[1][:, :5]], FeatureError, "video 1"),
    ({}, lambda x: [x[0], x[1][:, 0]], FeatureError, "(45,)"),
    ({}, lambda x: [x[0] * np.nan, x[1]], FeatureError, "video 0: row 0"),
])  # fmt: skip
def test_wrong_input_is_refused(settings, spoil, kind, said):
    features = make_vectors()
    with raises(kind, said):
        Embedder.of(**settings).fit(spoil(features) if spoil else features)


def test_an_embedder_is_fitted_keeps_its_dimension_and_embeds_a_video_alone_alike():
    features = make_vectors()
    with raises(NotLearned, "fitted"):
        Embedder.of().transform(features)
    embedder = Embedder.of(dim=4, iterations=2).fit(features)
    with raises(FeatureError, "video 0", "5", "12"):
        embedder.transform([features[0][:, :5]])
    every, [alone] = embedder.transform(features), embedder.transform(features[1:2])
    np.testing.assert_allclose(every[1], alone, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("loss", "frames"), [("lav", 6), ("lav+tcc", 10)])
def test_the_weight_in_lav_is_that_of_sums(loss, frames):
    # Of two videos, soft-DTW + 0.5 (I_a + I_b), sums over T^2 pairs, divided by T.
    embedder = Embedder.of(loss=loss, dim=4, iterations=1, frames=frames).fit(make_vectors())
    terms = dict(zip(embedder.curve_.names, embedder.curve_.values[0], strict=True))
    rest = terms["loss"] - terms["soft_dtw"] - terms.get("tcc", 0)
    pairs = frames**2 * terms["cidm"]
    assert rest == pytest.approx(0.5 * 2 * pairs / frames, rel=1e-4)


def test_time_in_frames_counts_those_of_the_papers_videos():
    # The paper's window of 300 frames lasts 10 s; two frames lie 1 s apart, beyond one of 0.5 s.
    u = torch.tensor([[[0.0], [0.5]]] * 2)
    times, durations = torch.tensor([[0.0, 0.5]] * 2), torch.tensor([2.0, 2.0])
    chosen = Losses(gamma_time="frames", margin=2.0, weight=1.0)
    terms = loss_terms("tc3i", u, times, durations, None, chosen, 0.5)
    # Of four ordered pairs two are a frame and itself, at distance 0.
    far = (30**2 + 1) * (2.0 - 0.5)
    assert float(terms["cidm"]) == pytest.approx(2 * far / 4, rel=1e-5)


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
