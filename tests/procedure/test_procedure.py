"""Procedure: learning, saving, loading, and use on new videos."""

import json
from fractions import Fraction

import numpy as np
import pytest
from errors_kit import raises
from store_kit import revision

import stepcut as sc
from stepcut.errors import FeatureError, OptionError, OutputError, ProcedureError
from stepcut.features.features import Features
from stepcut.methods import StepCut
from stepcut.procedure.fitting import row_edges
from stepcut.toy import toy_features

QUICK = {"restarts": 4}


@pytest.fixture(scope="module")
def videos():
    rows, timelines = toy_features(videos=5, seed=0, dim=12)
    return {timeline.video: video for timeline, video in zip(timelines, rows, strict=True)}


@pytest.fixture(scope="module")
def learned(videos, tmp_path_factory):
    return sc.learn(videos, steps=6, cache=tmp_path_factory.mktemp("cache"), **QUICK)


@pytest.fixture
def procedure(learned, tmp_path):
    learned.save(tmp_path / "copy.proc")
    return sc.load(tmp_path / "copy.proc")


def test_boundaries_lie_between_rows_and_answers_end_with_the_video(procedure, videos):
    probabilities = np.array([[0.9, 0.1], [0.6, 0.4], [0.1, 0.9], [0.1, 0.9]])
    share = np.log(1.5) / (np.log(1.5) + np.log(9))
    found = row_edges(np.array([0, 0, 1, -1]), probabilities)
    assert found.tolist() == pytest.approx([0, 1, 1.5 + share, 3, 4])
    name, rows = next(iter(procedure.learned.timelines)), 40
    seen = np.random.default_rng(0).normal(size=(rows, *procedure.config.shape)).astype(np.float32)
    for stated, end in ((39.2, 39.2), (38.0, 39.5), (40.0, 40.0)):  # the second one is impossible
        video = Features(seen, Fraction(1), stated, name)
        report = procedure.check(video)
        assert procedure.segment(video).duration == report.seconds == end
        assert max((when[1] for step in report.steps for when in step.times), default=0) <= end
    rows = next(iter(videos.values()))
    known, odd = procedure.check(rows), procedure.check(np.flip(rows, axis=0).copy())
    assert known.score < odd.score  # a reversed video is more unusual than a training video
    state = procedure.guide().push(0.0, rows[0])
    assert state.step in range(-1, 6)
    json.dumps(procedure.plan())


def test_saving_and_renaming_reach_everything(learned, tmp_path, procedure):
    learned.save(tmp_path / "a.proc")
    again = sc.load(tmp_path / "a.proc")
    assert again == learned
    files = {file.name for file in revision(tmp_path / "a.proc").iterdir()}
    assert files == {
        "README.md", "check.json", "config.json", "model.safetensors", "procedure.json",
    }  # fmt: skip
    assert procedure == learned
    procedure = procedure.rename({np.int64(0): "pour", "step 2": "stir"})
    assert procedure != learned
    assert procedure.steps[:2] == ["pour", "stir"]
    assert "pour" in str(procedure.orders)
    assert procedure.graph.name(1) == "stir"
    used = {segment.step for timeline in procedure.timelines.values() for segment in timeline}
    assert "step 1" not in used


@pytest.mark.parametrize(("names", "says"), [
    ({9: "x"}, "0 to 5"),
    ({True: "x"}, "step=True"),
    ({"step 11": "x"}, "'step 1'?"),
    ({0: "step 2"}, "already a step"),
])  # fmt: skip
def test_renaming_that_makes_no_sense(procedure, names, says):
    with raises(OptionError, says):
        procedure.rename(names)


def test_what_is_no_video_of_this_task_or_no_procedure_is_refused(procedure, tmp_path):
    for name in ("a.mp4", "b.mp4"):
        (tmp_path / name).touch()  # reading would report an empty file
    for several in (tmp_path, [tmp_path / "a.mp4", tmp_path / "b.mp4"]):
        with pytest.raises(OptionError, match="2 videos"):
            procedure.check(several)
    with raises(FeatureError, "[3]", "[12]"):
        procedure.segment(np.zeros((4, 3)))
    with raises(FeatureError, "(3,)", "(12,)"):
        procedure.guide().push(0.0, np.zeros(3))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    with raises(OutputError, "not a procedure"):
        procedure.save(tmp_path / "mine")
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years"
    with pytest.raises(ProcedureError, match="does not exist"):
        sc.load(tmp_path / "none.proc")
    with pytest.raises(ProcedureError, match="not a procedure"):
        sc.load(tmp_path)


class Own(StepCut):
    """A custom method that can be imported."""


def test_a_method_of_ones_own_is_found_again_by_the_same_call(videos, tmp_path):
    videos = dict(list(videos.items())[:3])
    for method in (Own(steps=3, restarts=2), f"{__name__}:Own"):
        place = tmp_path / f"{type(method).__name__}.proc"
        first, again = (
            sc.learn(videos, 3, method=method, cache=tmp_path, output=place) for _ in range(2)
        )
        assert again == first
        assert isinstance(again.method, Own)
        with pytest.raises(ProcedureError, match="trust=True"):
            sc.load(place)
