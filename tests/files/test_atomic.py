"""Files are written atomically and synced; names of videos are matched whatever their spelling."""

import errno
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from errors_kit import raises

import stepcut as sc
from stepcut.app.watching import Journal
from stepcut.errors import AnnotationError, OptionError, OutputError
from stepcut.features.features import save_rows
from stepcut.features.video.container import blame
from stepcut.files import check_place, read_json, whole_file, write_json, write_text
from stepcut.files.names import match_videos, short_names
from stepcut.procedure.edits import Edits


def test_a_file_that_fails_half_way_leaves_the_old_one(tmp_path):
    target = tmp_path / "a.txt"
    write_text(target, "old")
    with pytest.raises(RuntimeError), whole_file(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_names_of_any_bytes_are_written_and_nan_is_no_json(tmp_path):
    record = {"ä": [1, os.fsdecode(b"caf\xe9 \xc3\xa4")]}
    write_json(tmp_path / "x" / "y.json", record)
    assert read_json(tmp_path / "x" / "y.json") == record
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "y.json", float("nan"))
    write_text(tmp_path / "a", "")
    with pytest.raises(OutputError, match="Choose another place"):
        write_text(tmp_path / "a" / "b", "")


def test_files_of_many_threads_have_the_permissions_of_any_other(tmp_path):
    """Reading the umask sets it for all threads, so files could become world-writable."""
    before, mask = sys.getswitchinterval(), os.umask(0o022)
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda number: write_text(tmp_path / str(number), ""), range(600)))
    finally:
        sys.setswitchinterval(before)
        os.umask(mask)
    assert {oct(file.stat().st_mode & 0o777) for file in tmp_path.iterdir()} == {"0o644"}


def test_what_is_flushed_may_be_written(tmp_path, monkeypatch):
    """Windows cannot flush a read-only handle."""
    fcntl, flags = pytest.importorskip("fcntl"), []

    def note(handle):
        flags.append(fcntl.fcntl(handle, fcntl.F_GETFL) & os.O_ACCMODE)

    monkeypatch.setattr(os, "fsync", note)
    write_text(tmp_path / "a", "new")
    assert flags == [os.O_RDWR, os.O_RDONLY]  # the file, then its folder


@pytest.mark.parametrize(
    ("number", "advice"), [(errno.ENOSPC, "no space"), (errno.EFBIG, "ulimit -f")]
)
def test_a_full_disk_is_said_in_a_sentence(number, advice, tmp_path):
    with raises(OutputError, advice), whole_file(tmp_path / "a"), blame(tmp_path / "film.mp4"):
        raise OSError(number, os.strerror(number))


def test_unfinished_versions_of_a_file_go_after_a_day(tmp_path):
    for name in (".a.csv.0123abcd.part", ".a.csv.89abcdef.part", ".b.csv.0123abcd.part"):
        (tmp_path / name).touch()
        if "89" not in name:
            os.utime(tmp_path / name, (0, 0))
    check_place(tmp_path / "a.csv")
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [".a.csv.89abcdef.part", ".b.csv.0123abcd.part"]


@pytest.mark.parametrize(("names", "videos", "same"), [
    (["a.mp4", "b"], ["B.MOV", "A"], {"a.mp4": "A", "b": "B.MOV"}),
    (["a", "A"], ["A", "a"], {"a": "a", "A": "A"}),  # an exact match comes first
    (["pred/a", "pred/b"], ["truth/b", "truth/a"], {"pred/a": "truth/a", "pred/b": "truth/b"}),
    (["cam1/a", "cam2/a"], ["/x/cam1/a.mp4"], {"cam1/a": "/x/cam1/a.mp4"}),
    (["a", "c2/a"], ["/x/a.mp4", "/x/c2/a.mp4"], {"a": "/x/a.mp4", "c2/a": "/x/c2/a.mp4"}),
    (["a"], ["a.mp4", "cam2/a.mp4"], {"a": "a.mp4"}),
    (["cam3/a", "c"], ["cam1/a", "cam2/a"], {}),
    (["caf\u00e9"], ["cafe\u0301.mkv"], {"caf\u00e9": "cafe\u0301.mkv"}),
])  # fmt: skip
def test_names_of_one_video_are_matched(names, videos, same):
    assert match_videos(names, videos) == same


def test_names_that_are_two_are_told_and_kept_apart():
    with raises(AnnotationError, "'cam1/a' or 'cam2/a'"):
        match_videos(["a"], ["cam1/a", "cam2/a"])
    with raises(OptionError, "'a.mp4' and 'A'"):
        match_videos(["a.mp4", "A"], ["a"], OptionError)
    assert short_names(["a.mp4", "cam2/a.mp4"]) == ["a", "cam2/a"]


unix = pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot sync folders")


@pytest.fixture
def events(monkeypatch):
    found = []

    def watch(place, name, note):
        call = getattr(os, name)

        def called(*args, **options):
            answer = call(*args, **options)
            found.extend(filter(None, [note(*args)]))
            return answer

        monkeypatch.setattr(place, called)

    def moved(_, to):
        return "moved", Path(to).parent.stat().st_ino

    def created(path, flags=0, *_):
        new = flags & os.O_CREAT and isinstance(path, str | Path)
        return moved(None, path) if new else None

    watch("os.replace", "replace", moved)
    watch("os.rename", "rename", moved)
    watch("os.fsync", "fsync", lambda handle: ("synced", os.fstat(handle).st_ino))
    watch("stepcut.app.watching.os.open", "open", created)
    return found


def check(events, folder):
    inode = folder.stat().st_ino
    assert ("moved", inode) in events
    last = len(events) - 1 - events[::-1].index(("moved", inode))
    assert ("synced", inode) in events[last:]
    events.clear()


@unix
def test_a_folder_is_synced_after_every_rename(tmp_path, events):
    write_json(tmp_path / "a.json", {})
    check(events, tmp_path)
    (tmp_path / "cache").mkdir()
    save_rows(tmp_path / "cache" / "x.safetensors", np.zeros((4, 2), np.float32), {"rate": "1"})
    check(events, tmp_path / "cache")
    (tmp_path / "state").mkdir(0o700)
    with Journal(tmp_path / "state" / "watch.jsonl") as journal:
        check(events, tmp_path / "state")
        journal.write({"stamp": ["a.mp4", 1, 2], "verdict": "fine"})
        assert events == [("synced", os.fstat(journal.file.fileno()).st_ino)]


@unix
def test_a_procedure_is_synced_after_every_change(tmp_path, events):
    place = tmp_path / "x.proc"
    rows = [np.random.default_rng(n).normal(size=(20, 4)) for n in range(3)]
    sc.learn(rows, steps=2, output=place, restarts=1)
    check(events, tmp_path)
    sc.learn(rows, steps=3, output=place, restarts=1)
    names = [place / "revisions", place]
    for folder in names:
        check(list(events), folder)
    events.clear()
    Edits(place).do({"do": "rename", "step": 0, "name": "pour"})
    assert events == [("synced", (place / "events.jsonl").stat().st_ino)]
