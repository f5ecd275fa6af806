"""What reports share: how each was made, on top, and tables between `<!-- table NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date

from stepcut.version import __version__


def provenance(command: str, seeds: str, data: str) -> str:
    """How a report was made, as the table that stands on top of each."""
    rows = {
        "Command": f"`{command}`",
        "Version": f"stepcut {__version__}",
        "Seeds": seeds,
        "Data": data,
        "Date": date.today().isoformat(),
    }
    return "| | |\n|---|---|\n" + "\n".join(f"| {name} | {text} |" for name, text in rows.items())


def fill(page: str, tables: Mapping[str, str]) -> str:
    """The text of a `page` with `tables`, by name, in place of those that stood there."""
    for name, text in tables.items():
        mark = re.compile(rf"(<!-- (?:table )?{name}\b[^>]*-->\n).*?(<!-- end -->)", re.DOTALL)
        page, count = mark.subn(lambda match, text=text: f"{match[1]}{text}\n{match[2]}", page)
        if not count:
            raise SystemExit(
                f"the page has no place for {name}: <!-- table {name} --> ... <!-- end -->"
            )
    return page
