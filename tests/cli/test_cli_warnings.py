"""What would disappoint at the end is told before any work."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stepcut.cli import say
from stepcut.cli.learn import warn
from stepcut.cli.main import main


def test_one_video_two_videos_and_very_many_steps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "a.npy", np.ones((60, 4)))
    assert main(["learn", str(tmp_path), "-k", "2", "-o", str(tmp_path / "p.proc")]) == 2
    assert "is one video; steps are found by what videos share" in capsys.readouterr().err
    np.save(tmp_path / "b.npy", np.ones((60, 4)))
    warn([str(tmp_path)], 500, quiet=False)
    told = capsys.readouterr().err
    assert "two videos: what they share may be chance" in told
    assert "-k 500: procedures have 5 to 20 steps" in told
    warn([str(tmp_path)], 500, quiet=True)
    assert capsys.readouterr().err == ""


def test_what_is_said_is_one_line_and_names_keep_their_spaces(capsys: pytest.CaptureFixture[str]) -> None:
    say("the names 'cut bread' and 'cut  bread' differ.\n  Write them alike.")
    assert capsys.readouterr().err == "stepcut: the names 'cut bread' and 'cut  bread' differ. Write them alike.\n"
