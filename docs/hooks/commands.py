"""While the site is built: the help of every command in place of the mark in docs/cli.md."""

from __future__ import annotations

import subprocess
import sys
from typing import Any


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill the page of commands; every other page stays as it is."""
    if page.file.src_path != "cli.md":
        return markdown
    from stepcut.cli.main import COMMANDS

    told = [f"## stepcut {name}\n\n```text\n{_help(name)}```\n" for name in COMMANDS]
    return markdown.replace("<!-- commands -->", "\n".join(told))


def _help(command: str) -> str:
    words = [sys.executable, "-m", "stepcut", command, "--help"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout
