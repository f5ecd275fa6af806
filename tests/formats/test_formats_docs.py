"""docs/formats.md lists every format with the information it stores, and its examples run."""

import contextlib
import os
import re
from pathlib import Path

import pytest

from stepcut.cli.main import main
from stepcut.formats import FORMATS, read, write_folder
from stepcut.formats.tables import COLUMNS
from stepcut.timeline import Segment, Timeline

DOC = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", list(FORMATS))
def test_the_table_says_what_each_format_keeps(name):
    form = FORMATS[name]
    keeps = form.keeps.split()
    cells = ["yes" if form.many else ""]
    cells += ["yes" if what in keeps else "" for what in ("clicks", "confidence", "duration")]
    cells += ["yes" if what in keeps else "" for what in ("steps", "empty")]
    row = f"| `{name}`: {form.title} | `{form.suffix}` | {' | '.join(cells)} |"
    assert row in DOC


@pytest.mark.parametrize("column", list(COLUMNS)[:9])  # the others are of BORIS
def test_the_names_of_columns_are_listed(column):
    listed = ", ".join(f"`{name}`" for name in COLUMNS[column].split())
    assert f"| `{column}` | {listed} |" in DOC


def test_the_examples_run(tmp_path):
    (python,) = re.findall(r"```python\n(.*?)```", DOC, flags=re.DOTALL)
    (shell,) = re.findall(r"```sh\n(.*?)```", DOC, flags=re.DOTALL)
    with contextlib.chdir(tmp_path):
        exec(python, {})
        write_folder("eaf", [Timeline([Segment(0, 1, "a")], video="v")], "elan")
        write_folder(
            "frames/groundTruth", [Timeline([Segment(0, 1, "a")], 2.0, video="w")], "mstcn", rate=15
        )
        for line in shell.splitlines():
            words = line.partition("#")[0].split()
            assert words[0] == "stepcut"
            assert main(words[1:]) == 0
        assert read("tea.vtt").sequence() == ["boil water", "pour"]
        assert os.listdir("truth") == ["v.csv"]
        assert read("tea.json").segments == (Segment(0, 1, "a"),)
