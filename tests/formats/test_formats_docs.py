"""docs/formats.md says of every format what its table says, and its examples run."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

import pytest

from stepcut.cli.main import main
from stepcut.formats import FORMATS, read, write_folder
from stepcut.formats.capabilities import stated_losses
from stepcut.timeline import Segment, Timeline

DOC = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", list(FORMATS))
def test_the_losses_are_those_that_are_stated(name: str) -> None:
    form = FORMATS[name]
    losses = "; ".join(stated_losses(form.capabilities)) or "nothing"
    many = "yes" if form.many else "no"
    assert f"| `{name}`: {form.title} | `{form.suffix}` | {many} | {losses} |" in DOC


def test_the_examples_run(tmp_path: Path) -> None:
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
