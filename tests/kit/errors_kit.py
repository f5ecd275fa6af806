"""Expect an error by its attributes."""

from contextlib import contextmanager

import pytest


@contextmanager
def raises(kind, *words, **facts):
    """Expect an error of `kind` with these attributes and each of `words` in its message."""
    with pytest.raises(kind) as caught:
        yield caught
    assert {name: getattr(caught.value, name) for name in facts} == facts
    for word in words:
        assert word in str(caught.value)
