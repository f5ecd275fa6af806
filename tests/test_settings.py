"""One schema: a wrong value of any setting is refused alike in Python, CLI, HTTP and config files."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from errors_kit import raises
from show_kit import Served
from store_kit import revision

import stepcut as sc
from stepcut.app.server import Running
from stepcut.app.workspace import Workspace
from stepcut.errors import OptionError, ProcedureError
from stepcut.methods import METHODS, StepCut
from stepcut.procedure.learning import LearnOptions, described_settings
from stepcut.settings import build, settings_of
from stepcut.testing import made_up_videos


def wrong_values(setting):
    if setting.types == (bool,):
        return ["maybe", 1]
    if setting.choices:
        return [setting.choices[0] + "x"]
    if not setting.allowed.startswith("a "):
        return []
    found = ["x", True, [1], float("nan")]
    if setting.types == (int,):
        found.append(1.5)
    if np.isfinite(setting.low):
        found.append(setting.low if setting.above else setting.low - 1)
    return [*found, setting.high + 1] if np.isfinite(setting.high) else found


EVERY = [(group, *one) for group, some in described_settings().items() for one in some.items()]
WRONG = [(group, name, value) for group, name, one in EVERY for value in wrong_values(one)]
OURS = [(name, value) for group, name, value in WRONG if group == "stepcut"]


def make(group, chosen):
    if group == "learn":
        return LearnOptions(**chosen)
    if group == "features":
        return sc.FeatureSpec(**chosen)
    method = build(METHODS[group], METHODS[group].arrange(chosen))
    method.steps = 3
    return method.fit(made_up_videos(2))


@pytest.mark.parametrize("group", described_settings())
def test_python_refuses_wrong_values(group):
    for owner, name, value in WRONG:
        if owner == group:
            with pytest.raises(OptionError) as caught:
                make(group, {name: value})
            error, plain = caught.value, name.rpartition(".")[2]
            assert error.setting == plain, name
            assert error.value == value or value != value
            assert error.allowed
            assert f"{plain}=" in str(error)


def test_every_setting_is_described():
    for group, settings in described_settings().items():
        for name, setting in settings.items():
            assert setting.about[-1:] == ".", (group, name)
            json.dumps(setting.to_json())


@pytest.mark.parametrize("group", METHODS)
def test_an_unknown_name_is_answered_with_the_nearest(group):
    with raises(OptionError, "'seed'"):
        make(group, {"sede": 1})


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("settings")
    (folder / "rows").mkdir()
    for number, rows in enumerate(made_up_videos(3)):
        np.save(folder / "rows" / f"v{number}.npy", rows)
    sc.learn(folder / "rows", steps=3, restarts=2, output=folder / "p.proc")
    return folder


def test_the_command_line_and_config_files_refuse_them(learned, run, tmp_path):
    for name, value in [*OURS, ("sede", 3)]:
        words = ["learn", str(learned / "rows"), "-o", str(learned / "no.proc"), "--set"]
        said = run(*words, f"{name}={json.dumps(value)}", "--quiet", code=2).err
        assert "did you mean 'seed'?" in said or f"{name}=" in said
    assert not (learned / "no.proc").exists()
    shutil.copytree(learned / "p.proc", tmp_path / "p.proc")
    place = revision(tmp_path / "p.proc") / "config.json"
    config = json.loads(place.read_text())
    for name, value in OURS:
        if value == value:
            wrong = {**config["settings"], name: value}
            place.write_text(json.dumps({**config, "settings": wrong}))
            with raises(ProcedureError, "config.json"):
                sc.load(tmp_path / "p.proc")


def test_http_lists_all_settings_as_the_table_in_the_docs(learned, tmp_path):
    space, videos = Workspace(learned), ["rows/v0.npy", "rows/v1.npy"]
    for name, value in OURS:
        if name != "rate":
            with raises(OptionError, setting=name):
                space.learn({"videos": videos, "name": "new", "settings": {name: value}})
    with raises(OptionError, "'seed'"):
        space.learn({"videos": videos, "name": "new", "settings": {"sede": 1}})
    with Served(Running(Workspace(tmp_path))) as app:
        listed = app.get("api/settings").json()
    assert listed.keys() == described_settings().keys()
    (restarts,) = (one for one in listed["stepcut"] if one["name"] == "restarts")
    assert (restarts["default"], restarts["low"], restarts["high"]) == (24, 1, 10_000)
    text = (Path(__file__).parents[1] / "docs" / "method.md").read_text()
    for name, one in settings_of(StepCut).items():
        if name not in ("rate", "seed"):
            assert f"| `{name}` | {one.default} | {one.about} |" in text
