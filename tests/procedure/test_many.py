"""Many videos at once, with and without workers; wrong rates, told by the lengths of the files."""

import json
import shutil
from fractions import Fraction

import numpy as np
import pytest
from errors_kit import raises
from features_films import make_film

import stepcut as sc
from stepcut.cli.main import main
from stepcut.errors import DataError, FeatureError
from stepcut.procedure.learning import learn
from stepcut.procedure.lengths import check_lengths, read_durations
from stepcut.timeline import Segment, Timeline

QUICK = {"steps": 3, "restarts": 2}
WORDS = ["--set", "restarts=2", "-k", "3", "--quiet"]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("root")
    random = np.random.default_rng(0)
    (root / "bread").mkdir()
    for number in range(2):
        rows = np.repeat(np.eye(3, 8), 10, axis=0) + 0.1 * random.normal(size=(30, 8))
        np.save(root / "bread" / f"v{number}.npy", rows.astype(np.float32))
    return root


def test_old_calls_for_many_tasks_are_answered_and_rates_may_be_fractions(capsys, root, tmp_path):
    with pytest.raises(SystemExit):
        main(["learn", "--tasks", "kitchen/"])
    assert 'for d in ROOT/*/; do stepcut learn "$d"; done' in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["check", "a.proc", "b.mp4", "--tasks", "kitchen/"])
    assert "it is an option of stepcut experiment." in capsys.readouterr().err
    words = ["learn", str(root / "bread"), "--rate", "30000/1001", "-o", str(tmp_path / "a.proc")]
    words += [*WORDS]
    assert main(words) == 0
    assert sc.load(tmp_path / "a.proc").rate == Fraction(30000, 1001)


def test_two_videos_of_one_name_are_kept_apart(root, tmp_path, run):
    place = str(tmp_path / "a.proc")
    sc.learn(root / "bread", output=place, **QUICK)
    video = str(root / "bread" / "v0.npy")
    (tmp_path / "other").mkdir()
    same = str(shutil.copy(root / "bread" / "v1.npy", tmp_path / "other" / "v0.npy"))
    segment = ["segment", place, "--quiet", "-o"]
    run(*segment, tmp_path / "two" / "{name}.csv", video, same)
    assert len(list((tmp_path / "two").rglob("*.csv"))) == 2  # no file is overwritten
    lines = run("check", place, video, same, "--json", "--quiet", code=(0, 1, 4)).out.splitlines()
    assert len({json.loads(line)["video"] for line in lines}) == 2
    run(*segment, tmp_path / "three" / "{name}.csv", same, same, code=2)
    assert "Use {name} for the name" in run(*segment, tmp_path / "one.csv", video, same, code=2).err


@pytest.mark.slow
def test_many_videos_are_cut_and_checked_by_workers(root, tmp_path, run):
    place = tmp_path / "a.proc"
    sc.learn(root / "bread", output=place, **QUICK)
    videos = [str(root / "bread" / f"v{number}.npy") for number in range(2)]
    shown = []
    for words in ([], ["--workers", "1"]):
        out = ["-o", str(tmp_path / f"out{len(words)}" / "{name}.csv"), "--quiet"]
        run("segment", place, *videos, *out, *words)
        shown.append(run("check", place, *videos, "--json", *words, code=(0, 1)).out)
    assert len(shown[0].splitlines()) == 2
    assert shown[0] == shown[1]
    for name in ("v0.csv", "v1.csv"):
        assert (tmp_path / "out2" / name).read_text() == (tmp_path / "out0" / name).read_text()
    said = run("check", place, videos[0], tmp_path / "absent.mp4", code=2)
    assert "absent.mp4: no such file" in said.err
    assert said.out
    assert run("check", tmp_path / "b.proc", *videos, code=2).err.count("does not exist") == 1


@pytest.fixture
def features(tmp_path):
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
