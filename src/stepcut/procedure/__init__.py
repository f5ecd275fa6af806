"""A procedure: learn it, keep it as a folder, correct it, use it."""

from __future__ import annotations

from stepcut.procedure.procedure import Procedure

__all__ = ["Procedure"]
