"""check_method: it passes what keeps the contract, ours too, and names what does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from stepcut.errors import OptionError
from stepcut.methods import METHODS
from stepcut.testing import check_method


def test_the_default_method_keeps_the_contract() -> None:
    kept = check_method(METHODS["stepcut"](steps=3, restarts=4))
    assert any("restore" in line for line in kept)


class Wrong:
    """The default method with one verb spoiled."""

    def __init__(self, spoil: str) -> None:
        self._spoil, self._inner = spoil, METHODS["stepcut"](steps=3, restarts=2)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def fit(self, features: Any, **options: Any) -> Any:
        self._inner.fit(features, **options)
        return None if self._spoil == "fit" else self

    def memberships(self, features: Any) -> Any:
        shares = self._inner.memberships(features)
        return [2 * share for share in shares] if self._spoil == "memberships" else shares

    def novelty(self, features: Any) -> Any:
        far = self._inner.novelty(features)
        return [-1 - one for one in far] if self._spoil == "novelty" else far

    def state(self) -> Any:
        return {"all": np.array([object()])} if self._spoil == "state" else self._inner.state()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [("fit", "returns the method itself"), ("memberships", "sum to 1"), ("novelty", "0 or more"), ("state", "arrays")],
)
def test_what_is_not_kept_is_named(spoil: str, said: str) -> None:
    method: Any = Wrong(spoil)
    with pytest.raises(OptionError, match=said):
        check_method(method)
