"""The command line as a whole: help, errors in one line, exit codes."""

from __future__ import annotations

import pytest

from stepcut.cli.main import COMMANDS, main
from stepcut.version import __version__


def test_help_starts_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-h"]) == 0
    assert capsys.readouterr().out.startswith("examples:\n  stepcut demo")


def test_no_word_at_all_gives_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    assert "commands:" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"stepcut {__version__}\n"


def test_an_unknown_command_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lern"]) == 2
    assert "did you mean 'learn'?" in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_examples_and_the_common_options(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    text = capsys.readouterr().out
    assert ended.value.code == 0
    assert text.index("examples:") < text.index("--seed")
    assert text.count(f"stepcut {name}") >= 2
    assert "--quiet" in text


def test_an_error_is_one_line_and_exit_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["segment", "no.proc", "new.mp4"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("stepcut: no.proc: there is no such procedure.")
    assert error.count("\n") == 1


def test_interrupting_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("stepcut.cli.main.run_command", interrupted)
    assert main(["learn", "x"]) == 130
    assert "run the same command again to go on" in capsys.readouterr().err
