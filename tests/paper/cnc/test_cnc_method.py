"""The paper's method: custom parts are saved and restored, settings reach their parts; trained ASOT."""

import numpy as np
import pytest
from errors_kit import raises

import stepcut as sc
from stepcut.errors import OptionError, ProcedureError
from stepcut.methods.baselines import KMeans
from stepcut.methods.constraints import Constraint
from stepcut.paper.cnc.method import CnC
from stepcut.paper.cnc.peers import AsotTrained
from stepcut.paper.cnc.procut import ProCut
from stepcut.paper.cnc.settings import PRESETS
from stepcut.testing import made_up_videos

QUICK = {"iterations": 3, "components": 4}


class Halves(KMeans):
    def segment(self, rows):
        return (np.arange(len(rows)) * 2 // len(rows)).astype(np.int64)


@pytest.fixture
def videos():
    rng = np.random.default_rng(0)
    steps = np.repeat(np.eye(3, 8), 12, axis=0)
    return {f"v{n}": steps + 0.1 * rng.normal(size=(36, 8)) for n in range(3)}


def test_a_segmenter_object_is_saved_and_loaded(videos, tmp_path):
    own = ProCut(steps=3, smoothness=4.5, seed=3)
    method = CnC(steps=np.int64(3), dim=np.int32(8), segmenter=own, train=QUICK)
    learned = sc.learn(videos, method=method, output=tmp_path / "p.proc")
    loaded = sc.load(tmp_path / "p.proc")
    assert loaded.method.settings() == learned.method.settings()
    assert loaded.method.segmenter == "procut"
    assert loaded.method.segmenter_.settings() == own.settings()
    rows = list(videos.values())
    for one in rows:
        for before, after in zip(learned.method.read(one), loaded.method.read(one), strict=True):
            np.testing.assert_array_equal(before, after)


def test_a_segmenter_of_a_foreign_class_is_imported_by_the_users_word_only(videos, tmp_path):
    method = CnC(steps=2, segmenter=Halves(steps=2), train=QUICK)
    learned = sc.learn(videos, method=method, output=tmp_path / "p.proc")
    with raises(ProcedureError, ":Halves", "trust=True"):
        sc.load(tmp_path / "p.proc")
    loaded = sc.load(tmp_path / "p.proc", trust=True)
    rows = videos["v0"]
    np.testing.assert_array_equal(loaded.method.read(rows).labels, learned.method.read(rows).labels)
    method = CnC(steps=2, segmenter=f"{__name__}:Halves", train=QUICK).fit(list(videos.values()))
    assert method.labels_[0].tolist() == [0] * 18 + [1] * 18
    with raises(OptionError, "'procut'"):
        CnC(segmenter="procutt").fit(list(videos.values()))
    with raises(OptionError, "collections:Counter"):
        CnC(segmenter="collections:Counter").fit(list(videos.values()))


def test_a_segmenter_object_is_left_alone_and_follows_the_method(videos):
    own = KMeans(steps=7)
    learned = sc.learn(videos, steps=3, rate=2, method="cnc", segmenter=own, train=QUICK)
    assert len(learned.steps) == 3
    assert learned.method.segmenter_.rate == 2
    assert vars(own) == vars(KMeans(steps=7))  # neither fitted nor changed


def no_training(*_):
    raise AssertionError("training began")


def test_settings_are_answered_before_anything_is_learned(videos):
    rows = list(videos.values())
    with raises(OptionError, "iterations"):
        CnC(train={"steps": 40}).fit(rows)
    with raises(OptionError, "'smoothness'"):
        CnC(cut={"smoothnes": 1}).fit(rows)
    with raises(OptionError, setting="m", value=0.5):
        CnC(steps=3, cut={"m": 0.5}, loss=no_training).fit(rows)
    with raises(OptionError, "labels"):
        CnC(steps=3).fit(rows, [Constraint(labels=np.zeros(36, dtype=np.int64)), None, None])


@pytest.mark.parametrize(
    ("loss", "weight", "time"),
    [("tc3i", 24, "frames"), ("tcc", None, "video"), ("lav+tcc", 24, "video")],
)
def test_as_published_is_the_text_of_each_loss(loss, weight, time):
    # Sums over T frames beside sums over T^2 pairs weigh a mean over pairs T times.
    method = CnC(steps=3, dim=16, rate=2, loss=loss, as_published=True, train={"frames": 24})
    losses = method._make_embedder().losses
    assert (losses.weight, losses.gamma_time) == (weight, time)
    assert (losses.window, losses.temperature, losses.variance_weight) == (10, 1 / 16, 0.0005)
    cut = method._make_segmenter().settings()
    assert (cut["m"], cut["normalise"], cut["solver"], cut["window"]) == (2, False, "expansion", 2)


def test_as_released_is_the_code_of_the_authors():
    method = CnC(steps=5, rate=2, as_released=True)
    embedder, cut = method._make_embedder(), method._make_segmenter().settings()
    losses, training = embedder.losses, embedder.training
    assert (losses.cidm_gradient, losses.column_norms, losses.weight) == (False, True, 102.4)
    assert (losses.temperature, losses.variance_weight, losses.gamma_time) == (0.1, 0.001, "video")
    # 10,000 batches of two videos, four per step of the optimiser.
    assert (training.videos, training.accumulate, training.iterations) == (2, 4, 2500)
    assert (embedder.network.ahead, embedder.network.stride_in_use) == (0.5, 7.5)
    # 5 |k - l| / K beside 0.2 (1 - u), on links of neighbours, also from a video to the next.
    assert cut["smoothness"] * 2 == 5 / 0.2
    assert (cut["change"], cut["join_videos"], cut["window"]) == ("numbers", True, 0)
    subset = CnC(steps=5, as_released=True, segmenter="subset")._make_segmenter()
    assert subset.settings()["states"] == 5
    with raises(OptionError, "choose one", setting="as_released"):
        CnC(as_published=True, as_released=True).fit([np.eye(4)] * 2)


@pytest.mark.parametrize("preset", PRESETS)
def test_what_is_set_by_hand_comes_before_a_preset(videos, caplog, preset):
    chosen = {f"as_{preset}": True, "train": {**QUICK, "weight": 3}, "cut": {"m": 1.5}}
    method = CnC(steps=3, **chosen).fit(list(videos.values()))
    assert all(left in caplog.text for left in PRESETS[preset])  # what cannot be set is reported
    assert method.embedder_.losses.weight == 3
    assert method.segmenter_.settings()["m"] == 1.5
    again = CnC.restore(method.settings(), method.state())
    np.testing.assert_array_equal(again.read(videos["v0"]).labels, method.read(videos["v0"]).labels)


def make(**settings):
    return AsotTrained(**{"steps": 3, "epochs": 4, "hidden": 16, "restarts": 2, **settings})  # type: ignore[arg-type]


def test_training_lowers_the_loss_and_finds_the_steps():
    videos = made_up_videos()
    method = make(temperature=0.5, epochs=20, prior=0.2).fit(videos)
    losses = np.array(method.curve_.values)[:, 0]  # type: ignore[union-attr]
    assert losses.shape == (100,)
    assert losses[-5:].mean() < 0.9 * losses[:5].mean()
    for rows, labels in zip(videos, method.labels_, strict=True):
        assert (labels == rows[:, :3].argmax(1)).mean() > 0.95
