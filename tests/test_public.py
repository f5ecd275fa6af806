"""The public names: exact, documented, and quick to import."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import stepcut


def test_the_public_names_are_exactly_these() -> None:
    assert sorted(stepcut.__all__) == sorted(
        ["Procedure", "Segment", "Timeline", "__version__", "evaluate", "learn", "load", "read", "view", "write"]
    )


def test_every_public_name_is_there_and_says_what_it_is_for() -> None:
    for name in stepcut.__all__:
        thing = getattr(stepcut, name)
        assert name == "__version__" or thing.__doc__


def test_every_parameter_of_a_public_name_is_documented() -> None:
    for name in stepcut.__all__:
        thing = getattr(stepcut, name)
        for verb, part in inspect.getmembers(thing) if inspect.isclass(thing) else [(name, thing)]:
            if (inspect.isfunction(part) or inspect.ismethod(part)) and not verb.startswith("_"):
                lost = [each for each in inspect.signature(part).parameters if each not in (inspect.getdoc(part) or "")]
                assert set(lost) <= {"self"}, f"{name}, {verb}: {lost}"


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'lern'"):
        _ = stepcut.lern


@pytest.mark.parametrize("words", [["-c", "import stepcut"], ["-m", "stepcut.cli.main", "-h"]])
def test_neither_import_nor_help_loads_torch(words: list[str]) -> None:
    run = subprocess.run([sys.executable, "-X", "importtime", *words], capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip() for line in run.stderr.splitlines()}
    assert not loaded & {"torch", "numpy", "av", "sklearn", "numba"}
