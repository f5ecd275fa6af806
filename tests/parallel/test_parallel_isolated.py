"""New processes run no Python files of the current folder, which may contain downloads."""

import subprocess
import sys

import pytest

HIDDEN = ("struct", "socket", "pickle", "filelock", "av", "numpy", "scipy", "msgspec", "stepcut")
"""Modules that a process imports, early or late."""

VIDEO = """
from stepcut.features.video.container import probe
print(probe(sys.argv[2]).frames)
"""
WORKERS = """
from stepcut.parallel.engine import Local
engine = Local(1)
assert engine.map(abs, [-3]) == [3]
engine.close()
"""
RAY = """
from stepcut.parallel.engine import Ray
engine = Ray(1)
assert engine.map(abs, [-3]) == [3]
engine.close()
"""
JOBS = """
import time
from pathlib import Path
from stepcut.app.jobs import Jobs
jobs = Jobs(Path(sys.argv[2]).parent)
job = jobs.start("copies", {"videos": [sys.argv[2]], "kind": "mp4"}, Path(sys.argv[2]), "")
end = time.monotonic() + 100
while job.state["state"] in ("waiting", "running") and time.monotonic() < end:
    time.sleep(0.1)
assert job.state["state"] == "done", job.state
jobs.close()
"""


@pytest.fixture
def hostile(tmp_path):
    """A folder of files with names of modules, which all leave a mark."""
    folder = tmp_path / "downloads"
    folder.mkdir()
    for name in HIDDEN:
        mark = f"open({str(folder / 'RAN')!r}, 'a').write(__name__)\nraise SystemExit(9)\n"
        (folder / f"{name}.py").write_text(mark)
    return folder


@pytest.mark.parametrize(
    "code",
    [
        VIDEO,
        WORKERS,
        pytest.param(JOBS, marks=pytest.mark.slow),
        pytest.param(RAY, marks=pytest.mark.ray),
    ],
    ids=["video", "workers", "jobs", "ray"],
)
def test_no_process_runs_files_of_the_current_folder(code, hostile, kitchen, tmp_path):
    video = str(next((kitchen / "videos").glob("*.mp4")))
    # The parent has all that it needs itself before it goes there, and looks there for modules.
    preload = "import os, sys, stepcut.app.jobs, stepcut.features.video.container\n"
    start = preload + "assert not sys.path[0]; os.chdir(sys.argv[1])\n"
    command = [sys.executable, "-c", start + code, str(hostile), video]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert not (hostile / "RAN").exists(), (hostile / "RAN").read_text()
    assert run.returncode == 0, run.stderr


def test_the_module_form_of_the_command_runs_no_files_of_the_current_folder(hostile):
    # Python was asked to run the first, and loads the others before.
    for name in ("stepcut", "struct", "socket", "pickle"):
        (hostile / f"{name}.py").unlink()
    command = [sys.executable, "-m", "stepcut", "learn", "--help"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=hostile)
    assert (run.returncode, (hostile / "RAN").exists()) == (0, False), run.stderr
