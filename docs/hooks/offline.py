"""While the site is built: no script from elsewhere, and a 404 page that works from a folder."""

from __future__ import annotations

import re
from typing import Any

SCRIPT = re.compile(r"<script\b([^>]*)>(.*?)</script>", re.DOTALL)
ADDRESS = re.compile(r"""\ssrc=["']?https?://""")
WAY_OUT = '<p>There is no such page. Go to the <a href="index.html">start page</a>, or search.</p>'
IMPORT = re.compile(r"""\bimport\s*(?:\(|[^"';]*\bfrom\b|)\s*["']https?://""")


def on_post_page(output: str, **_: Any) -> str:
    """A page without scripts from other sites; themes and notebooks bring some."""
    return SCRIPT.sub(lambda found: "" if _from_elsewhere(*found.groups()) else found[0], output)


def on_post_template(output: str, template_name: str, **_: Any) -> str:
    """The 404 page with a way out, and links that start where it lies, not at the root of a server."""
    if template_name != "404.html":
        return output
    output = output.replace("</h1>", "</h1>" + WAY_OUT, 1)
    return on_post_page(re.sub(r"""((?:href|src)=["']?)/(?!/)""", r"\1", output))


def _from_elsewhere(attributes: str, content: str) -> bool:
    return bool(ADDRESS.search(attributes) or IMPORT.search(content))
