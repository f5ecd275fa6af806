"""Results survive a power failure: a folder is synced after a file in it is created or renamed."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

import stepcut as sc
from stepcut.app.watching import Journal
from stepcut.features.features import save_rows
from stepcut.files import write_json
from stepcut.procedure.edits import Edits

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot sync folders")


@pytest.fixture
def events(monkeypatch):
    """The inodes of folders in which something was renamed, and of what was synced, in order."""
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
    """Something was moved into `folder`, which was synced after the last time."""
    inode = folder.stat().st_ino
    assert ("moved", inode) in events
    last = len(events) - 1 - events[::-1].index(("moved", inode))
    assert ("synced", inode) in events[last:]
    events.clear()


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
