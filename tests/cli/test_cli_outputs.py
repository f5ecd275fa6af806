"""Where a command is to write: what cannot be written is told before any work, and whatever else is wrong."""

from pathlib import Path

import pytest

from stepcut.cli.common import OUTPUTS
from stepcut.cli.main import COMMANDS, make_parser

WORDS = {
    "agree": "nope/ nope/ -o {}.json",
    "agree ": "nope/ nope/ --table {}.csv",
    "clips": "nope.proc -o {}",
    "compare": "nope/ nope/ -p nope.proc --times {}.csv",
    "compare ": "nope/ nope/ -p nope.proc --plot {}.svg",
    "compare  ": "nope/ nope/ -p nope.proc -o {}.csv",
    "evaluate": "nope.proc --truth nope/ -o {}.csv",
    "convert": "nope.json {}.csv",
    "convert ": "nope.json {}/ --to csv",
    "data": "stats folder --root nope/ --plot {}.svg",
    "demo": "-o {}",
    "experiment": "main --data nope/ --out {}",
    "experiment ": "main --data nope/ --plot {}.svg",
    "features": "nope/ -o {}",
    "instructions": "nope.proc -o {}.md",
    "learn": "nope/ -o {}.proc",
    "report": "nope.proc -o {}.html",
    "segment": "nope.proc nope.mp4 -o {}.vtt",
    "teach": "nope.proc nope/ -o {}.proc",
    "times": "nope/ -o {}.xlsx",
    "times ": "nope/ --plot {}.svg",
}
"""A command with an output, and nothing that could be worked on."""


def test_every_command_that_writes_is_tried():
    writing = {
        name for name in COMMANDS for action in make_parser(name)._actions if action.dest in OUTPUTS
    }
    assert writing | {"convert"} == {name.strip() for name in WORDS}


@pytest.mark.parametrize("name", WORDS)
def test_an_output_in_an_impossible_place_or_of_an_impossible_name_is_told_first(
    name, tmp_path, monkeypatch, run
):
    monkeypatch.chdir(tmp_path)
    Path("taken").write_text("a file stands here", encoding="utf-8")
    for place, told in (
        ("taken/x", ("taken/x", "in the place of a folder")),
        ("x" * 300, ("Choose a shorter one",)),
    ):
        error = run(name.strip(), *WORDS[name].format(place).split(), code=2).err
        assert all(word in error for word in told)
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize(
    "name", ["agree", "compare", "compare ", "convert", "data", "experiment ", "report", "segment"]
)
def test_a_folder_or_a_device_is_no_file_to_write(name, tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    words = WORDS[name].format("there").split()
    place = Path(next(word for word in words if word.startswith("there")))
    place.mkdir()
    assert str(place) in run(name.strip(), *words, code=2).err
    place.rmdir()
    place.symlink_to("/dev/null")  # which would be replaced by a file, where one may do so
    assert f"{place}: this is not a regular file" in run(name.strip(), *words, code=2).err


@pytest.mark.parametrize(("words", "told"), [
    ("agree a/ b/ -o x.pdf", "the suffix '.pdf' is unknown"),
    ("segment p.proc v.mp4 -o x.pdf", "the suffix '.pdf' is unknown"),
    ("convert nope.json x.pdf", "the suffix '.pdf' is unknown"),
    ("data stats folder --root a/ --plot x.docx", "'.docx'"),
    ("compare a/ b/ -p p.proc --plot x.docx", "'.docx'"),
    ("experiment main --data a/ --plot x.docx", "'.docx'"),
    ("experiment nope", "Choose from main"),  # before what it lacks
])  # fmt: skip
def test_an_unknown_format_or_name_is_told_first(words, told, run):
    assert told in run(*words.split(), code=2).err


@pytest.mark.parametrize("name", ["x.pdf", "x", "-", "x.html.zip"])
def test_a_report_is_html_and_its_name_says_so(name, tmp_path, monkeypatch, run):
    monkeypatch.chdir(tmp_path)
    told = run("report", "nope.proc", "-o", name, code=2).err
    assert f"-o {name}: " in told
    assert ".html" in told
    assert not list(tmp_path.iterdir())
