"""docs/formats.md lists every format with the information it stores, and its examples run."""

import contextlib
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from stepcut.cli.main import main
from stepcut.formats import FORMATS, read, read_folder, write, write_folder
from stepcut.formats.tables import COLUMNS
from stepcut.timeline import Segment, Timeline
from stepcut.toy import toy_features

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
        write("frames/groundTruth/w.txt", Timeline([Segment(0, 1, "a")], 2.0), "mstcn", rate=15)
        for line in shell.splitlines():
            words = line.partition("#")[0].split()
            assert words[0] == "stepcut"
            assert main(words[1:]) == 0
        assert read("tea.vtt").sequence() == ["boil water", "pour"]
        assert os.listdir("truth") == ["v.csv"]
        assert read("tea.json").segments == (Segment(0, 1, "a"),)


ANNOTATE = (Path(__file__).parents[2] / "docs" / "annotate.md").read_text(encoding="utf-8")
# A short training is enough: this tests the round trip of labels, not their quality.
QUICK = ["--quiet", "--method", "cnc", "--set", 'train={"iterations": 2}']


def correct_tasks(export, truth, rate):
    """A Label Studio export: what was written as predictions, confirmed, and a renamed video."""
    write(export, list(truth.values()), "label-studio", rate=rate)
    record = json.loads(export.read_text())
    for task in record:
        result = task["predictions"][0]["result"]
        task["annotations"] = [{"completed_by": 1, "was_cancelled": False, "result": result}]
        task["data"]["video"] = "/data/upload/1/5fd0-" + task["data"]["video"]
    export.write_text(json.dumps(record))


@pytest.mark.slow
def test_every_step_of_the_page_on_annotating(tmp_path, capsys):
    rows, timelines = toy_features(videos=3, duration=40)
    truth = {timeline.video: timeline for timeline in timelines}
    (tmp_path / "tea").mkdir()
    for features, timeline in zip(rows, timelines, strict=True):
        np.save(tmp_path / "tea" / f"{timeline.video}.npy", features)
    done = 0
    with contextlib.chdir(tmp_path):
        for kind, block in re.findall(r"```(sh|python)\n(.*?)```", ANNOTATE, flags=re.DOTALL):
            if kind == "python":
                exec(block, {})
                continue
            for line in block.splitlines():
                words = line.split()
                assert words[0] == "stepcut"
                capsys.readouterr()
                extra = [*QUICK] if words[1] == "learn" else []
                extra += ["--rate", "30"] if "label-studio" in words else []
                assert main([*words[1:], *extra]) == 0, capsys.readouterr().err
                done += 1
                if line == "stepcut convert tea.proc eaf/ --to elan":
                    found = read("eaf/" + timelines[0].video + ".eaf")
                    assert found.steps[:2] == ("boil water", "pour")
                    write_folder("eaf", truth, "elan")
                if line.startswith("stepcut convert tea.proc tasks.json"):
                    assert read_folder("tasks.json").keys() == truth.keys()
                    correct_tasks(Path("export.json"), truth, 30)
                if words[1] == "evaluate":
                    assert "uniform" in capsys.readouterr().out
        for folder, slack in (("truth", 0.002), ("corrected", 0.04)):
            again = read_folder(folder)
            assert again.keys() == truth.keys()
            for name, timeline in truth.items():
                assert again[name].sequence() == timeline.sequence()
                for found, true in zip(again[name], timeline, strict=True):
                    expected = pytest.approx((true.start, true.end), abs=slack)
                    assert (found.start, found.end) == expected
    assert done == 7
