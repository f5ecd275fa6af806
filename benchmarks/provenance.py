"""The header table of a report."""

from __future__ import annotations

from datetime import UTC, datetime

from stepcut.version import __version__


def provenance(command: str, seeds: str, data: str) -> str:
    """Command, version, seeds, data and date as a table."""
    rows = {
        "Command": f"`{command}`",
        "Version": f"stepcut {__version__}",
        "Seeds": seeds,
        "Data": data,
        "Date": f"{datetime.now(UTC):%Y-%m-%d}",
    }
    return "| | |\n|---|---|\n" + "\n".join(f"| {name} | {text} |" for name, text in rows.items())
