"""Completion: each shell is asked what it would offer, where that shell is installed."""

import shutil
import subprocess

import pytest

from stepcut.cli.main import main


def script(shell, capsys):
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def ask(shell, *words):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    return subprocess.run([shell, *words], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    ("words", "offered", "not_offered"),
    [
        ("stepcut ch", {"check"}, {"learn"}),
        ("stepcut learn --st", {"--steps", "--strict"}, {"--json"}),
        ("stepcut learn --log ", {"bar", "json"}, {"--steps"}),
        ("stepcut data ", {"list", "stats"}, {"learn"}),
    ],
)
def test_bash(words, offered, not_offered, capsys):
    given = words.split(" ")
    asked = (
        f"COMP_WORDS=({' '.join(repr(word) for word in given)}); COMP_CWORD={len(given) - 1}; "
        f"_shtab_stepcut stepcut {given[-1]!r}; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    found = set(ask("bash", "-c", f"{script('bash', capsys)}\n{asked}").split())
    assert offered <= found
    assert not found & not_offered


def test_zsh_reads_the_script(capsys):
    begin = "autoload -U +X compinit && compinit -u -D"
    found = ask(
        "zsh", "-f", "-c", f"{begin}\n{script('zsh', capsys)}\nprint -l -- ${{_comps[stepcut]}}"
    )
    assert "stepcut" in found


def test_fish_offers_options_of_the_command_alone(capsys):
    found = ask(
        "fish", "--no-config", "-c", f"{script('fish', capsys)}\ncomplete -C 'stepcut check --'"
    )
    assert "--json" in found
    assert "--names" not in found


def test_an_unknown_shell_is_told(capsys):
    assert main(["completion", "csh"]) == 2
    assert "bash" in capsys.readouterr().err
