"""While the site is built: no script from elsewhere, and a 404 page that works from a folder."""

from __future__ import annotations

import re
from typing import Any

ELSEWHERE = re.compile(r"""<script[^>]*\ssrc=["']?https?://[^>]*>\s*</script>""")


def on_post_page(output: str, **_: Any) -> str:
    """A page without scripts from other sites; themes and notebooks bring some."""
    return ELSEWHERE.sub("", output)


def on_post_template(output: str, template_name: str, **_: Any) -> str:
    """The 404 page with links that start where it lies, not at the root of a server."""
    if template_name != "404.html":
        return output
    return ELSEWHERE.sub("", re.sub(r"""((?:href|src)=["']?)/(?!/)""", r"\1", output))
