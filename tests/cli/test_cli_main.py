"""The command line as a whole: help, errors in one line, exit codes."""

from __future__ import annotations

import importlib
import inspect
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from stepcut.cli.main import main
from stepcut.cli.parser import COMMANDS, find_command, make_parser
from stepcut.procedure.learning import learn
from stepcut.version import __version__


def test_help_starts_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-h"]) == 0
    assert capsys.readouterr().out.startswith("examples:\n  stepcut demo")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"stepcut {__version__}\n"


def test_an_unknown_command_is_answered_with_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["lern"]) == 2
    assert "did you mean 'learn'?" in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_and_a_usage_line(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["help", name]) == 0
    text = capsys.readouterr().out
    assert text.startswith("examples:")
    assert text.count(f"stepcut {name}") >= 3
    assert f"usage: stepcut {name} [options]" in text


@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_is_there_where_its_command_reads_it(name: str) -> None:
    module, _, function = find_command(name).partition(":")
    code = inspect.getsource(importlib.import_module(module))
    if function and name != "learn":  # whose settings are read by a function of their own
        code = inspect.getsource(getattr(importlib.import_module(module), function))
    there = {word for action in make_parser(name)._actions for word in action.option_strings}
    assert ("--seed" in there) == ("args.seed" in code or '"seed"' in code)
    assert ("--log" in there) == ("progress_hook(args)" in code or "ask_procedure(args" in code)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_default_number_is_read_as_a_number(name: str) -> None:
    for action in make_parser(name)._actions:
        if isinstance(action.default, str) and action.dest != "steps":
            assert not action.default.replace(".", "", 1).isdecimal() or action.type is not str


def test_help_of_what(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    assert "commands:" in capsys.readouterr().out
    assert main(["help", "lern"]) == 2
    assert "did you mean 'learn'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["learn", "x", "--stepz", "3"], "--steps?"),
        (["check", "p", "v", "--per-step"], "stepcut evaluate"),
        (["learn", "x", "--port", "8000"], "stepcut view"),
        (["check", "p", "v", "--nonsense"], "--nonsense"),
        (["check"], "PROCEDURE"),
        (["learn", "x", "--seed", "two"], "two"),
        (["watch", "x", "-p", "p", "--every", "-1"], "--every: '-1'"),
        (["watch", "x", "-p", "p", "--settle", "nan"], "--settle: 'nan'"),
        (["watch", "x", "-p", "p", "--every", "1e300"], "--every: '1e300'"),
        (["watch", "x", "-p", "p", "--settle", "inf"], "--settle: 'inf'"),
        (["guide", "p", "camera", "--patience", "-0.5"], "--patience: '-0.5'"),
        (["agree", "a", "b", "--tolerance", "soon"], "--tolerance: 'soon'"),
        (["agree", "a", "b", "--worst", "-1"], "--worst: '-1'"),
    ],
)
def test_a_wrong_word_is_one_line_and_exit_code_2(
    words: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert told in error
    assert f"See: stepcut help {words[0]}" in error
    assert error.count("\n") == 1


def test_settings_may_follow_one_another() -> None:
    words = ["films/", "--set", "a=1", "b.c=x", "-k", "3", "--set", "d=[1, 2]"]
    args = make_parser("learn").parse_args(words)
    assert args.set == ["a=1", "b.c=x", "d=[1, 2]"]
    assert (args.videos, args.steps) == (["films/"], "3")


def test_help_of_learn_has_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "learn"]) == 0
    assert "exit codes: 0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (PermissionError(13, "Permission denied", "/x/y"), "/x/y: Permission denied"),
        (MemoryError(), "out of memory"),
        (ZeroDivisionError("by zero"), "STEPCUT_DEBUG=1"),
    ],
)
def test_no_error_is_a_traceback(
    error: Exception, told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> int:
        raise error

    monkeypatch.setattr("stepcut.cli.main.run_command", fail)
    assert main(["learn", "x"]) == 2
    printed = capsys.readouterr().err
    assert told in printed
    assert printed.count("\n") == 1
    monkeypatch.setenv("STEPCUT_DEBUG", "1")
    with pytest.raises(type(error)):
        main(["learn", "x"])


def test_control_characters_do_not_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "a\x1b]0;owned\x07.csv", "b.json"]) == 2
    printed = capsys.readouterr().err
    assert "owned" in printed
    assert "\x1b" not in printed


@pytest.mark.slow
def test_ctrl_c_ends_without_a_cry(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "stepcut", "demo", "-o", str(tmp_path / "d")]
    # A shell starts what runs in the background with interrupts ignored, and children would ignore them, too.
    heed = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    run = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, preexec_fn=heed)
    time.sleep(8)  # inside the filming, or the features
    run.send_signal(signal.SIGINT)
    _, error = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "FATAL" not in error
    assert "Traceback" not in error


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals there")
def test_ctrl_c_while_the_command_line_is_imported_ends_without_a_cry() -> None:
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
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_slow_modules_are_imported_after_ctrl_c_is_handled() -> None:
    program = "import sys; import stepcut.__main__; print(*sys.modules)"
    words = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        f"import sys; sys.path[:0] = {sys.path!r}; {program}",
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert not {"typing", "re", "enum", "signal", "numpy"} & {*done.stdout.split()}


def test_an_error_is_one_line_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["segment", "no.proc", "new.mp4"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("stepcut: no.proc: this procedure does not exist.")
    assert error.count("\n") == 1


def test_a_command_in_an_error_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["segment", "no such.proc", "new.mp4"]) == 2
    assert capsys.readouterr().err.endswith("stepcut learn VIDEOS... -o 'no such.proc'\n")


@pytest.mark.slow
def test_a_terminal_that_has_not_all_letters_is_no_reason_to_fail() -> None:
    words = [sys.executable, "-m", "stepcut", "data", "list"]
    run = subprocess.run(
        words, capture_output=True, check=False, env={**os.environ, "PYTHONIOENCODING": "ascii"}
    )
    assert (run.returncode, run.stderr) == (0, b"")
    assert b"\\u2013" in run.stdout


def test_interrupting_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("stepcut.cli.main.run_command", interrupted)
    assert main(["learn", "x"]) == 130
    assert "run the same command again" in capsys.readouterr().err


def test_sigterm_leaves_nothing_half_written(tmp_path: Path) -> None:
    code = """
import os, signal, sys
import stepcut.cli.main
from stepcut.files.atomic import whole_file

def run(name, words):
    with whole_file(words[0]):
        os.kill(os.getpid(), signal.SIGTERM)

stepcut.cli.main.run_command = run
sys.exit(stepcut.cli.main.main())
"""
    run = subprocess.run(
        [sys.executable, "-c", code, "learn", str(tmp_path / "a")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 143
    assert "run the same command again" in run.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_progress_is_counted_in_frames_of_one_video_or_in_videos(
    films: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def last_event(*words: str) -> tuple[str, float, str]:
        capsys.readouterr()
        assert main([*words, "--log", "json"]) in (0, 1)
        event = json.loads(capsys.readouterr().err.splitlines()[-1])
        return event["stage"], event["done"], event["unit"]

    place = str(tmp_path / "p.proc")
    learn([films / name for name in ("v0.mp4", "v1.mp4", "v2.mp4")], steps=2, output=place)
    assert last_event("check", place, str(films / "v3.mp4"))[2] == "frames"
    for command in ("check", "segment"):
        assert last_event(command, place, str(films / "v3.mp4"), str(films / "v2.mp4")) == (
            command,
            2,
            "videos",
        )


@pytest.mark.parametrize("words", [["help"], ["learn", "-h"]])
def test_a_reader_who_goes_away_is_no_fault(words: list[str]) -> None:
    out, into = os.pipe()
    os.close(out)
    run = subprocess.run(
        [sys.executable, "-m", "stepcut", *words], stdout=into, stderr=subprocess.PIPE, check=False
    )
    os.close(into)
    assert run.returncode in (0, 141)
    assert run.stderr == b""


def test_a_name_of_nothing_is_not_the_folder_one_is_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [np.repeat(np.eye(2, 4), 10, axis=0) for _ in range(2)]
    learn(rows, steps=2, output="p.proc", restarts=2)
    for number in range(2):
        np.save(f"v{number}.npy", rows[number])
    for words in (
        ["check", "p.proc", ""],
        ["learn", ""],
        ["features", "", "-o", "out"],
        ["report", "", "-o", "x.html"],
    ):
        assert main(words) == 2
        assert "the path is empty" in capsys.readouterr().err
        assert sorted(os.listdir()) == ["p.proc", "v0.npy", "v1.npy"]


def test_python_m_stepcut() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "stepcut", "--version"], capture_output=True, text=True, check=True
    )
    assert run.stdout == f"stepcut {__version__}\n"
