"""The error tree, the attributes of errors, and the message for an unknown name."""

import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from errors_kit import raises

from stepcut import FeatureSpec, Segment, Timeline, errors, learn, write
from stepcut.cli.checking import check_webhook
from stepcut.evaluation import score
from stepcut.features.backbones import load_backbone
from stepcut.features.backbones.networks import read_weights
from stepcut.features.extract import extract, load_features
from stepcut.features.sensors import load_sensors
from stepcut.features.video.container import probe
from stepcut.methods import METHODS
from stepcut.order import learn_graph
from stepcut.paper import datasets
from stepcut.paper.experiments import Results, run_experiment
from stepcut.parallel.engine import Local
from stepcut.settings import check_number
from stepcut.show import plots

KINDS = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, Exception)]


def test_errors_are_in_the_tree_and_carry_the_data_they_speak_of():
    for kind in KINDS:
        assert issubclass(kind, errors.StepcutError)
    error = errors.AnnotationError("a.csv, line 3: no number", path=Path("a.csv"), line=3)
    assert (error.path, error.line) == ("a.csv", 3)
    assert (error.setting, error.value, error.allowed, error.video) == (None,) * 4
    with pytest.raises(errors.OptionError) as caught:
        check_number("rate", -1, 0, above=True)
    assert (caught.value.setting, caught.value.value) == ("rate", -1)
    assert caught.value.allowed == "a number above 0"


@pytest.mark.parametrize("kind", KINDS)
def test_the_data_of_an_error_survive_the_way_from_a_worker(kind):
    error = pickle.loads(pickle.dumps(kind("wrong", path="a.mp4", video="a", value=[1])))
    assert (str(error), error.path, error.video, error.value) == ("wrong", "a.mp4", "a", [1])


def test_an_unknown_name_is_answered_with_the_nearest_and_the_list():
    with pytest.raises(errors.OptionError) as caught:
        errors.choose("segmenter", "procutt", {"procut": 1, "kmeans": 2})
    what, advice = "segmenter='procutt' is unknown;", "Choose from procut, kmeans."
    assert str(caught.value) == f"{what} did you mean 'procut'? {advice}"
    assert caught.value.setting == "segmenter"
    assert caught.value.value == "procutt"
    assert caught.value.allowed == ["procut", "kmeans"]
    told = str(errors.unknown("loss", "zzz", ["tcc"], "a.json", "See docs."))
    assert told == "a.json: loss='zzz' is unknown. Choose from tcc. See docs."
    error = errors.unknown("video", "v7", [f"video {number}" for number in range(900)])
    assert "video 39 ... (900 in all)." in str(error)
    assert len(str(error)) < 600
    assert len(error.allowed) == 900


VIDEOS = [np.zeros((4, 3)), np.zeros((4, 2))]
NETWORK = "efficientnet-lite0"
WRONG = [
    (lambda: learn_graph([[0, 1]], durations=[[1.0]]), {"setting": "durations", "allowed": [2]}),
    (lambda: score([[0]], [[1], [1]]), {"setting": "pred", "value": 1, "allowed": 2}),
    (lambda: Timeline([], steps=["a", "a"]), {"setting": "steps", "value": ["a", "a"]}),
    (lambda: Segment(2, 1, "a"), {"setting": "end", "value": 1, "allowed": 2}),
    (
        lambda: METHODS["uniform"](steps=2).fit(VIDEOS),
        {"setting": "videos", "value": 2, "video": "1"},
    ),
    (lambda: learn({"a": np.zeros((4, 3)), "b": np.zeros((0, 3))}), {"video": "b"}),
    (lambda: FeatureSpec(scale="0"), {"setting": "scale", "value": (0.0, 0.0, 0.0)}),
    (lambda: load_backbone(NETWORK, layer="conv4c"), {"setting": "layer", "allowed": "layout"}),
    (lambda: load_backbone("/none/net.onnx"), {"setting": "backbone", "path": "/none/net.onnx"}),
    (lambda: Local(address="x"), {"setting": "address", "value": "x"}),
    (lambda: plots.timelines({}), {"setting": "found", "value": {}}),
    (lambda: run_experiment("main", data=[]), {"setting": "data", "value": []}),
    (lambda: datasets.load("egoprocel", ".", sides=2), {"setting": "sides", "allowed": ["view"]}),
    (lambda: check_webhook("x"), {"setting": "webhook", "value": None}),
]


@pytest.mark.parametrize(("call", "facts"), WRONG)
def test_errors_of_public_functions_carry_data(call, facts):
    with raises(errors.StepcutError, **facts):
        call()


EARLY = Timeline([Segment(-1, 1, "b")], video="a")
FILES = [
    ("a.npy", "text", load_features, {"video": "a"}),
    ("a.csv", "t,x\n1,2\n2,y\n", partial(load_sensors, strict=True), {"line": 3, "video": "a"}),
    ("a.mp4", "text", probe, {"video": None}),
    ("a.mp4", "", lambda file: extract([file], strict=True), {"video": "a"}),
    ("a.pth", "text", read_weights, {"setting": "weights"}),
    ("a.json", "text", Results.load, {}),
    ("a.json", "", lambda file: write(file, EARLY), {"video": "a"}),
]


@pytest.mark.parametrize(("name", "text", "call", "facts"), FILES)
def test_errors_about_files_carry_their_path(name, text, call, facts, tmp_path):
    file = tmp_path / name
    file.write_text(text)
    with raises(errors.StepcutError, path=str(file), **facts):
        call(file)
