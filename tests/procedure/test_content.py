"""Procedures identify videos by content: another recording never gets the labels of an annotated one."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from features_films import make_film

import stepcut as sc
from stepcut.cli.main import main
from stepcut.errors import OptionError
from stepcut.procedure.edits import Edits
from stepcut.toy import toy_features

ROWS, TRUE = toy_features(videos=4, seed=1, dim=8)
QUICK: dict[str, Any] = {"restarts": 2}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "features").mkdir()
    for number, rows in enumerate(ROWS):
        np.save(tmp_path / "features" / f"{number}.npy", rows)
    return tmp_path / "features"


@pytest.fixture
def place(files: Path, tmp_path: Path) -> Path:
    sc.learn(files, steps=4, output=tmp_path / "a.proc", **QUICK)
    Edits(tmp_path / "a.proc").do({"do": "confirm", "video": "0"})
    return tmp_path / "a.proc"


def test_another_file_of_the_same_name_and_length_is_segmented_anew(
    place: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The same video in another folder is recognised."""
    procedure = sc.load(place)
    (tmp_path / "new").mkdir()
    np.save(tmp_path / "new" / "0.npy", ROWS[0][::-1])
    turned = procedure.segment(tmp_path / "new" / "0.npy")
    assert turned != procedure.timelines["0"]
    assert turned.segments[0].confidence is not None
    assert "other content" in caplog.text
    np.save(tmp_path / "new" / "0.npy", ROWS[0])
    assert procedure.segment(tmp_path / "new" / "0.npy") == procedure.timelines["0"]


def test_changed_features_are_not_taught_the_old_labels(place: Path, files: Path) -> None:
    np.save(files / "0.npy", ROWS[0][::-1])
    for learn_from in (sc.load(place).teach, sc.load(place).suggest):
        with pytest.raises(OptionError, match="the content has changed") as told:
            learn_from()
        assert told.value.video == "0"
    np.save(files / "0.npy", ROWS[0])
    assert sc.load(place).teach().labels["0"].tolist() == sc.load(place).labels["0"].tolist()


def test_a_renamed_video_is_found_by_its_content(place: Path, files: Path) -> None:
    (files / "0.npy").rename(files / "first.npy")
    with pytest.raises(OptionError, match="first has the content of 0"):
        sc.load(place).teach()


def test_a_procedure_of_a_version_without_digests(place: Path, files: Path) -> None:
    saved = json.loads((place / "timelines.json").read_text())
    for entry in saved.values():
        del entry["digest"]
    (place / "timelines.json").write_text(json.dumps(saved))
    procedure = sc.load(place)
    assert procedure.segment(files / "0.npy") == procedure.timelines["0"]
    assert len(procedure.teach().steps) == 4


class Eye:
    """A backbone with the mean colour of each quarter of a picture."""

    name, dim, size, fingerprint = "eye", 4, 16, "eye"

    def extract(self, frames: np.ndarray) -> np.ndarray:
        return frames.mean(axis=(1, 3)).reshape(len(frames), 4, 4).mean(axis=2) / 255


def test_a_video_recorded_again_is_not_taught_the_old_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in "abc":
        make_film(tmp_path / f"{name}.mp4", frames=200)
    make_film(tmp_path / "new.mov", frames=100, rate=10)
    procedure = sc.learn(
        [tmp_path / f"{name}.mp4" for name in "abc"], steps=2, backbone=Eye(), **QUICK
    )
    procedure.save(tmp_path / "p.proc")
    Edits(tmp_path / "p.proc").do({"do": "confirm", "video": "a"})
    assert not procedure.changed_videos()
    shutil.move(tmp_path / "new.mov", tmp_path / "a.mp4")
    assert procedure.changed_videos() == ["a"]
    assert main(["clips", str(tmp_path / "p.proc"), "-o", str(tmp_path / "clips")]) == 0
    told = capsys.readouterr().err
    assert "a: this file has changed" in told
    assert "b: this file" not in told
    with pytest.raises(OptionError, match="^a: the content has changed"):
        sc.load(tmp_path / "p.proc", trust=True).teach()
