"""Many videos and tasks at once, with and without engines."""

import json
import shutil
from fractions import Fraction
from pathlib import Path

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


def test_two_videos_of_one_name_are_kept_apart(root, tmp_path, capsys):
    place = tmp_path / "a.proc"
    sc.learn(root / "bread", output=place, **QUICK)
    videos = [str(root / "bread" / f"v{number}.npy") for number in range(2)]
    (tmp_path / "other").mkdir()
    same = str(shutil.copy(videos[1], tmp_path / "other" / Path(videos[0]).name))
    words = ["segment", str(place), videos[0], same, "-o", str(tmp_path / "two" / "{name}.csv")]
    words += ["--quiet"]
    assert main(words) == 0
    assert len(list((tmp_path / "two").rglob("*.csv"))) == 2  # no file is overwritten
    capsys.readouterr()
    main(["check", str(place), videos[0], same, "--json", "--quiet"])
    assert len({json.loads(line)["video"] for line in capsys.readouterr().out.splitlines()}) == 2
    assert (
        main(["segment", str(place), same, same, "-o", str(tmp_path / "three" / "{name}.csv")]) == 2
    )
    capsys.readouterr()
    assert main(["segment", str(place), str(tmp_path / "absent.npy"), "-o", "a.xyz"]) == 2
    assert "the suffix '.xyz' is unknown" in capsys.readouterr().err  # before any video is opened


@pytest.mark.slow
def test_many_videos_are_cut_and_checked_by_workers(root, tmp_path, capsys):
    place = tmp_path / "a.proc"
    sc.learn(root / "bread", output=place, **QUICK)
    videos = [str(root / "bread" / f"v{number}.npy") for number in range(2)]
    shown = []
    for words in ([], ["--workers", "1"]):
        out = tmp_path / f"out{len(words)}"
        assert (
            main(["segment", str(place), *videos, "-o", str(out / "{name}.csv"), "--quiet", *words])
            == 0
        )
        code = main(["check", str(place), *videos, "--json", *words])
        shown.append(capsys.readouterr().out)
        assert code in (0, 1)
        assert len(shown[-1].splitlines()) == 2
        for name in ("v0.csv", "v1.csv"):
            assert (out / name).read_text() == (tmp_path / "out0" / name).read_text()
    assert shown[0] == shown[1]
    assert main(["segment", str(place), *videos, "-o", str(tmp_path / "one.csv")]) == 2
    assert "Use {name} for the name" in capsys.readouterr().err
    assert main(["check", str(place), videos[0], str(tmp_path / "absent.mp4")]) == 2
    said = capsys.readouterr()
    assert "absent.mp4: no such file" in said.err
    assert said.out
    assert main(["check", str(tmp_path / "b.proc"), *videos]) == 2
    assert capsys.readouterr().err.count("does not exist") == 1
