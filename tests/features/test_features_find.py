"""Which files are meant, and what they are called."""

import os
from pathlib import Path

import pytest
from errors_kit import raises

from stepcut.errors import VideoError
from stepcut.features.extract import extract
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


def test_a_folder_gives_its_videos_in_natural_order_and_each_once(folder):
    assert names(find_videos(folder), folder) == ["deep/v1.mkv", "v2.MP4", "v10.mp4"]
    assert find_videos(str(folder)) == find_videos([folder])
    given = [folder / "v10.mp4", folder / "v2.MP4", folder]
    assert names(find_videos(given), folder) == ["v10.mp4", "v2.MP4", "deep/v1.mkv"]
    assert find_videos(folder / "notes.txt") == [folder / "notes.txt"]  # whatever its suffix


def test_globs(folder, monkeypatch):
    assert names(find_videos(f"{folder}/**/v*"), folder) == ["deep/v1.mkv", "v2.MP4", "v10.mp4"]
    monkeypatch.chdir(folder)
    assert find_videos("v*.mp4") == [Path("v10.mp4")]
    Path("take[1].mp4").touch()
    assert find_videos("take[1].mp4") == [Path("take[1].mp4")]


def test_what_is_not_there(folder, tmp_path_factory):
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


def test_a_folder_that_cannot_be_read_is_told(folder, monkeypatch, caplog):
    look, shut = os.scandir, {str(folder / "deep")}

    def scandir(path):
        if str(path) in shut:
            raise PermissionError(13, "Permission denied", str(path))
        return look(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert names(find_videos(folder), folder) == ["v2.MP4", "v10.mp4"]
    assert "deep: this folder cannot be read (Permission denied)" in caplog.text
    monkeypatch.setattr(Path, "exists", lambda path: scandir(path.parent))
    with raises(VideoError, "x.mp4", "Permission denied"):
        find_videos(folder / "deep" / "x.mp4")
    monkeypatch.undo()
    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with raises(VideoError, "cannot be read"):
        find_videos(folder / "deep")


def test_a_link_to_nothing_is_one_video_that_cannot_be_used(folder):
    (folder / "deep" / "gone.mp4").symlink_to(folder / "nowhere.mp4")
    found = find_videos(folder / "deep")
    assert find_videos(found) == found
    with raises(VideoError, "gone.mp4"):
        extract(found[:1], strict=True)


def test_a_name_is_one_line_wherever_it_comes_from():
    assert name_videos(["films/a\nb.mp4"]) == ["a%0Ab"] == short_names(["/x/a\nb.mp4"])
    assert same_video("a%0Ab", "/films/a\nb.mp4")
    assert str(safe_name("a%0Ab")) == str(safe_name("a\nb"))
    for name in ("con", "NUL", "aux.txt", "lpt9.tar.gz", "a.", "b...", "c. "):  # not on Windows
        safe = str(safe_name(name))
        assert safe.split(".")[0].upper() not in {"CON", "NUL", "AUX", "LPT9"}
        assert safe[-1] not in ". "


def test_names_are_short_and_different():
    for paths, short in (
        ("", ""),
        ("x/a.mp4", "a"),
        ("x/a.mp4 x/b.mp4", "a b"),
        ("x/1/a.mp4 x/2/a.mp4 x/2/b.mp4", "1/a 2/a b"),
        ("x/a.mp4 x/a.mkv", "a.mp4 a.mkv"),
    ):
        assert name_videos(paths.split()) == short.split()
    assert len(set(name_videos(["x/a.mp4", "x/a.mkv", "x/a.mp4.mkv"]))) == 3
