"""The tables in a page of the docs: each stands between `<!-- table NAME -->` and `<!-- end -->`."""

from __future__ import annotations

import re
from collections.abc import Mapping


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
