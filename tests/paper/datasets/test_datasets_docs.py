"""docs/data.md: its commands and its example run."""

import contextlib
import re
from pathlib import Path

import datasets_trees as trees

from stepcut.cli.main import main
from stepcut.paper.datasets import DATASETS

DOC = (Path(__file__).parents[3] / "docs" / "data.md").read_text(encoding="utf-8")


def test_every_data_set_is_in_the_table():
    named = re.findall(r"^\| `(\w+)` \|", DOC, flags=re.MULTILINE)
    assert named == list(DATASETS)
    for name in named:
        count = len(DATASETS[name].tasks) or "any"
        assert re.search(rf"^\| `{name}` \|.*\| {count} \|$", DOC, flags=re.MULTILINE)


def test_every_task_of_egtea_is_mapped():
    for title, info in DATASETS["egoprocel"].tasks.items():
        if info.part == "EGTEA":
            folder = info.folder.partition("/")[2]
            row = rf"^\| {title} \| `{folder}` \|.*-{folder}` \| `{info.key}` \| {info.videos} \| {info.steps} \|"
            assert re.search(row, DOC, flags=re.MULTILINE), title


def test_the_commands_run(tmp_path):
    trees.egoprocel_json(tmp_path)
    (shell,) = re.findall(r"```sh\n(.*?)```", DOC, flags=re.DOTALL)
    for line in shell.splitlines():
        words = [
            str(tmp_path) if word == "DIR" else word for word in line.partition("#")[0].split()
        ]
        assert words[:2] == ["stepcut", "data"]
        assert main(words[1:]) == (1 if words[2] == "check" else 0)


def test_the_example_runs(tmp_path, capsys):
    trees.put(tmp_path / "kitchen" / "a.mp4", "no video")
    trees.put(tmp_path / "kitchen" / "a.csv", "0,1,pour\n")
    (python,) = re.findall(r"```python\n(.*?)```", DOC, flags=re.DOTALL)
    with contextlib.chdir(tmp_path):
        exec(python, {})
    assert "kitchen ('pour',)" in capsys.readouterr().out
