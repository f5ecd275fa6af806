"""The code in the docs runs, and the pages of the site exist."""

from __future__ import annotations

import ast
import builtins
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))


def test_the_page_on_extending_runs() -> None:
    page = (ROOT / "docs" / "extend.md").read_text(encoding="utf-8")
    shared: dict[str, Any] = {"__name__": "extend"}
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    assert len(blocks) >= 5
    for block in blocks:
        exec(compile(block, "docs/extend.md", "exec"), shared)
    assert len(shared["labels"]) == 5


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)#\s]+)", text):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_code_uses_no_name_that_its_page_does_not_make(page: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    known = set(dir(builtins))
    for node in ast.walk(ast.parse("\n".join(blocks))):
        if isinstance(node, ast.Import | ast.ImportFrom):
            known |= {(each.asname or each.name).split(".")[0] for each in node.names}
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            known.add(node.name)
        elif isinstance(node, ast.arg):
            known.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            known.add(node.id)
    used = {
        node.id for node in ast.walk(ast.parse("\n".join(blocks))) if isinstance(node, ast.Name)
    }
    assert used <= known, used - known


def test_constants_of_the_default_method_are_listed_with_where_they_were_set() -> None:
    page = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    table = page.split("## Constants, and where they were set")[1].split("\n## ")[0]
    methods = ROOT / "src" / "stepcut" / "methods"
    for file in [*(methods / "default").glob("*.py"), methods / "quality.py"]:
        names = re.findall(
            r"^([A-Z][A-Z_, ]*) = [(\d]", file.read_text(encoding="utf-8"), flags=re.MULTILINE
        )
        for name in (each.strip() for some in names for each in some.split(",")):
            assert f"`{name}`" in table, f"{file.name}: {name}"
