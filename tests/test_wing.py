"""The paper's wing: the core never imports it, and it registers itself as any other package would."""

import tomllib
from pathlib import Path
from pkgutil import resolve_name

import stepcut
from stepcut import plugins
from stepcut.cli.main import main

ROOT = Path(stepcut.__file__).parent


def test_what_the_wing_registers_is_what_a_checkout_finds():
    declared = tomllib.loads((ROOT.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    groups = declared["project"]["entry-points"]
    assert groups == {f"stepcut.{kind}s": parts for kind, parts in plugins.WING.items()}
    for parts in plugins.WING.values():
        for place in parts.values():
            assert resolve_name(place) is not None


def test_a_command_of_another_package(tmp_path, monkeypatch, capsys):
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
    assert main(["hello", "Ann"]) == 5
    assert capsys.readouterr().out == "hello Ann\n"
    assert main([]) == 0
    assert "  hello       greet somebody\n" in capsys.readouterr().out
