"""The options by which features are made: the same for every command, and all of them arrive at the backbone."""

from fractions import Fraction

import numpy as np
import pytest
from store_kit import change_config

import stepcut as sc
from stepcut.cli.common import spec_of
from stepcut.cli.learning import settings
from stepcut.cli.main import main
from stepcut.cli.parser import make_parser
from stepcut.features.spec import FeatureSpec

COMMANDS = ["features", "learn"]
ALL = [
    "--backbone",
    "resnet50",
    "--weights",
    "/w.pth",
    "--layer",
    "conv3a",
    "--family",
    "v1",
    "--fps",
    "30000/1001",
]


def parse(command, *words):
    return make_parser(command).parse_args(["films/", "-o", "out", *words])


@pytest.mark.parametrize("command", COMMANDS)
def test_both_commands_take_all_of_them(command):
    assert spec_of(parse(command, *ALL)) == FeatureSpec(
        "resnet50", Fraction(30000, 1001), "/w.pth", "conv3a", "v1"
    )
    assert spec_of(parse(command)) == FeatureSpec()


@pytest.mark.parametrize("command", COMMANDS)
def test_they_arrive_at_the_backbone(command, tmp_path, capsys):
    videos = [tmp_path / "a.mp4", tmp_path / "b.mp4"]
    for video in videos:
        video.touch()
    words = [command, *map(str, videos), "-o", str(tmp_path / "out"), "--quiet"]
    assert main([*words, "--layer", "conv4c", "--family", "v1"]) == 2
    assert "layer='conv4c' does not fit efficientnet-lite0" in capsys.readouterr().err
    assert main([*words, "--backbone", "resnet50", "--weights", "absent.pth"]) == 2
    assert "absent.pth': no such file" in capsys.readouterr().err
    assert main([*words, "--backbone", "resnet51"]) == 2
    assert "did you mean 'resnet50'?" in capsys.readouterr().err
    for fps in ("0", "two", "1/0"):
        assert main([*words, "--fps", fps]) == 2
        assert f"fps='{fps}' is not a rate" in capsys.readouterr().err


def test_the_device_is_the_machines(tmp_path, capsys):
    rows = [np.repeat(np.eye(2, 4), 5, axis=0)] * 2
    sc.learn(rows, steps=2, output=tmp_path / "p.proc", restarts=2)
    # As stepcut 0.1.0 wrote it on a machine with a GPU.
    old = dict.fromkeys(("weights", "layer", "family"))
    old |= {"name": "efficientnet-lite0", "fps": "2", "device": "cuda"}
    change_config(tmp_path / "p.proc", backbone=old)
    assert sc.load(tmp_path / "p.proc").spec == FeatureSpec()
    (tmp_path / "a.mp4").touch()
    for command in ("check", "segment", "guide"):
        words = [command, str(tmp_path / "p.proc"), str(tmp_path / "a.mp4")]
        assert main([*words, "--device", "tpu"]) == 2
        assert "device='tpu' is unknown" in capsys.readouterr().err
        assert main(words) == 2
        assert "a.mp4" in capsys.readouterr().err


def test_learn_like_takes_the_spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = FeatureSpec("resnet50", Fraction(3), "w.pth", "conv3a", "v1")
    rows = [np.repeat(np.eye(2, 4), 5, axis=0)] * 2
    sc.learn(rows, steps=2, output="old.proc", restarts=2)
    change_config(tmp_path / "old.proc", backbone=spec.to_json())
    like = settings(parse("learn", "--like", "old.proc", "--layer", "conv4c"))
    assert like["backbone"] == FeatureSpec(
        "resnet50", Fraction(3), str(tmp_path / "w.pth"), "conv4c", "v1"
    )
