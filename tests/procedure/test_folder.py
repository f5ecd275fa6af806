"""Saving a procedure keeps the user's files, links and permissions."""

import fcntl
import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from errors_kit import raises

import stepcut as sc
from stepcut.errors import OutputError, ProcedureError
from stepcut.files import atomic
from stepcut.files.names import safe_name
from stepcut.procedure import folder as on_disk
from stepcut.procedure.edits import Edits
from stepcut.procedure.taught import take_back, teach_folder
from stepcut.toy import toy_features

ROWS, TRUE = toy_features(videos=3, seed=1, dim=8)
QUICK: dict[str, Any] = {"restarts": 2}


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    folder = tmp_path_factory.mktemp("features")
    for number, rows in enumerate(ROWS):
        np.save(folder / f"{number}.npy", rows)
    return folder


@pytest.fixture(scope="module")
def learned_once(features, tmp_path_factory):
    place = tmp_path_factory.mktemp("learned") / "a.proc"
    sc.learn(features, steps=4, output=place, **QUICK)
    return place


@pytest.fixture
def place(learned_once, tmp_path):
    return Path(shutil.copytree(learned_once, tmp_path / "a.proc"))


def put_own_files(place):
    (place / "notes.md").write_text("n")
    (place / "notes.md").chmod(0o640)
    (place / "clips" / "deep").mkdir(parents=True)
    (place / "clips" / "deep" / "a.mp4").write_bytes(b"video")
    (place / "clips").chmod(0o500)
    (place / "link").symlink_to("notes.md")
    (place / "dangling").symlink_to("/nowhere/at/all")
    (place / ".hidden").touch(0o400)
    (place / "README.md").write_text("what I know of it")


def own_files(place):
    found = {
        str(path.relative_to(place)): (
            oct(path.lstat().st_mode),
            os.readlink(path) if path.is_symlink() else path.is_file() and path.read_bytes(),
        )
        for path in place.rglob("*")
    }
    ours = on_disk.OURS - {"README.md"}
    return {name: state for name, state in found.items() if name not in ours}


@pytest.mark.slow
def test_what_stepcut_did_not_write_stays(place, features):
    put_own_files(place)
    before = own_files(place)
    assert len(before) == 8
    teach_folder(place, {"0": TRUE[0]})
    assert own_files(place) == before
    take_back(place)
    assert own_files(place) == before
    sc.load(place).rename({0: "pour"}).save(place)
    assert own_files(place) == before
    for name in ("edits.json", "severity.json"):
        (place / name).unlink(missing_ok=True)
    sc.learn(features, steps=3, output=place, **QUICK)
    assert len(sc.load(place).steps) == 3
    assert own_files(place) == before
    assert [path.name for path in place.parent.iterdir()] == ["a.proc"]


def test_a_folder_that_cannot_be_moved_stops_the_exchange_before_it_begins(place, monkeypatch):
    put_own_files(place)
    before, procedure = own_files(place), sc.load(place)
    steps = list(procedure.steps)
    monkeypatch.setattr(os, "geteuid", lambda: place.stat().st_uid + 1)
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != "clips")
    with raises(OutputError, "clips", "another user"):
        procedure.rename({0: "pour"}).save(place)
    assert own_files(place) == before
    assert sc.load(place).steps == steps
    assert [path.name for path in place.parent.iterdir()] == ["a.proc"]


def test_a_folder_with_the_name_of_a_file_of_stepcut_is_refused_before_any_work(place, monkeypatch):
    (place / "loss.csv").mkdir()
    (place / "loss.csv" / "mine.txt").write_text("n")
    monkeypatch.setattr(sc.Procedure, "teach", None)
    with raises(OutputError, "loss.csv", "Rename the folder"):
        teach_folder(place, {"0": TRUE[0]})
    with raises(OutputError, "loss.csv", "Rename the folder"):
        sc.load(place).save(place)
    assert (place / "loss.csv" / "mine.txt").read_text() == "n"


def test_labels_json_belongs_to_the_user_except_in_format_1(place):
    procedure = sc.load(place)
    (place / "labels.json").write_text("an export of another program")
    procedure.save(place)
    assert (place / "labels.json").read_text() == "an export of another program"
    config = json.loads((place / "config.json").read_text())
    (place / "config.json").write_text(json.dumps({**config, "format": 1}))
    procedure.save(place)
    assert not (place / "labels.json").exists()


def test_the_card_is_replaced_until_a_person_writes_into_it(place):
    sc.load(place).rename({0: "pour"}).save(place)
    assert "pour" in (place / "README.md").read_text()


@pytest.mark.parametrize("when", ["before the exchange", "after it", "without one"])
def test_a_kill_while_folders_are_exchanged_loses_no_file(place, when, monkeypatch):
    put_own_files(place)
    before, procedure = own_files(place), sc.load(place)

    def killed(*_):
        raise KeyboardInterrupt

    if when == "before the exchange":
        monkeypatch.setattr(on_disk, "exchange", killed)
    else:
        monkeypatch.setattr(on_disk, "_carry_over", killed)
    if when == "without one":
        monkeypatch.setattr(on_disk, "exchange", lambda *_: False)
    with pytest.raises(KeyboardInterrupt):
        procedure.save(place)
    monkeypatch.undo()
    assert sc.load(place) == procedure
    assert own_files(place) == before
    assert [path.name for path in place.parent.iterdir()] == ["a.proc"]


def test_unfinished_files_of_killed_runs_go(place):
    (place / ".edits.json.0123abcd.part").write_text("{")
    (place / ".mine.0123abcd.part").write_text("of another program")
    old, new = (place.parent / f".a.proc.{letter * 32}.part" for letter in "ab")
    for folder in (old, new):
        folder.mkdir()
        (folder / "config.json").touch()
    os.utime(old, (0, 0))
    (place.parent / ".a.proc.notes.part").touch()
    os.utime(place.parent / ".a.proc.notes.part", (0, 0))
    sc.load(place).save(place)
    assert [path.name for path in place.glob(".*")] == [".mine.0123abcd.part"]
    beside = {path.name for path in place.parent.iterdir()}
    assert beside == {"a.proc", new.name, ".a.proc.notes.part"}


def mode(path):
    return path.stat().st_mode & 0o777


def test_permissions_stay(place, tmp_path):
    edits = Edits(place)
    edits.do({"do": "confirm", "video": "0"})
    place.chmod(0o700)
    (place / "edits.json").chmod(0o600)
    (place / "timelines.json").chmod(0o640)
    edits.do({"do": "rename", "step": 0, "name": "pour"})
    assert mode(place / "edits.json") == 0o600
    sc.load(place).rename({1: "stir"}).save(place)
    assert [mode(place), mode(place / "edits.json")] == [0o700, 0o600]
    teach_folder(place)
    assert [mode(place), mode(place / "timelines.json")] == [0o700, 0o640]
    assert not (place / "edits.json").exists()
    take_back(place)
    assert [mode(place), mode(place / "timelines.json")] == [0o700, 0o640]
    assert mode(place / "edits.json") == 0o600
    (tmp_path / "out.csv").touch(0o600)
    sc.write(tmp_path / "out.csv", TRUE[0])
    assert mode(tmp_path / "out.csv") == 0o600


@pytest.mark.parametrize("name", ["edits.json", "severity.json"])
def test_a_link_in_a_procedure_writes_nothing_elsewhere(place, tmp_path, name):
    (tmp_path / "elsewhere.json").write_text('{"critical": ["step 1"]}')
    (place / name).symlink_to(tmp_path / ("elsewhere.json" if "sev" in name else "new.json"))
    Edits(place).do({"do": "rename", "step": 0, "name": "pour"})
    assert not (place / name).is_symlink()
    assert not (tmp_path / "new.json").exists()
    assert json.loads((tmp_path / "elsewhere.json").read_text()) == {"critical": ["step 1"]}
    assert sc.load(place).steps[0] == "pour"


@pytest.mark.parametrize("kind", ["pipe", "device", "hole"])
@pytest.mark.parametrize(
    "name", ["config.json", "timelines.json", "model.safetensors", "edits.json"]
)
def test_what_is_not_a_plain_file_is_not_read(place, name, kind):
    (place / name).unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(place / name)
    elif kind == "device":
        (place / name).symlink_to("/dev/zero")
    else:
        (place / name).touch()
        os.truncate(place / name, 1 << 40)
    with pytest.raises(ProcedureError):
        sc.load(place)


def test_a_folder_that_somebody_else_locks_is_not_waited_for_without_end(place, monkeypatch):
    handle = os.open(place.parent, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    monkeypatch.setattr(atomic, "LONGEST_WAIT", 0.0)
    try:
        with raises(OutputError, "locked"):
            sc.load(place)
    finally:
        os.close(handle)
    assert len(sc.load(place).steps) == 4


@pytest.mark.parametrize(
    "name", ["con", "NUL", "aux.txt", "COM1", "lpt9.tar.gz", "a.", "b...", "c. "]
)
def test_names_that_windows_takes_for_something_else(name):
    safe = str(safe_name(name))
    assert safe != name
    assert safe.split(".")[0].upper() not in {"CON", "NUL", "AUX", "COM1", "LPT9"}
    assert safe[-1] not in ". "
    assert str(safe_name("console.log")) == "console.log"
