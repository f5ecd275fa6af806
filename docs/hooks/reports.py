"""While the site is built: links between pages and reports, which lie outside of docs/ in the repository."""

from __future__ import annotations

from typing import Any


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links that work in the repository, as links that work in the site."""
    if page.file.src_path.startswith("reports/"):
        return markdown.replace("](../../docs/", "](../")
    return markdown.replace("](../benchmarks/reports/", "](reports/")
