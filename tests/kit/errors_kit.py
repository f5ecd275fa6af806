"""Expect an error by its attributes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def raises(
    kind: type[Exception] | tuple[type[Exception], ...], *words: str, **facts: object
) -> Iterator[pytest.ExceptionInfo[Any]]:
    """Expect an error of `kind` with these attributes and each of `words` in its message."""
    with pytest.raises(kind) as caught:
        yield caught
    assert {name: getattr(caught.value, name) for name in facts} == facts
    for word in words:
        assert word in str(caught.value)
