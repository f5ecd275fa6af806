"""Where a command is to write: what cannot be written is told before any work, and whatever else is wrong."""

from pathlib import Path

import pytest

from stepcut.cli.main import main
from stepcut.cli.outputs import OUTPUTS
from stepcut.cli.parser import COMMANDS, make_parser

WORDS = {
    "agree": "nope/ nope/ -o {}.json",
    "agree ": "nope/ nope/ --table {}.csv",
    "budget": "nope/ -o {}.csv",
    "clips": "nope.proc -o {}",
    "compare": "nope/ nope/ -p nope.proc --budget {}.csv",
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
    "learn": "nope/ -o {}.proc",
    "learn ": "--tasks nope/ -o {}",
    "report": "nope.proc -o {}.html",
    "segment": "nope.proc nope.mp4 -o {}.vtt",
    "teach": "nope.proc nope/ -o {}.proc",
}
"""A command with an output, and nothing that could be worked on."""


def test_every_command_that_writes_is_tried():
    writing = {
        name for name in COMMANDS for action in make_parser(name)._actions if action.dest in OUTPUTS
    }
    assert writing | {"convert"} == {name.strip() for name in WORDS}


@pytest.mark.parametrize("name", WORDS)
def test_an_output_in_an_impossible_place_is_told_first(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("taken").write_text("a file stands here", encoding="utf-8")
    assert main([name.strip(), *WORDS[name].format("taken/x").split()]) == 2
    told = capsys.readouterr().err
    assert "taken/x" in told
    assert "in the place of a folder" in told
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


@pytest.mark.parametrize("name", WORDS)
def test_a_name_that_is_too_long_is_told_first(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([name.strip(), *WORDS[name].format("x" * 300).split()]) == 2
    assert "Choose a shorter one" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["agree", "compare", "compare ", "convert", "data", "experiment ", "report", "segment"]
)
def test_a_folder_or_a_device_is_no_file_to_write(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = WORDS[name].format("there").split()
    place = Path(next(word for word in words if word.startswith("there")))
    place.mkdir()
    assert main([name.strip(), *words]) == 2
    assert str(place) in capsys.readouterr().err
    place.rmdir()
    place.symlink_to("/dev/null")  # which would be replaced by a file, where one may do so
    assert main([name.strip(), *words]) == 2
    assert f"{place}: this is not a regular file" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["clips", "demo", "experiment", "features"])
def test_a_file_is_no_folder_to_write_into(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("there").touch()
    assert main([name, *WORDS[name].format("there").split()]) == 2
    assert "in the place of a folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", ["agree a/ b/ -o x.pdf", "segment p.proc v.mp4 -o x.pdf", "convert nope.json x.pdf"]
)
def test_a_suffix_that_is_no_format_is_told_first(words, capsys):
    assert main(words.split()) == 2
    assert "the suffix '.pdf' is unknown" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", ["data stats folder --root a/", "compare a/ b/ -p p.proc", "experiment main --data a/"]
)
def test_a_picture_of_an_unknown_kind_is_told_first(words, capsys):
    assert main([*words.split(), "--plot", "x.docx"]) == 2
    assert "'.docx'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["x.pdf", "x", "-", "x.html.zip"])
def test_a_report_is_html_and_its_name_says_so(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["report", "nope.proc", "-o", name]) == 2
    told = capsys.readouterr().err
    assert f"-o {name}: " in told
    assert ".html" in told
    assert ".html" in told
    assert not list(tmp_path.iterdir())


def test_an_unknown_experiment_is_told_before_what_it_lacks(capsys):
    assert main(["experiment", "nope"]) == 2
    told = capsys.readouterr().err
    assert "'nope'" in told
    assert "main" in told
    assert "--data" not in told
