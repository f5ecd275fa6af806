"""Many videos and tasks at once, with and without engines."""

import json
import shutil
from fractions import Fraction

import numpy as np
import pytest

import stepcut as sc
from stepcut.cli.main import main

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


def test_an_old_call_for_many_tasks_answers_with_the_loop(capsys):
    with pytest.raises(SystemExit):
        main(["learn", "--tasks", "kitchen/"])
    assert 'for d in ROOT/*/; do stepcut learn "$d"; done' in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["check", "a.proc", "b.mp4", "--tasks", "kitchen/"])
    assert "it is an option of stepcut experiment." in capsys.readouterr().err


def test_the_rate_of_features_may_be_a_fraction(root, tmp_path):
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
