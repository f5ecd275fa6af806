"""How features were made travels with them: from a file to a procedure to a new video."""

import json
import shutil
from fractions import Fraction

import numpy as np
import pytest
from errors_kit import raises
from store_kit import change_config

import stepcut as sc
from stepcut.errors import FeatureError, ProcedureError
from stepcut.features.extract import export, load_features
from stepcut.features.features import Features
from stepcut.features.spec import FeatureSpec

ROWS = np.repeat(np.eye(2, 4, dtype=np.float16), 10, axis=0)


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    place = tmp_path_factory.mktemp("learned") / "p.proc"
    sc.learn([ROWS, ROWS], 2, output=place, restarts=2)
    return place


@pytest.mark.parametrize(
    "said", [{}, {"name": "resnet50", "fps": "0"}, {"name": "resnet50", "weights": [1]}, 3, None]
)
def test_a_damaged_spec_is_found_when_a_procedure_is_loaded(said, learned, tmp_path):
    shutil.copytree(learned, tmp_path / "p.proc")
    change_config(tmp_path / "p.proc", backbone=said)
    with raises(ProcedureError, "damaged"):
        sc.load(tmp_path / "p.proc")


def test_more_words_than_a_header_holds_are_refused_and_nothing_is_written(tmp_path):
    long = Features(ROWS, Fraction(1), 20.0, "a", path="é" * 4000)
    with raises(FeatureError, "16,376"):
        export(long, tmp_path)
    assert not list(tmp_path.iterdir())


def test_features_that_were_made_differently_are_not_mixed(tmp_path):
    made = [(1, FeatureSpec(fps=Fraction(1))), (2, FeatureSpec()), (1, None)]
    for number, (rate, spec) in enumerate(made):
        export(Features(ROWS, Fraction(rate), 20 / rate, f"v{number}", spec=spec), tmp_path)
    for other in (1, 2):
        with raises(FeatureError, "v0", f"v{other}"):
            load_features([tmp_path / "v0.safetensors", tmp_path / f"v{other}.safetensors"])


def said_of(caplog):
    told = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return told


def test_specs_are_read_back_also_of_earlier_versions():
    other = FeatureSpec("resnet50", Fraction(30000, 1001), "/w.pth", "conv3a", "v1", fast=True)
    for spec in (FeatureSpec(), other):
        assert FeatureSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert FeatureSpec.from_json({"name": "vectors"}) is None
    assert not {"device", "fast"} & FeatureSpec().to_json().keys()
    for times, fast in (("fast", True), ("near", False)):
        spec = FeatureSpec.from_json({"name": "resnet50", "fps": "2", "times": times})
        assert spec == FeatureSpec("resnet50", fast=fast)


def test_rows_of_another_network_are_taken_with_a_word(tmp_path, caplog):
    def rows(name, backbone, weights=None, **how):
        spec = FeatureSpec(backbone, Fraction(2), weights, **how)
        return Features(ROWS, Fraction(2), 10.0, name, spec=spec)

    for number in range(3):
        export(rows(f"v{number}", "resnet50", "/here/w.pth", digest="abc"), tmp_path)
    procedure = sc.learn(tmp_path, 2, cache=tmp_path, restarts=2)
    # The same file in another place.
    procedure.check(rows("new", "resnet50", "/there/w.pth", digest="abc"))
    assert said_of(caplog) == []
    for told, new in (
        ("digest=def", rows("new", "resnet50", "/here/w.pth", digest="def")),
        ("backbone=timm:resnet50", rows("new", "timm:resnet50")),
        ("fast=True", rows("new", "resnet50", "/there/w.pth", digest="abc", fast=True)),
    ):
        procedure.check(new)
        assert told in said_of(caplog)[0]
    procedure.segment(new)  # said once
    assert said_of(caplog) == []


def test_what_is_taught_from_rows_of_another_width_is_refused(tmp_path):
    for number in range(3):
        export(Features(ROWS, Fraction(2), 10.0, f"v{number}"), tmp_path / "four")
        export(Features(ROWS[:, :2], Fraction(2), 10.0, f"v{number}"), tmp_path / "two")
    procedure = sc.learn(tmp_path / "four", 2, cache=tmp_path, restarts=2)
    with raises(FeatureError, "shape"):
        procedure.teach({"v0": procedure.timelines["v0"]}, source=tmp_path / "two")
