"""Extraction that is killed, crashes or runs out of disk, for the tests of workers and of Ray."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from full_disk import run_as_root
from parallel_kit import Logged, seen

from stepcut.features.extract import extract
from stepcut.features.features import read_rows


def stored(cache):
    files = (cache / "features").glob("[!.]*")
    return {file.name: file.read_bytes() for file in files}


class Crash(Logged):
    def extract(self, frames):
        if frames.max() < 60:
            os.kill(os.getpid(), signal.SIGSEGV)
        return super().extract(frames)


DRIVER = """
import sys
sys.path[:0] = sys.argv[1:3]
from pathlib import Path
from parallel_kit import Logged
from stepcut.features.extract import extract
from stepcut.parallel.engine import ENGINES
if __name__ == "__main__":
    engine = ENGINES[sys.argv[5]](workers=2)
    backbone = Logged(Path(sys.argv[4]) / "log", wait=0.3)
    extract(sys.argv[3], backbone, fps=5, cache=sys.argv[4], engine=engine)
"""


def kill_and_run_again(films, folder, name):
    """Kill the driver during work: its workers end too, and the next run resumes."""
    script = folder / "driver.py"
    script.write_text(DRIVER)
    here = Path(__file__).parent
    words = [sys.executable, str(script), str(here), str(here), str(films), str(folder), name]
    driver = subprocess.Popen(words)
    log = folder / "log"
    limit = time.monotonic() + 120
    while seen(log) < 24 and time.monotonic() < limit:
        time.sleep(0.02)
    driver.kill()
    driver.wait()
    before, quiet = seen(log), time.monotonic()
    while time.monotonic() < quiet + 1.5:  # a cluster takes a second or two to notice
        time.sleep(0.1)
        if seen(log) != before:
            before, quiet = seen(log), time.monotonic()
    finished = 0
    for file in (folder / "features").iterdir():
        if not file.name.startswith("."):  # partial files of a dead worker
            finished += len(read_rows(file)[0])
    subprocess.run(words, check=True)
    clean, _ = extract(films, Logged(folder / "other"), fps=5, cache=folder / "clean")
    rows = sum(len(f.rows) for f in clean)
    assert stored(folder / "clean") == stored(folder)
    assert 0 < before < rows
    assert seen(log) - before == rows - finished  # stored features are not computed again


FULL = """
import json, subprocess, sys
sys.path[:0] = sys.argv[1:3]
from pathlib import Path
from parallel_kit import Wide, seen
from stepcut.errors import OutputError
from stepcut.parallel.engine import ENGINES
from stepcut.features.extract import extract
from stepcut.features.features import read_rows
if __name__ == "__main__":
    films, folder = sys.argv[3], Path(sys.argv[4])
    disk, log, said = folder / "disk", folder / "log", ""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=10m", "none", disk], check=True)
    engine = ENGINES[sys.argv[5]](workers=2)
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


def fill_the_disk(films, folder, name):
    """Extract 230 kB onto a disk of 200 kB: the run stops with an error, and resumes with space."""
    (folder / "disk").mkdir()
    (folder / "full.py").write_text(FULL)
    here = Path(__file__).parent
    words = [sys.executable, folder / "full.py", here, here, films, folder, name]
    ran = run_as_root(words)
    assert ran.returncode == 0, ran.stderr
    told = json.loads((folder / "told.json").read_text())
    assert "no space left on the disk. Free some, then run the same command again" in told["said"]
    assert told["failures"] == 0  # no video is reported as failed
    assert 0 < told["kept"] < told["rows"]
    assert told["again"] == told["rows"] - told["kept"]  # finished features are kept
