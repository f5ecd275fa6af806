"""The paper's method: settings reach its parts, which are saved; ProCut and fuzzy c-means by the textbook."""

import numpy as np
import pytest
from errors_kit import raises

import stepcut as sc
from stepcut.errors import OptionError, ProcedureError
from stepcut.methods.baselines import KMeans
from stepcut.methods.constraints import Constraint
from stepcut.paper.cnc.method import CnC
from stepcut.paper.cnc.peers import AsotTrained
from stepcut.paper.cnc.procut import ProCut, chain, fuzzy_c_means, memberships
from stepcut.paper.cnc.settings import PRESETS
from stepcut.testing import made_up_videos


def kitchen(rate, seed=0, noise=0.9):
    """Three videos of five steps of 20 to 40 seconds in differing orders; the signal is the same at every rate."""
    rng = np.random.default_rng(seed)
    places = rng.normal(size=(5, 16))
    videos = []
    for _ in range(3):
        seconds = np.concatenate([np.full(rng.integers(20, 41), k) for k in rng.permutation(5)])
        rows = places[seconds] + noise * rng.normal(size=(len(seconds), 16))
        videos.append(np.repeat(rows, rate, axis=0))
    return videos


@pytest.mark.parametrize("window", [0.0, 4.0])
def test_the_same_setting_means_the_same_at_every_rate(window):
    slow = ProCut(steps=5, rate=1, window=window).fit(kitchen(1)).labels_
    fast = ProCut(steps=5, rate=10, window=window).fit(kitchen(10)).labels_
    agree = [np.mean(np.repeat(a, 10) == b) for a, b in zip(slow, fast, strict=True)]
    assert min(agree) > 0.97


def test_smoother_means_fewer_changes_and_the_cut_is_the_lowest_energy():
    videos, changes = kitchen(1), []
    for smoothness in (0.0, 1.0, 5.0, 1000.0):
        segmenter = ProCut(steps=5, smoothness=smoothness).fit(videos)
        for (labels, shares, *_), own in zip(
            map(segmenter.read, videos), segmenter.labels_, strict=True
        ):
            assert np.array_equal(labels, chain(1 - shares, smoothness))
            assert np.array_equal(labels, own)  # alone and in company
        changes.append(sum(np.count_nonzero(np.diff(one)) for one in segmenter.labels_))
    assert changes == sorted(changes, reverse=True)
    assert changes[0] > changes[2] > changes[3] == 0


def test_direction_alone_counts_when_normalised():
    rng = np.random.default_rng(0)
    videos = kitchen(1, noise=0.3)
    louder = [video * rng.uniform(0.1, 10, size=(len(video), 1)) for video in videos]
    for kind in (ProCut, KMeans):
        plain, loud = (kind(steps=5, normalise=True).fit(v).labels_ for v in (videos, louder))
        assert min(np.mean(a == b) for a, b in zip(plain, loud, strict=True)) > 0.99
        unscaled = kind(steps=5, normalise=False).fit(louder).labels_
        assert max(np.mean(a == b) for a, b in zip(plain, unscaled, strict=True)) < 0.99


def test_as_the_authors_code_numbers_have_an_order_and_videos_are_joined():
    rows = np.repeat(np.eye(2), [3, 4], axis=0)
    videos = [rows, rows[::-1]]  # 0 0 0 1 1 1 1 and back: one change in each, none at the join
    smooth = {"smoothness": 3.5, "m": 2.0, "solver": "expansion"}
    alone = ProCut(steps=2, **smooth).fit(videos)
    assert [len(set(labels.tolist())) for labels in alone.labels_] == [1, 1]  # 3.5 is too dear
    joined = ProCut(steps=2, join_videos=True, **smooth).fit(videos)
    assert joined.labels_[0].tolist() == joined.labels_[1][::-1].tolist()
    half = ProCut(steps=2, change="numbers", **smooth).fit(videos)  # |k - l| / K is a half
    assert [len(set(labels.tolist())) for labels in half.labels_] == [2, 2]


def textbook(x, centres, m, turns):
    """The two formulas by turns, word for word; memberships, centres and objective."""
    x, centres = x.astype(np.float64), centres.astype(np.float64)
    for turn in range(turns + 1):
        d = ((x[:, None] - centres) ** 2).sum(axis=2)
        ratio = (d[:, :, None] / d[:, None, :]) ** (1 / (m - 1))  # (T, k, j)
        u = 1 / ratio.sum(axis=2)
        if turn < turns:
            power = u**m
            centres = power.T @ x / power.sum(axis=0)[:, None]
    return u, centres, float((u**m * d).sum())


def blobs(count=200, dim=5, k=3, seed=0):
    rng = np.random.default_rng(seed)
    places = 3 * rng.normal(size=(k, dim))[rng.integers(k, size=count)]
    return places + rng.normal(size=(count, dim))


@pytest.mark.parametrize("m", [1.3, 1.7, 2.0, 3.0])
def test_turn_by_turn_it_is_the_textbook(m):
    x = blobs()
    for turns in (1, 4, 20):
        u, c = fuzzy_c_means(x, 3, m, start=x[:3], iterations=turns, tolerance=0)
        true_u, true_c, _ = textbook(x, x[:3] + 1e-9, m, turns)
        np.testing.assert_allclose(c, true_c, atol=2e-3)
        np.testing.assert_allclose(u, true_u, atol=2e-3)


@pytest.mark.parametrize("m", [1.0001, 2.0, 10.0])
@pytest.mark.parametrize("dim", [1, 2048])
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_it_is_safe_at_its_edges(m, dim, dtype):
    rng = np.random.default_rng(0)
    x = (rng.normal(size=(40, dim)) * 200).astype(dtype)
    x[5:9] = x[4]  # several frames, one place
    u, c = fuzzy_c_means(x, 6, m)
    assert np.isfinite(u).all()
    assert np.isfinite(c).all()
    np.testing.assert_allclose(u.sum(axis=1), 1, atol=1e-5)


@pytest.mark.parametrize("scale", [1e-12, 1e10])
@pytest.mark.parametrize("shift", [0.0, 1e4])
def test_units_and_origin_do_not_matter(scale, shift):
    x = blobs()
    plain, _ = fuzzy_c_means(x, 3, start=x[:3])
    moved, _ = fuzzy_c_means((x + shift) * scale, 3, start=(x[:3] + shift) * scale)
    np.testing.assert_allclose(moved, plain, atol=2e-3)


def test_memberships_on_centres_and_of_new_frames():
    x = np.eye(3)
    u = memberships(x, x, 1.5)
    np.testing.assert_allclose(u, np.eye(3), atol=1e-5)
    shared = memberships(x[:1], np.stack([x[0], x[0], x[1]]), 1.5)
    np.testing.assert_allclose(shared, [[0.5, 0.5, 0]], atol=1e-5)
    x = blobs()
    u, c = fuzzy_c_means(x, 3, 1.5)
    np.testing.assert_allclose(memberships(x[:20], c, 1.5), u[:20], atol=1e-3)


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
