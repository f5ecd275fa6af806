"""Procedures identify videos by content: another recording never gets the labels of an annotated one."""

import json
import shutil

import numpy as np
import pytest
from errors_kit import raises
from features_films import make_film
from kitchen_kit import Eye
from store_kit import change_config, change_saved, config_of, saved

import stepcut as sc
from stepcut.app.workspace import Workspace
from stepcut.errors import OptionError
from stepcut.procedure.edits import Edits
from stepcut.toy import toy_features

ROWS, TRUE = toy_features(videos=3, seed=1, dim=8)
QUICK = {"restarts": 2}


@pytest.fixture(scope="module")
def learned_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("learned")
    (folder / "features").mkdir()
    for number, rows in enumerate(ROWS):
        np.save(folder / "features" / f"{number}.npy", rows)
    sc.learn(folder / "features", steps=4, output=folder / "a.proc", **QUICK)
    Edits(folder / "a.proc").do({"do": "confirm", "video": "0"})
    return folder


@pytest.fixture
def place(learned_once, tmp_path):
    shutil.copytree(learned_once, tmp_path, dirs_exist_ok=True)
    place = tmp_path / "a.proc"
    moved = json.dumps(saved(place)).replace(str(learned_once), str(tmp_path))
    change_saved(place, json.loads(moved))
    source = config_of(place)["source"]
    change_config(place, source=[one.replace(str(learned_once), str(tmp_path)) for one in source])
    return place


@pytest.fixture
def files(place):
    return place.parent / "features"


def test_another_file_of_the_same_name_and_length_is_segmented_anew(place, tmp_path, caplog):
    procedure = sc.load(place)
    (tmp_path / "new").mkdir()
    np.save(tmp_path / "new" / "0.npy", ROWS[0][::-1])
    turned = procedure.segment(tmp_path / "new" / "0.npy")
    assert turned != procedure.timelines["0"]
    assert turned.segments[0].confidence is not None
    assert "other content" in caplog.text
    np.save(tmp_path / "new" / "0.npy", ROWS[0])
    assert procedure.segment(tmp_path / "new" / "0.npy") == procedure.timelines["0"]


def test_changed_features_are_not_taught_the_old_labels(place, files):
    np.save(files / "0.npy", ROWS[0][::-1])
    for learn_from in (sc.load(place).teach, sc.load(place).suggest):
        with raises(OptionError, "content has changed", video="0"):
            learn_from()
    np.save(files / "0.npy", ROWS[0])
    assert sc.load(place).teach().labels["0"].tolist() == sc.load(place).labels["0"].tolist()


def shown_as_changed(place):
    videos = Workspace.around(place).only.state()["videos"]
    return [video["name"] for video in videos if video["changed"]]


def test_a_renamed_video_is_found_by_its_content(place, files):
    (files / "0.npy").rename(files / "first.npy")
    with raises(OptionError, "first has the content of 0"):
        sc.load(place).teach()


@pytest.mark.slow
def test_a_video_recorded_again_is_not_taught_the_old_labels(tmp_path, run):
    films = [make_film(tmp_path / f"{name}.mp4", frames=100) for name in "abc"]
    make_film(tmp_path / "new.mov", frames=50, rate=10)
    procedure = sc.learn(films, steps=2, backbone=Eye(), **QUICK)
    procedure.save(tmp_path / "p.proc")
    Edits(tmp_path / "p.proc").do({"do": "confirm", "video": "a"})
    assert not procedure.changed_videos()
    shutil.move(tmp_path / "new.mov", tmp_path / "a.mp4")
    assert procedure.changed_videos() == ["a"]
    assert shown_as_changed(tmp_path / "p.proc") == ["a"]
    told = run("clips", tmp_path / "p.proc", "-o", tmp_path / "clips").err
    assert "a: this file has changed" in told
    assert "b: this file" not in told
    with raises(OptionError, "content has changed", video="a"):
        sc.load(tmp_path / "p.proc", trust=True).teach()
