"""Extraction by workers: the very features of one process, pieces joined, deaths survived, nothing done twice."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scale_kit import Logged, pids, seen
from see_films import make_film

from stepcut.errors import FeatureError, VideoError
from stepcut.progress import Event
from stepcut.scale.local import Local
from stepcut.scale.parts import Carried, compute_piece, join, split
from stepcut.see.features import extract
from stepcut.see.jobs import look
from stepcut.see.store import read_rows


@pytest.fixture
def engine() -> Iterator[Local]:
    engine = Local(2, piece=3.0)
    yield engine
    engine.close()


def stored(cache: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (cache / "features").iterdir() if file.name[0] != "."}


def test_workers_give_the_features_of_one_process(films: Path, tmp_path: Path, engine: Local) -> None:
    here, there = Logged(tmp_path / "here"), Logged(tmp_path / "there")
    one, _ = extract(films, here, fps=5, cache=tmp_path / "one")
    events: list[Event] = []
    many, failures = extract(films, there, fps=5, cache=tmp_path / "many", engine=engine, progress=events.append)
    assert failures == []
    assert [(f.name, f.path, f.rate, f.duration) for f in one] == [(f.name, f.path, f.rate, f.duration) for f in many]
    assert stored(tmp_path / "one") == stored(tmp_path / "many")  # v3, 12 s, went in pieces of 3 s
    rows = sum(len(f.rows) for f in one)
    assert seen(tmp_path / "here") == seen(tmp_path / "there") == rows
    assert os.getpid() not in pids(tmp_path / "there")
    assert (events[-1].done, events[-1].total, events[-1].finished) == (rows, rows, True)
    extract(films, there, fps=5, cache=tmp_path / "many", engine=engine)
    assert seen(tmp_path / "there") == rows  # a second run computes nothing


def test_the_longest_videos_come_first(films: Path, tmp_path: Path) -> None:
    engine, events = Local(1), list[Event]()
    try:
        found, _ = extract(
            films, Logged(tmp_path / "log"), fps=5, cache=tmp_path, engine=engine, progress=events.append
        )
    finally:
        engine.close()
    assert list(dict.fromkeys(event.item for event in events if event.item)) == ["v3", "v2", "v1", "v0"]
    assert [one.name for one in found] == ["v0", "v1", "v2", "v3"]  # the answers stay in the order of the videos


@pytest.mark.parametrize("film", [{"g": "10", "bf": "2"}, {"g": "250"}, {"g": "7", "open-gop": "1"}])
def test_pieces_are_equal_to_one_pass(tmp_path: Path, film: dict[str, str]) -> None:
    path = make_film(tmp_path / "film.mp4", frames=200, **film)
    backbone = Logged(tmp_path / "log")
    one, _ = extract(path, backbone, fps=10, cache=tmp_path / "one")
    cache = tmp_path / "pieces"
    job = look(("film", path), backbone.fingerprint, Fraction(10), cache, backbone.batch, piece=1.5)
    whole = split(job, Fraction(10), Carried(backbone.fingerprint, pickle.dumps(backbone)))
    assert (len(whole.pieces) > 3) == (film["g"] != "250")
    for piece in whole.pieces or (whole.piece,):
        compute_piece(piece)
    assert join(whole) == len(one[0].rows) == 100
    assert stored(cache) == stored(tmp_path / "one")


def test_a_damaged_video_is_seen_in_one_pass(tmp_path: Path, engine: Local) -> None:
    good = make_film(tmp_path / "good.mkv", frames=240, g="10")
    data = bytearray(good.read_bytes())
    for at in range(len(data) // 2, len(data) // 2 + 400, 3):
        data[at] ^= 0xFF
    (tmp_path / "bad.mkv").write_bytes(data)
    backbone = Logged(tmp_path / "log")
    one, failed_one = extract(tmp_path / "bad.mkv", backbone, fps=5, cache=tmp_path / "one")
    many, failed_many = extract(tmp_path / "bad.mkv", backbone, fps=5, cache=tmp_path / "many", engine=engine)
    assert [str(f) for f in failed_one] == [str(f) for f in failed_many]
    assert [f.corrupt for f in one] == [f.corrupt for f in many]
    assert stored(tmp_path / "one") == stored(tmp_path / "many")


def test_a_broken_video_is_named_and_strict_stops(films: Path, tmp_path: Path, engine: Local) -> None:
    (tmp_path / "empty.mp4").touch()
    short = make_film(tmp_path / "short.mp4", frames=200, muxer={"movflags": "faststart"}, g="10")
    short.write_bytes(short.read_bytes()[: short.stat().st_size // 2])
    videos = [films / "v0.mp4", tmp_path / "empty.mp4", short]
    backbone = Logged(tmp_path / "log")
    features, failures = extract(videos, backbone, fps=5, cache=tmp_path / "cache", engine=engine)
    assert [f.name for f in features] == ["v0"]
    assert [f.name for f in failures] == ["empty", "short"]
    assert "no frame after" in str(failures[1])
    assert len(stored(tmp_path / "cache")) == 1
    with pytest.raises(VideoError, match="the file is empty"):
        extract(videos, backbone, fps=5, cache=tmp_path / "cache", engine=engine, strict=True)


class Crash(Logged):
    """Dies by a segmentation fault on the film that is all dark."""

    def extract(self, frames: NDArray[np.uint8]) -> NDArray[Any]:
        if frames.max() < 60:
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().extract(frames)


def test_a_video_that_crashes_its_worker_is_named(films: Path, tmp_path: Path, engine: Local) -> None:
    dark = make_film(tmp_path / "dark.mp4", frames=1, rate=1)
    features, failures = extract(
        [films / "v0.mp4", dark, films / "v1.mp4"], Crash(tmp_path / "log"), fps=5, cache=tmp_path, engine=engine
    )
    assert [f.name for f in features] == ["v0", "v1"]
    assert f"{dark}: the worker process died by SIGSEGV, 2 times. The video crashes its decoder" in str(failures[0])


def test_a_worker_killed_in_the_middle_costs_one_piece(films: Path, tmp_path: Path, engine: Local) -> None:
    backbone = Logged(tmp_path / "log", die=tmp_path / "died")
    extract(films, Logged(tmp_path / "other"), fps=5, cache=tmp_path / "clean")
    features, failures = extract(films, backbone, fps=5, cache=tmp_path / "cache", engine=engine)
    assert failures == []
    assert (tmp_path / "died").exists()
    assert stored(tmp_path / "clean") == stored(tmp_path / "cache")
    assert seen(tmp_path / "log") == sum(len(f.rows) for f in features)  # it died before its first batch


DRIVER = """
import sys
sys.path[:0] = sys.argv[1:3]
from pathlib import Path
from scale_kit import Logged
from stepcut.scale import make_engine
from stepcut.see.features import extract
if __name__ == "__main__":
    engine = make_engine(sys.argv[5], workers=2, piece=1.0)
    extract(sys.argv[3], Logged(Path(sys.argv[4]) / "log", wait=0.1), fps=5, cache=sys.argv[4], engine=engine)
"""


def kill_and_run_again(films: Path, folder: Path, name: str) -> None:
    """Kill the driver in mid-work; its workers go with it, and the next run computes what was not finished only."""
    script = folder / "driver.py"
    script.write_text(DRIVER)
    here = Path(__file__).parent
    words = [sys.executable, str(script), str(here), str(here.parent / "see"), str(films), str(folder), name]
    driver = subprocess.Popen(words)
    log = folder / "log"
    limit = time.monotonic() + 120
    while seen(log) < 24 and time.monotonic() < limit:
        time.sleep(0.02)
    driver.kill()
    driver.wait()
    time.sleep(1.0)
    before = seen(log)
    finished = 0
    for file in (folder / "features").iterdir():
        if not file.name.startswith(".."):  # what a dead worker left half written
            finished += len(read_rows(file)[0])
    time.sleep(0.5)
    assert seen(log) == before  # no worker goes on alone
    subprocess.run(words, check=True)
    clean, _ = extract(films, Logged(folder / "other"), fps=5, cache=folder / "clean")
    rows = sum(len(f.rows) for f in clean)
    assert stored(folder / "clean") == stored(folder)
    assert 0 < before < rows
    assert seen(log) - before == rows - finished  # what was stored is not computed again


def test_killing_the_driver(films: Path, tmp_path: Path) -> None:
    kill_and_run_again(films, tmp_path, "local")


FULL = """
import json, subprocess, sys
sys.path[:0] = sys.argv[1:3]
from pathlib import Path
from scale_kit import Wide, seen
from stepcut.errors import OutputError
from stepcut.scale import make_engine
from stepcut.see.features import extract
from stepcut.see.store import read_rows
if __name__ == "__main__":
    films, folder = sys.argv[3], Path(sys.argv[4])
    disk, log, said = folder / "disk", folder / "log", ""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=10m", "none", disk], check=True)
    engine = make_engine(sys.argv[5], workers=2)
    small = min(Path(films).iterdir(), key=lambda film: film.stat().st_size)
    extract([small], Wide(log), fps=5, cache=disk, engine=engine)  # one is finished before the disk is full
    subprocess.run(["mount", "-o", "remount,size=200k", disk], check=True)
    try:
        extract(films, Wide(log), fps=5, cache=disk, engine=engine)
    except OutputError as error:
        said = str(error)
    kept = sum(len(read_rows(file)[0]) for file in (disk / "features").iterdir() if file.name[0] != ".")
    first = seen(log)
    subprocess.run(["mount", "-o", "remount,size=10m", disk], check=True)
    features, failures = extract(films, Wide(log), fps=5, cache=disk, engine=engine)
    engine.close()
    rows = sum(len(one.rows) for one in features)
    told = {"said": said, "kept": kept, "again": seen(log) - first, "rows": rows, "failures": len(failures)}
    (folder / "told.json").write_text(json.dumps(told))
"""


def fill_the_disk(films: Path, folder: Path, name: str) -> None:
    """A disk of 200 kB, where the films' features take 230: the work stops and says why; with room it goes on."""
    may = subprocess.run(["unshare", "--map-root-user", "--mount", "true"], capture_output=True, text=True)
    if may.returncode:
        pytest.skip(f"needs a disk of its own, and this machine lets nobody mount one: {may.stderr}")
    (folder / "disk").mkdir()
    (folder / "full.py").write_text(FULL)
    here = Path(__file__).parent
    words = [sys.executable, folder / "full.py", here, here.parent / "see", films, folder, name]
    ran = subprocess.run(["unshare", "--map-root-user", "--mount", *words], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    told = json.loads((folder / "told.json").read_text())
    assert "no space left on the disk. Free some, then run the same command again" in told["said"]
    assert told["failures"] == 0  # no video is blamed
    assert 0 < told["kept"] < told["rows"]
    assert told["again"] == told["rows"] - told["kept"]  # what was finished is kept, and not computed again


def test_a_full_disk(films: Path, tmp_path: Path) -> None:
    fill_the_disk(films, tmp_path, "local")


def test_a_worker_with_another_backbone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FeatureError, match="this worker's backbone is 'logged 1', the driver's 'logged 2'"):
        Carried("logged 2", pickle.dumps(Logged(tmp_path))).open()
