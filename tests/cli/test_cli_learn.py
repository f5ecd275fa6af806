"""stepcut learn, features and segment as a user calls them, on small real videos."""

import contextlib
import io
import shutil
import sys
from fractions import Fraction

import numpy as np
import pytest
from errors_kit import raises
from store_kit import change_config, config_of

import stepcut as sc
from stepcut.cli.common import spec_of
from stepcut.cli.learning import settings, warn
from stepcut.cli.main import main, make_parser
from stepcut.errors import OptionError
from stepcut.features.spec import FeatureSpec
from stepcut.methods.inputs import read_step_count

QUICK = ["--method", "kmeans", "-k", "3", "--fps", "1", "--quiet"]
STEPS = [np.repeat(np.eye(2, 4), 5, axis=0)] * 2


@pytest.fixture(scope="module")
def learned(kitchen, tmp_path_factory):
    folder, said = tmp_path_factory.mktemp("learned"), io.StringIO()
    words = ["learn", str(kitchen / "videos"), "-o", str(folder / "a.proc"), *QUICK]
    with contextlib.redirect_stdout(said):
        assert main([*words, "--cache", str(folder / "cache")]) == 0
    return folder / "a.proc", said.getvalue()


@pytest.fixture
def place(learned):
    return learned[0]


def test_learning_says_what_was_found_and_segment_what_it_saw(learned, kitchen, tmp_path, run):
    place, out = learned
    assert "3 steps from 2 videos" in out
    assert f"stepcut view {place}" in out
    words = ["segment", str(place), str(next((kitchen / "videos").iterdir()))]
    assert "00:00:00.0" in run(*words).out
    run(*words, "-o", tmp_path / "new.vtt", "--quiet")
    assert (tmp_path / "new.vtt").read_text().startswith("WEBVTT")


def test_a_broken_video_is_left_out_named_and_told_by_the_exit_code(kitchen, place, tmp_path, run):
    (tmp_path / "broken.mp4").write_bytes(b"not a video")
    words = ["learn", kitchen / "videos", tmp_path / "broken.mp4", "-o", tmp_path / "a.proc"]
    words += [*QUICK, "--cache", place.parent / "cache"]
    assert "skipped: broken" in run(*words, code=2).out
    assert "broken.mp4" in run(*words, "--strict", code=2).err


def test_a_broken_feature_file_among_many_is_left_out_as_a_video_is(tmp_path, run):
    random = np.random.default_rng(0)
    for number in range(4):
        np.save(tmp_path / f"v{number}.npy", random.normal(size=(30, 4)))
    np.save(tmp_path / "v1.npy", np.full((30, 4), np.nan))
    (tmp_path / "v2.npy").write_bytes(b"no array")
    words = ["learn", str(tmp_path), "-k", "2", "--quiet", "-o", str(tmp_path / "p.proc")]
    assert "v1.npy: row 0 contains NaN" in run(*words, "--strict", code=2).err
    assert not (tmp_path / "p.proc").exists()
    told = run(*words, code=2).out
    assert all(word in told for word in ("2 steps from 2 videos", "skipped: v1:", "skipped: v2:"))
    for number in (0, 3):
        (tmp_path / f"v{number}.npy").write_bytes(b"")
    assert "v0.npy" in run(*words, code=2).err  # where none is left, the first is told


def test_one_video_two_videos_and_very_many_steps(tmp_path, run, capsys):
    np.save(tmp_path / "a.npy", np.ones((60, 4)))
    told = run("learn", tmp_path, "-k", "2", "-o", tmp_path / "p.proc", code=2).err
    assert "is a single video" in told
    np.save(tmp_path / "b.npy", np.ones((60, 4)))
    warn([str(tmp_path)], 500, quiet=False)
    told = capsys.readouterr().err
    assert "Use five or more" in told
    assert "-k 500: " in told
    warn([str(tmp_path)], 500, quiet=True)
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_like_takes_the_settings_of_an_earlier_procedure(kitchen, place, tmp_path):
    words = ["learn", str(kitchen / "videos"), "--like", str(place), "--quiet", "-o"]
    assert main([*words, str(tmp_path / "b.proc")]) == 0
    assert config_of(place) == config_of(tmp_path / "b.proc")
    assert main([*words, str(tmp_path / "c.proc"), "-k", "2"]) == 0
    assert len(sc.load(tmp_path / "c.proc").steps) == 2


@pytest.mark.parametrize(("changes", "says", "runs"), [
    ({"method": "evil:X"}, "(evil:X). If you trust it, add --trust", True),
    ({"settings": {"loss": {"deep": ["evil:X"]}}}, "If you trust it, add --trust", False),
    ({"settings": {"method": "evil:X"}}, "If you trust it, add --trust", False),
    ({"settings": 3}, "damaged", False),
    ({"backbone": {"name": "bad:X"}}, "bad:X", True),
])  # fmt: skip
def test_like_runs_no_code_of_a_procedure(
    changes, says, runs, kitchen, place, tmp_path, run, monkeypatch
):
    for name in ("evil", "bad"):
        code = f"import pathlib; pathlib.Path({str(tmp_path / 'RAN')!r}).touch()"
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    words = ["learn", str(kitchen / "videos"), "--quiet", "-o", "b.proc", "--like"]
    assert says in run(*words, _like(place, tmp_path, changes), code=2).err
    assert not (tmp_path / "RAN").exists()
    if runs:
        run(*words, "a.proc", "--trust", code=2)  # there is no class X
        assert (tmp_path / "RAN").exists()


def test_like_takes_over_no_paths(place, tmp_path):
    paths = {"cache": "cache", "labels": "labels", "recipe": "recipe", "output": "out"}
    paths = {name: str(tmp_path / path) for name, path in paths.items()}
    like = _like(place, tmp_path, {"settings": {**paths, "names": ["a"], "restarts": 2}})
    found = settings(parse("learn", "--like", str(like)))
    assert found["restarts"] == 2
    for seed in ("0", "5"):
        chosen = settings(parse("learn", "--like", str(like), "--seed", seed))
        assert chosen["seed"] == int(seed)
    assert not found.keys() & {*paths, "names"}


def _like(place, folder, changes):
    like = folder / "a.proc"
    shutil.copytree(place, like)
    change_config(like, **changes)
    return like


@pytest.mark.parametrize(
    ("setting", "says"), [("restarts", "NAME=VALUE"), ("restart=2", "did you mean")]
)
def test_wrong_settings(setting, says, kitchen, tmp_path, run):
    words = ["learn", str(kitchen / "videos"), "-o", str(tmp_path / "a.proc"), *QUICK]
    assert says in run(*words, "--set", setting, code=2).err


@pytest.mark.parametrize("text", ["many", "9-3", "0", "-3", "3-", "2.5"])
def test_a_number_of_steps_that_is_none(text):
    with raises(OptionError, "-k 8-14", setting="steps", value=text):
        read_step_count(text)


def test_settings_of_the_papers_method_by_group():
    words = ["--method", "cnc", "--as-published", "--set", "loss.weight=2", "cut.smoothness=5"]
    chosen = settings(parse("learn", *words, "--set", "dim=16"))
    assert (chosen["train"], chosen["cut"], chosen["dim"]) == ({"weight": 2}, {"smoothness": 5}, 16)
    assert chosen["as_published"] is True
    with raises(OptionError, "'train.iterations'"):
        settings(parse("learn", *words, "--set", "train.iteration=5"))


COMMANDS = ["features", "learn"]
ALL = [
    "--backbone", "resnet50", "--weights", "/w.pth", "--layer", "conv3a", "--family", "v1",
    "--fps", "30000/1001",
]  # fmt: skip


def parse(command, *words):
    return make_parser(command).parse_args(["films/", "-o", "out", *words])


@pytest.mark.parametrize("command", COMMANDS)
def test_the_options_of_features_arrive_at_the_backbone(command, tmp_path, run):
    made = FeatureSpec("resnet50", Fraction(30000, 1001), "/w.pth", "conv3a", "v1")
    assert (spec_of(parse(command, *ALL)), spec_of(parse(command))) == (made, FeatureSpec())
    videos = [tmp_path / "a.mp4", tmp_path / "b.mp4"]
    for video in videos:
        video.touch()
    words = [command, *map(str, videos), "-o", str(tmp_path / "out"), "--quiet"]
    for options, told in (
        ("--layer conv4c --family v1", "layer='conv4c' does not fit efficientnet-lite0"),
        ("--backbone resnet50 --weights absent.pth", "absent.pth': no such file"),
        ("--backbone resnet51", "did you mean 'resnet50'?"),
        *((f"--fps {fps}", f"fps='{fps}' is not a rate") for fps in ("0", "two", "1/0")),
    ):
        assert told in run(*words, *options.split(), code=2).err


def test_the_device_is_the_machines(tmp_path, run):
    sc.learn(STEPS, steps=2, output=tmp_path / "p.proc", restarts=2)
    # As stepcut 0.1.0 wrote it on a machine with a GPU.
    old = dict.fromkeys(("weights", "layer", "family"))
    old |= {"name": "efficientnet-lite0", "fps": "2", "device": "cuda"}
    change_config(tmp_path / "p.proc", backbone=old)
    assert sc.load(tmp_path / "p.proc").spec == FeatureSpec()
    (tmp_path / "a.mp4").touch()
    for command in ("check", "segment", "guide"):
        words = [command, str(tmp_path / "p.proc"), str(tmp_path / "a.mp4")]
        assert "device='tpu' is unknown" in run(*words, "--device", "tpu", code=2).err
        assert "a.mp4" in run(*words, code=2).err


def test_learn_like_takes_the_spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = FeatureSpec("resnet50", Fraction(3), "w.pth", "conv3a", "v1")
    sc.learn(STEPS, steps=2, output="old.proc", restarts=2)
    change_config(tmp_path / "old.proc", backbone=spec.to_json())
    like = settings(parse("learn", "--like", "old.proc", "--layer", "conv4c"))
    weights = str(tmp_path / "w.pth")
    assert like["backbone"] == FeatureSpec("resnet50", Fraction(3), weights, "conv4c", "v1")
