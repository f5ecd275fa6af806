"""A wrong feature rate is detected from the lengths of files beside the features."""

import numpy as np
import pytest
from errors_kit import raises
from features_films import make_film

from stepcut.errors import DataError, FeatureError
from stepcut.procedure.learning import learn
from stepcut.procedure.lengths import check_lengths, read_durations
from stepcut.timeline import Segment, Timeline


@pytest.fixture
def features(tmp_path):
    """A folder of three feature files with 40 rows each, of two steps."""
    folder = tmp_path / "features"
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number in range(3):
        rows = np.repeat(np.eye(2, 8), 20, axis=0) + 0.05 * rng.normal(size=(40, 8))
        np.save(folder / f"v{number}.npy", rows.astype(np.float32))
    return folder


def test_the_assumed_rate_is_stated_first(features, tmp_path, run):
    learned = ["learn", str(features), "-k", "2", "-o", str(tmp_path / "a.proc")]
    learned += ["--set", "restarts=2"]
    first = run(*learned).err.splitlines()[0]
    assert all(word in first for word in ("1 row", "00:40", "--rate"))
    assert "row" not in run(*learned, "--rate", "1").err


@pytest.mark.parametrize("place", ["features", "."])
def test_lengths_of_durations_csv_are_compared(features, place):
    table = features.parent / place / "durations.csv"
    table.write_text("name,seconds\nv0,20\nv1,20.4\nv2,40\n")
    with raises(FeatureError, setting="rate", value=1, allowed=2, video="v0"):
        learn(features, steps=2)
    table.write_text("v0,20\nv1,20.4\n")
    assert learn(features, steps=2, rate=2, restarts=2).timelines["v0"].duration == 20


def test_lengths_of_videos_and_of_tables_are_compared(features, tmp_path):
    (features / "durations.csv").write_text("v0,43.9\n")
    assert len(learn(features, steps=2, restarts=2).timelines) == 3
    (features.parent / "videos").mkdir()
    make_film(features.parent / "videos" / "V1.mp4", frames=80)
    with raises(FeatureError, video="v1", allowed=10):
        learn(features, steps=2)
    (tmp_path / "durations.csv").write_text("name,seconds\nv0,long\n")
    with raises(DataError, path=str(tmp_path / "durations.csv"), line=2, value="long"):
        read_durations(tmp_path)


@pytest.mark.parametrize(
    ("share", "videos", "warned"),
    [(0.5, 3, True), (1 / 60, 1, True), (0.5, 1, False), (0.8, 3, False)],
)
def test_labels_far_shorter_than_their_videos_are_reported(share, videos, warned):
    found = {f"v{n}": Timeline([Segment(0, 50 + n, "a")], 60.0 + n) for n in range(videos)}
    true = {name: Timeline([Segment(0, one.end * share, "a")]) for name, one in found.items()}
    notes = check_lengths(found, true)
    assert any("minutes" in note for note in notes) == warned
