"""Plugins are found by name, by entry point and by package.module:Class."""

import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path
from pkgutil import resolve_name

import pytest

import stepcut
from stepcut import plugins
from stepcut.errors import OptionError

OURS = {"stepcut": int, "cnc": float}


def test_a_part_is_found_by_name_by_class_and_by_entry_point(monkeypatch):
    assert plugins.find("method", "cnc", OURS) is float
    assert plugins.find("method", "pathlib:Path", OURS) is Path
    assert plugins.name_of("method", 3, OURS) == "stepcut"
    mine = Path("x")
    assert plugins.find("method", plugins.name_of("method", mine, OURS), OURS) is type(mine)
    point = EntryPoint("mine", "pathlib:PurePosixPath", "stepcut.methods")
    found = {"stepcut.methods": [point]}
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: found.get(group, []))
    made = plugins.find("method", "mine", OURS)
    assert getattr(made, "__name__", "") == "PurePosixPath"
    with pytest.raises(OptionError, match="mine"):
        plugins.find("method", "mein", OURS)


def test_a_module_in_the_current_folder_is_found_and_hides_nothing(tmp_path, monkeypatch):
    (tmp_path / "parts_of_mine.py").write_text("class Thing: pass")
    (tmp_path / "pathlib.py").write_text("class Path: pass")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [place for place in sys.path if place])
    assert getattr(plugins.find("method", "parts_of_mine:Thing", OURS), "__name__", "") == "Thing"
    assert plugins.find("method", "pathlib:Path", OURS) is Path


@pytest.mark.parametrize(
    "name", ["nowhere.at.all:Thing", "pathlib:Nothing", "stepcat", "a b:c", ""]
)
def test_what_is_not_there(name):
    with pytest.raises(OptionError, match="package.module:Class"):
        plugins.find("method", name, OURS)


def test_what_is_missing_is_installed_from_where_stepcut_came(tmp_path, monkeypatch):
    checkout = tmp_path / "my checkout"
    checkout.mkdir()
    python = checkout / ".venv" / "bin" / "python"
    monkeypatch.setattr(plugins, "__file__", str(checkout / "src" / "stepcut" / "plugins.py"))
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr("shutil.which", {"pip": "/usr/bin/pip"}.get)  # of another Python
    assert plugins.pip_install("x") == f"'{python}' -m pip install x"
    monkeypatch.setattr("shutil.which", {"pip": str(python.with_name("pip"))}.get)
    assert plugins.pip_install("x", "-U ") == "pip install -U x"
    assert plugins.install_command("cnc") == "pip install 'stepcut[cnc]'"  # a wheel
    (checkout / "pyproject.toml").touch()
    assert plugins.install_command("cnc") == f"pip install -e '{checkout}[cnc]'"
    monkeypatch.chdir(checkout)
    assert plugins.install_command("cnc") == "pip install -e '.[cnc]'"
    monkeypatch.setattr("shutil.which", {"pip": "/usr/bin/pip"}.get)
    assert plugins.pip_install("x") == ".venv/bin/python -m pip install x"


ROOT = Path(stepcut.__file__).parent


def test_what_the_wing_registers_is_what_a_checkout_finds():
    declared = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    groups = declared["project"]["entry-points"]
    assert groups == {f"stepcut.{kind}s": parts for kind, parts in plugins.WING.items()}
    for parts in plugins.WING.values():
        for place in parts.values():
            assert resolve_name(place) is not None


def test_a_command_of_another_package(tmp_path, monkeypatch, run):
    package = tmp_path / "mypackage"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "hello.py").write_text(
        "def run(args):\n    print('hello', args.name)\n    return 5\n"
    )
    (package / "hello.txt").write_text(
        "greet somebody\n\nexamples:\n  stepcut hello Ann\n\nwords:\nNAME   who\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    mine = {"hello": "mypackage.hello"}
    monkeypatch.setitem(plugins.WING, "command", {**plugins.WING["command"], **mine})
    assert run("hello", "Ann", code=5).out == "hello Ann\n"
    assert "  hello       greet somebody\n" in run().out
