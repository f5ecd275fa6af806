"""The tables of the report on scale are what the script prints; the commands of docs/parallel.md are understood."""

from __future__ import annotations

import importlib
import json
import re
import shlex
from pathlib import Path

import pytest

from stepcut.cli.parser import make_parser

ROOT = Path(__file__).resolve().parents[2]


def test_the_tables_are_those_of_the_script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    script = importlib.import_module("scale_tables")
    costs = json.loads((ROOT / "benchmarks" / "scale_costs.json").read_text())
    text = (ROOT / "benchmarks" / "reports" / "scale.md").read_text()
    assert script.fill(text, costs) == text
    assert script.fill(text, {**costs, "cpu_frame": 1.0}) != text
    with pytest.raises(SystemExit, match="no place for plan"):
        script.fill(text.replace("<!-- plan", "<!-- plans"), costs)


def test_the_commands_are_understood() -> None:
    text = (ROOT / "docs" / "parallel.md").read_text()
    block = re.search(r"```\n(.*?)```", text, re.DOTALL)
    assert block is not None
    lines = block.group(1).splitlines()
    assert len(lines) == 4
    for line in lines:
        words = shlex.split(re.split(r"   +", line)[0])
        make_parser(words[1]).parse_args(words[2:])
