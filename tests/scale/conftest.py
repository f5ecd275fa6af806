"""Films for the tests of scale are made as those of seeing are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "see"))


@pytest.fixture(scope="session")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three short films and a long one with a key frame every half second, with frames out of order."""
    from see_films import make_film

    folder = tmp_path_factory.mktemp("films")
    for number, frames in enumerate((30, 45, 61)):
        make_film(folder / f"v{number}.mp4", frames=frames, g="10", bf="2")
    make_film(folder / "v3.mp4", frames=240, g="10", bf="2")
    return folder
