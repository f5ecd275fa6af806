"""The command line as a whole: help, errors in one line, exit codes, places of outputs, and the demo."""

import os
import shlex
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from stepcut.cli.common import OUTPUTS, this_program
from stepcut.cli.demo import draw_flaws, offers
from stepcut.cli.main import COMMANDS, main, make_parser
from stepcut.toy import STEPS, write_script
from stepcut.version import __version__


def run_python(*words, **environment):
    given = {**os.environ, **environment}
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, env=given)


@pytest.mark.parametrize(("words", "code", "told"), [
    (["-h"], 0, "examples:\n  stepcut demo"),
    (["help"], 0, "commands:"),
    (["--version"], 0, f"stepcut {__version__}\n"),
    (["help", "learn"], 0, "exit codes: 0"),
    (["lern"], 2, "did you mean 'learn'?"),
    (["segment", "no.proc", "new.mp4"], 2, "stepcut: no.proc: this procedure does not exist."),
    # A command in an error can be pasted.
    (["segment", "no such.proc", "new.mp4"], 2, "stepcut learn VIDEOS... -o 'no such.proc'\n"),
    # Control characters do not reach the terminal.
    (["convert", "a\x1b]0;owned\x07.csv", "b.json"], 2, "stepcut: a%1B]0;owned%07.csv"),
    (["completion", "csh"], 2, "bash"),
])  # fmt: skip
def test_answers_without_any_work(words, code, told, capsys):
    assert main(words) == code
    out, error = capsys.readouterr()
    assert told in (error if code else out)
    assert error.count("\n") == (1 if code else 0)
    assert "\x1b" not in error


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_and_a_usage_line(name, capsys):
    assert main(["help", name]) == 0
    text = capsys.readouterr().out
    assert text.startswith("examples:")
    assert text.count(f"stepcut {name}") >= 3
    assert f"usage: stepcut {name} [options]" in text
    for action in make_parser(name)._actions:  # a default number is read as a number
        if isinstance(action.default, str) and action.dest != "steps":
            assert not action.default.replace(".", "", 1).isdecimal() or action.type is not str


@pytest.mark.parametrize(("words", "told"), [
    (["learn", "x", "--stepz", "3"], "--steps?"),
    (["check", "p", "v", "--per-step"], "stepcut evaluate"),
    (["learn", "x", "--port", "8000"], "stepcut view"),
    (["check"], "PROCEDURE"),
    (["learn", "x", "--seed", "two"], "two"),
    (["watch", "x", "-p", "p", "--every", "-1"], "--every: '-1'"),
    (["watch", "x", "-p", "p", "--settle", "nan"], "--settle: 'nan'"),
    (["guide", "p", "camera", "--patience", "-0.5"], "--patience: '-0.5'"),
    (["agree", "a", "b", "--tolerance", "soon"], "--tolerance: 'soon'"),
])  # fmt: skip
def test_a_wrong_word_is_one_line_and_exit_code_2(words, told, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert told in error
    assert f"See: stepcut help {words[0]}" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(("error", "told"), [
    (PermissionError(13, "Permission denied", "/x/y"), "/x/y: Permission denied"),
    (MemoryError(), "out of memory"),
    (ZeroDivisionError("by zero"), "STEPCUT_DEBUG=1"),
    (KeyboardInterrupt(), "run the same command again"),
])  # fmt: skip
def test_no_error_is_a_traceback(error, told, monkeypatch, capsys):
    def fail(*_):
        raise error

    monkeypatch.setattr("stepcut.cli.main.run_command", fail)
    assert main(["learn", "x"]) == (130 if isinstance(error, KeyboardInterrupt) else 2)
    printed = capsys.readouterr().err
    assert told in printed
    assert printed.strip().count("\n") == 0
    if isinstance(error, Exception):
        monkeypatch.setenv("STEPCUT_DEBUG", "1")
        with pytest.raises(type(error)):
            main(["learn", "x"])


@pytest.mark.slow
def test_ctrl_c_ends_without_a_cry(tmp_path):
    words = [sys.executable, "-m", "stepcut", "demo", "-o", str(tmp_path / "d")]
    # A shell starts what runs in the background with interrupts ignored, and children would ignore them, too.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    run = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, preexec_fn=heed)
    time.sleep(8)  # inside the filming, or the features
    run.send_signal(signal.SIGINT)
    _, error = run.communicate(timeout=60)
    assert run.returncode == 130
    assert not {"FATAL", "Traceback"} & set(error.split())


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals there")
def test_ctrl_c_while_the_command_line_is_imported_ends_without_a_cry():
    program = """
import signal, sys
import stepcut.__main__ as program
class Interrupter:
    def find_spec(self, name, *_):
        if name == "stepcut.cli.main":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupter())
signal.signal(signal.SIGINT, signal.default_int_handler)
program.main()
"""
    done = run_python("-c", program)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_slow_modules_are_imported_after_ctrl_c_is_handled():
    program = "import sys; import stepcut.__main__; print(*sys.modules)"
    done = run_python("-I", "-S", "-c", f"import sys; sys.path[:0] = {sys.path!r}; {program}")
    assert done.returncode == 0
    assert not {"typing", "re", "enum", "signal", "numpy"} & {*done.stdout.split()}


@pytest.mark.slow
def test_a_terminal_that_has_not_all_letters_is_no_reason_to_fail():
    run = run_python("-m", "stepcut", "data", "list", PYTHONIOENCODING="ascii")
    assert (run.returncode, run.stderr) == (0, "")
    assert "\\u2013" in run.stdout


def test_sigterm_leaves_nothing_half_written(tmp_path):
    code = """
import os, signal, sys
import stepcut.cli.main
from stepcut.files import whole_file

def run(name, words):
    with whole_file(words[0]):
        os.kill(os.getpid(), signal.SIGTERM)

stepcut.cli.main.run_command = run
sys.exit(stepcut.cli.main.main())
"""
    run = run_python("-c", code, "learn", str(tmp_path / "a"))
    assert run.returncode == 143
    assert "run the same command again" in run.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [["help"], ["learn", "-h"]])
def test_a_reader_who_goes_away_is_no_fault(words):
    out, into = os.pipe()
    os.close(out)
    command = [sys.executable, "-m", "stepcut", *words]
    run = subprocess.run(command, stdout=into, stderr=subprocess.PIPE, check=False)
    os.close(into)
    assert run.returncode in (0, 141)
    assert run.stderr == b""


@pytest.mark.parametrize(
    "words", [["learn", ""], ["features", "", "-o", "out"], ["report", "", "-o", "x.html"]]
)
def test_a_name_of_nothing_is_not_the_folder_one_is_in(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for number in range(2):
        np.save(f"v{number}.npy", np.repeat(np.eye(2, 4), 10, axis=0))
    assert main(words) == 2
    assert "the path is empty" in capsys.readouterr().err
    assert sorted(os.listdir()) == ["v0.npy", "v1.npy"]


def test_bash_completes(capsys):
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    for line, offered, other in (
        ("stepcut ch", "check", "learn"),
        ("stepcut learn --st", "--strict", "--json"),
        ("stepcut learn --log ", "json", "--steps"),
        ("stepcut convert a.csv b.eaf --to ", "boris", "--from"),
    ):
        words = line.split(" ")
        asked = f"COMP_WORDS=({' '.join(map(repr, words))}); COMP_CWORD={len(words) - 1}"
        shown = 'printf "%s\\n" "${COMPREPLY[@]}"'
        code = f"{script}\n{asked}; _shtab_stepcut stepcut {words[-1]!r}; {shown}"
        run = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True)
        found = run.stdout.split()
        assert offered in found
        assert other not in found


SOURCE = Path(__file__).resolve().parents[2] / "src"


@pytest.mark.parametrize("seed", range(3))
def test_each_kind_of_mistake_is_drawn_once_and_the_repeat_moves_no_other_step(seed):
    drawn = draw_flaws(seed)
    flaws = [write_script(seed, flaw=flaw).flaws[0] for flaw in drawn]
    assert [flaw.kind for flaw in flaws] == ["skip", "swap", "repeat"]
    done = write_script(seed, shuffle=0, flaw=drawn[-1]).timeline.sequence()
    assert tuple(dict.fromkeys(done)) == STEPS


def test_offered_commands_keep_odd_file_names_whole():
    place, video = Path("my kitchen/k.proc"), Path("my kitchen/it's.mp4")
    view, check, segment = (shlex.split(line, comments=True) for line in offers(place, video))
    assert view[-2:] == ["view", str(place)]
    assert check[-3:] == ["check", str(place), str(video)]
    assert segment[-2:] == ["-o", "my kitchen/new.eaf"]


def test_stepcut_is_called_as_it_was_started(tmp_path, monkeypatch):
    program = tmp_path / "my venv" / "bin" / "stepcut"
    program.parent.mkdir(parents=True)
    program.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["my venv/bin/stepcut"])
    assert shlex.split(this_program()) == ["my venv/bin/stepcut"]
    monkeypatch.setattr(sys, "argv", [str(program)])
    assert shlex.split(this_program()) == ["my venv/bin/stepcut"]
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    assert this_program() == "stepcut"
    monkeypatch.setattr(sys, "argv", ["/somewhere/stepcut/__main__.py"])
    assert shlex.split(this_program()) == [sys.executable, "-m", "stepcut"]


@pytest.mark.slow
def test_the_story_is_short_and_every_printed_command_runs(tmp_path):
    env = {**os.environ, "PYTHONPATH": str(SOURCE), "STEPCUT_CACHE": str(tmp_path / "cache")}
    words = [sys.executable, "-m", "stepcut", "demo", "--quiet"]
    told = subprocess.run(
        words, cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert len(told) <= 25
    assert (tmp_path / "demo" / "report.html").stat().st_size > 100_000
    commands = [line.strip() for line in told if line.strip().startswith(sys.executable)]
    view, check, segment = commands
    assert subprocess.run(check, shell=True, cwd=tmp_path, env=env).returncode == 1
    assert subprocess.run(segment, shell=True, cwd=tmp_path, env=env).returncode == 0
    assert "wash dish" in (tmp_path / "demo" / "new.eaf").read_text(encoding="utf-8")
    shown = subprocess.Popen(
        shlex.split(view, comments=True), cwd=tmp_path, env={**env, "BROWSER": "true"}
    )
    try:
        time.sleep(5)
        assert shown.poll() is None  # it serves until it is stopped
    finally:
        shown.terminate()
        shown.wait(timeout=30)


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
    "cycles": "nope.mp4 -o {}.csv",
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
