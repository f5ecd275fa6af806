"""The tiny task of `use_kit`, learned once for all tests of use."""

from __future__ import annotations

import pytest
from use_kit import Kitchen, make_kitchen


@pytest.fixture(scope="session")
def kitchen() -> Kitchen:
    return make_kitchen()
