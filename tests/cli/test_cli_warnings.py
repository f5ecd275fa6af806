"""What would disappoint at the end is told before any work."""

import numpy as np

from stepcut.cli import say
from stepcut.cli.learning import warn
from stepcut.cli.main import main


def test_one_video_two_videos_and_very_many_steps(tmp_path, capsys):
    np.save(tmp_path / "a.npy", np.ones((60, 4)))
    assert main(["learn", str(tmp_path), "-k", "2", "-o", str(tmp_path / "p.proc")]) == 2
    assert "is a single video" in capsys.readouterr().err
    np.save(tmp_path / "b.npy", np.ones((60, 4)))
    warn([str(tmp_path)], 500, quiet=False)
    told = capsys.readouterr().err
    assert "Use five or more" in told
    assert "-k 500: " in told
    warn([str(tmp_path)], 500, quiet=True)
    assert capsys.readouterr().err == ""


def test_what_is_said_is_one_line_and_names_keep_their_spaces(capsys):
    say("the names 'cut bread' and 'cut  bread' differ.\n  Write them alike.")
    assert (
        capsys.readouterr().err
        == "stepcut: the names 'cut bread' and 'cut  bread' differ. Write them alike.\n"
    )


def test_a_broken_feature_file_among_many_is_left_out_as_a_video_is(tmp_path, capsys):
    random = np.random.default_rng(0)
    for number in range(4):
        np.save(tmp_path / f"v{number}.npy", random.normal(size=(30, 4)))
    np.save(tmp_path / "v1.npy", np.full((30, 4), np.nan))
    (tmp_path / "v2.npy").write_bytes(b"no array")
    words = ["learn", str(tmp_path), "-k", "2", "--quiet", "-o", str(tmp_path / "p.proc")]
    assert main([*words, "--strict"]) == 2
    assert "v1.npy: row 0 contains NaN" in capsys.readouterr().err
    assert not (tmp_path / "p.proc").exists()
    assert main(words) == 2
    told = capsys.readouterr().out
    assert "2 steps from 2 videos" in told
    assert "skipped: v1:" in told
    assert "skipped: v2:" in told
    for number in (0, 3):
        (tmp_path / f"v{number}.npy").write_bytes(b"")
    assert main(words) == 2
    assert "v0.npy" in capsys.readouterr().err  # where none is left, the first is told
