"""The options by which videos are seen: the same for every command, and all of them arrive at the backbone."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

import numpy as np
import pytest

import stepcut as sc
from stepcut.cli.feature_options import BACKBONE, said
from stepcut.cli.learn import settings
from stepcut.cli.main import main
from stepcut.features.read import recipe_of
from stepcut.files.atomic import read_json, write_json
from stepcut.procedure.learning import how_seen

COMMANDS = ["features", "learn"]
ALL = {"backbone": "resnet50", "weights": "w.pth", "layer": "conv3a", "family": "v1", "device": "cpu"}


def parse(command: str, *words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    importlib.import_module(f"stepcut.cli.{command}").add_arguments(parser)
    return parser.parse_args(["films/", "-o", "out", *words])


@pytest.mark.parametrize("command", COMMANDS)
def test_both_commands_take_all_of_them(command: str) -> None:
    words = [word for name, value in ALL.items() for word in (f"--{name}", value)]
    args = parse(command, *words, "--fps", "30000/1001", "--cache", "c")
    assert said(args, *BACKBONE, "fps", "cache") == {**ALL, "fps": "30000/1001", "cache": "c"}
    assert said(parse(command), *BACKBONE, "fps", "cache") == {}  # the functions have the defaults


@pytest.mark.parametrize("command", COMMANDS)
def test_they_arrive_at_the_backbone(command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.mp4").touch()
    words = [command, str(tmp_path / "a.mp4"), "-o", str(tmp_path / "out"), "--quiet"]
    assert main([*words, "--layer", "conv4c", "--family", "v1"]) == 2
    assert "layer='conv4c', family='v1': efficientnet-lite0 has no such choice" in capsys.readouterr().err
    assert main([*words, "--backbone", "resnet50", "--weights", "absent.pth"]) == 2
    assert "absent.pth': no such file" in capsys.readouterr().err
    assert main([*words, "--backbone", "resnet51"]) == 2
    assert "did you mean 'resnet50'?" in capsys.readouterr().err
    for fps in ("0", "two", "1/0"):
        assert main([*words, "--fps", fps]) == 2
        assert f"fps='{fps}' is not a rate" in capsys.readouterr().err


def test_a_procedure_keeps_how_its_videos_were_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen = how_seen("resnet50", "2", "w.pth", "conv3a", "v1", "cpu")
    assert seen["weights"] == str(tmp_path / "w.pth")  # whoever opens it elsewhere
    assert recipe_of(seen) == {**ALL, "weights": str(tmp_path / "w.pth")}
    assert how_seen("resnet50", 2, "s3://shop/w.pth", None, None, "cpu")["weights"] == "s3://shop/w.pth"

    rows = [np.repeat(np.eye(2, 4), 5, axis=0)] * 2
    sc.learn(rows, steps=2, method="cnc", train={"steps": 2}, output="old.proc")
    config = read_json(tmp_path / "old.proc" / "config.json")
    write_json(tmp_path / "old.proc" / "config.json", {**config, "backbone": seen})
    like = settings(parse("learn", "--like", "old.proc", "--layer", "conv4c"))
    assert {name: like[name] for name in (*BACKBONE, "fps")} == {**recipe_of(seen), "layer": "conv4c", "fps": "2"}
