"""The demo: a short story, and commands that run as printed."""

import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stepcut.cli.common import this_program
from stepcut.cli.demo import draw_flaws, offers
from stepcut.toy import STEPS, write_script

SOURCE = Path(__file__).resolve().parents[2] / "src"


@pytest.mark.parametrize("seed", range(3))
def test_each_kind_of_mistake_is_drawn_once_and_the_repeat_moves_no_other_step(seed):
    drawn = draw_flaws(seed)
    flaws = [write_script(seed, flaw=flaw).flaws[0] for flaw in drawn]
    assert [flaw.kind for flaw in flaws] == ["skip", "swap", "repeat"]
    done = write_script(seed, shuffle=0, flaw=drawn[-1]).timeline.sequence()
    assert tuple(dict.fromkeys(done)) == STEPS


def test_offered_commands_keep_odd_file_names_whole():
    place, video = Path("my kitchen/k.proc"), Path("my kitchen/it's.mp4")
    view, check, segment = (shlex.split(line, comments=True) for line in offers(place, video))
    assert view[-2:] == ["view", str(place)]
    assert check[-3:] == ["check", str(place), str(video)]
    assert segment[-2:] == ["-o", "my kitchen/new.eaf"]


def test_stepcut_is_called_as_it_was_started(tmp_path, monkeypatch):
    program = tmp_path / "my venv" / "bin" / "stepcut"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["my venv/bin/stepcut"])
    assert shlex.split(this_program()) == ["my venv/bin/stepcut"]
    monkeypatch.setattr(sys, "argv", [str(program)])
    assert shlex.split(this_program()) == ["my venv/bin/stepcut"]
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    assert this_program() == "stepcut"
    monkeypatch.setattr(sys, "argv", ["/somewhere/stepcut/__main__.py"])
    assert shlex.split(this_program()) == [sys.executable, "-m", "stepcut"]


@pytest.mark.slow
def test_the_story_is_short_and_every_printed_command_runs(tmp_path):
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "STEPCUT_CACHE": str(tmp_path / "cache")}
    words = [sys.executable, "-m", "stepcut", "demo", "--quiet"]
    told = subprocess.run(
        words, cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert len(told) <= 25
    assert (tmp_path / "demo" / "report.html").stat().st_size > 100_000
    commands = [line.strip() for line in told if line.strip().startswith(sys.executable)]
    view, check, segment = commands
    assert subprocess.run(check, shell=True, cwd=tmp_path, env=env).returncode == 1
    assert subprocess.run(segment, shell=True, cwd=tmp_path, env=env).returncode == 0
    assert "wash dish" in (tmp_path / "demo" / "new.eaf").read_text(encoding="utf-8")
    shown = subprocess.Popen(
        shlex.split(view, comments=True), cwd=tmp_path, env={**env, "BROWSER": "true"}
    )
    try:
        time.sleep(5)
        assert shown.poll() is None  # it serves until it is stopped
    finally:
        shown.terminate()
        shown.wait(timeout=30)
