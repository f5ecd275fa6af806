"""stepcut learn and stepcut segment as a user calls them, on small real videos."""

import contextlib
import io
import shutil
import sys

import pytest
from errors_kit import raises
from store_kit import change_config, config_of

import stepcut as sc
from stepcut.cli.learning import settings
from stepcut.cli.main import main
from stepcut.cli.parser import make_parser
from stepcut.errors import OptionError
from stepcut.methods.inputs import read_step_count

QUICK = ["--method", "kmeans", "-k", "3", "--fps", "1", "--quiet"]


@pytest.fixture(scope="module")
def learned(kitchen, tmp_path_factory):
    """A procedure learned from the two videos, and what was said of it."""
    folder, said = tmp_path_factory.mktemp("learned"), io.StringIO()
    words = ["learn", str(kitchen / "videos"), "-o", str(folder / "a.proc"), *QUICK]
    words += ["--cache", str(folder / "cache")]
    with contextlib.redirect_stdout(said):
        assert main(words) == 0
    return folder / "a.proc", said.getvalue()


@pytest.fixture
def place(learned):
    return learned[0]


def test_learning_says_what_was_found_and_what_to_do_next(learned):
    place, out = learned
    assert "3 steps from 2 videos" in out
    assert f"stepcut view {place}" in out


def test_a_broken_video_is_left_out_named_and_told_by_the_exit_code(kitchen, tmp_path, capsys):
    (tmp_path / "broken.mp4").write_bytes(b"not a video")
    films = [str(kitchen / "videos"), str(tmp_path / "broken.mp4")]
    words = ["learn", *films, "-o", str(tmp_path / "a.proc"), *QUICK]
    assert main(words) == 2
    assert "skipped: broken" in capsys.readouterr().out
    assert main([*words, "--strict"]) == 2
    assert "broken.mp4" in capsys.readouterr().err


def test_segment_writes_what_the_suffix_says(kitchen, place, tmp_path):
    video = next((kitchen / "videos").iterdir())
    assert (
        main(["segment", str(place), str(video), "-o", str(tmp_path / "new.vtt"), "--quiet"]) == 0
    )
    assert (tmp_path / "new.vtt").read_text().startswith("WEBVTT")


def test_segment_without_a_file_prints(kitchen, place, capsys):
    assert main(["segment", str(place), str(next((kitchen / "videos").iterdir()))]) == 0
    assert "00:00:00.0" in capsys.readouterr().out


@pytest.mark.slow
def test_like_takes_the_settings_of_an_earlier_procedure(kitchen, place, tmp_path):
    words = ["learn", str(kitchen / "videos"), "--like", str(place), "--quiet", "-o"]
    assert main([*words, str(tmp_path / "b.proc")]) == 0
    one, other = (config_of(folder) for folder in (place, tmp_path / "b.proc"))
    assert one == other
    assert main([*words, str(tmp_path / "c.proc"), "-k", "2"]) == 0
    assert len(sc.load(tmp_path / "c.proc").steps) == 2


@pytest.mark.parametrize(
    ("changes", "says", "runs"),
    [
        ({"method": "evil:X"}, "(evil:X). If you trust it, add --trust", True),
        ({"settings": {"loss": {"deep": ["evil:X"]}}}, "If you trust it, add --trust", False),
        ({"settings": {"method": "evil:X"}}, "If you trust it, add --trust", False),
        ({"settings": 3}, "damaged", False),
        ({"backbone": {"name": "bad:X"}}, "bad:X", True),
    ],
)
def test_like_runs_no_code_of_a_procedure(
    changes, says, runs, kitchen, place, tmp_path, capsys, monkeypatch
):
    for name in ("evil", "bad"):
        code = f"import pathlib; pathlib.Path({str(tmp_path / 'RAN')!r}).touch()"
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    words = ["learn", str(kitchen / "videos"), "--quiet", "-o", "b.proc", "--like"]
    assert main([*words, str(_like(place, tmp_path, changes))]) == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "RAN").exists()
    if runs:
        assert main([*words, "a.proc", "--trust"]) == 2  # there is no class X
        assert (tmp_path / "RAN").exists()


def test_like_takes_over_no_paths(kitchen, place, tmp_path):
    paths = {"cache": "cache", "labels": "labels", "recipe": "recipe", "output": "out"}
    paths = {name: str(tmp_path / path) for name, path in paths.items()}
    like = _like(place, tmp_path, {"settings": {**paths, "names": ["a"], "restarts": 2}})
    args = make_parser("learn").parse_args([str(kitchen / "videos"), "--like", str(like)])
    found = settings(args)
    assert found["restarts"] == 2
    assert not found.keys() & {*paths, "names"}


def _like(place, folder, changes):
    """A copy of a procedure with a changed config."""
    like = folder / "a.proc"
    shutil.copytree(place, like)
    change_config(like, **changes)
    return like


@pytest.mark.parametrize(
    ("setting", "says"), [("restarts", "NAME=VALUE"), ("restart=2", "did you mean")]
)
def test_wrong_settings(setting, says, kitchen, tmp_path, capsys):
    words = ["learn", str(kitchen / "videos"), "-o", str(tmp_path / "a.proc"), *QUICK]
    assert main([*words, "--set", setting]) == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("text", ["many", "9-3", "0", "-3", "3-", "2.5"])
def test_a_number_of_steps_that_is_none(text):
    with raises(OptionError, "-k 8-14", setting="steps", value=text):
        read_step_count(text)


def test_settings_of_the_papers_method_by_group():
    parser = make_parser("learn")
    words = ["v", "--method", "cnc", "--as-published", "--set", "loss.weight=2", "--set"]
    words += ["cut.smoothness=5"]
    chosen = settings(parser.parse_args([*words, "--set", "dim=16"]))
    assert (chosen["train"], chosen["cut"], chosen["dim"]) == ({"weight": 2}, {"smoothness": 5}, 16)
    assert chosen["as_published"] is True
    with raises(OptionError, "'train.iterations'"):
        settings(parser.parse_args([*words, "--set", "train.iteration=5"]))
