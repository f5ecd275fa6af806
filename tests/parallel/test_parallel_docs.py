"""The tables of the report on scale are what the script prints."""

import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_the_tables_are_those_of_the_script(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    script = importlib.import_module("scale")
    costs = json.loads((ROOT / "benchmarks" / "scale_costs.json").read_text())
    text = (ROOT / "benchmarks" / "reports" / "scale.md").read_text()
    tables = {"figures": script.figures(costs), "plan": script.plan(costs)}
    assert script.shared.fill(text, tables) == text
    assert script.shared.fill(text, {"plan": script.plan({**costs, "cpu_frame": 1.0})}) != text
    with pytest.raises(SystemExit, match="a mark for plan"):
        script.shared.fill(text.replace("<!-- plan", "<!-- plans"), tables)
