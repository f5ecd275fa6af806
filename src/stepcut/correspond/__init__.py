"""Correspond: learn an embedding in which the same step of different videos lies close together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepcut.correspond.train import Embedder

__all__ = ["Embedder"]


def __getattr__(name: str) -> Any:
    """`Embedder` is looked up at the first use: it brings torch with it."""
    if name == "Embedder":
        from stepcut.correspond.train import Embedder

        return Embedder
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
