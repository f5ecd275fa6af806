"""The paper's wing: the core never imports it, and it registers itself as any other package would."""

import ast
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from pkgutil import resolve_name

import pytest
from import_graph import tree_of

import stepcut
from stepcut import plugins
from stepcut.cli.main import main

ROOT = Path(stepcut.__file__).parent


def test_the_core_never_imports_the_wing():
    found = []
    for path in ROOT.rglob("*.py"):
        if "paper" in path.relative_to(ROOT).parts:
            continue
        for node in ast.walk(tree_of(path)):
            names = []
            if isinstance(node, ast.Import):
                names = [one.name for one in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{one.name}" for one in node.names]
            found += [f"{path}: {name}" for name in names if f"{name}.".startswith("stepcut.paper")]
    assert found == []


EVERYDAY = """
import json, sys
import numpy as np
import stepcut
from stepcut.cli.main import main

rng = np.random.default_rng(0)
def film():
    return np.repeat(np.eye(3, 8), 20, axis=0) + 0.1 * rng.normal(size=(60, 8))

for number in range(4):
    np.save(f"{sys.argv[1]}/v{number}.npy", film())
folder = sys.argv[1] + "/task.proc"
procedure = stepcut.learn([film(), film(), film()], steps=3, output=folder)
procedure.check(film())
procedure.teach({"0": procedure.timelines["0"]})
stepcut.view
assert main(["learn", sys.argv[1], "--rate", "1", "-k", "3", "--quiet", "-o", folder + "2"]) == 0
assert main(["check", folder + "2", sys.argv[1] + "/v0.npy", "--quiet"]) in (0, 1)
print(json.dumps([name for name in sys.modules if name.startswith("stepcut.paper")]))
"""


@pytest.mark.slow
def test_everyday_commands_load_nothing_of_the_wing(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", EVERYDAY, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1]) == []


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
