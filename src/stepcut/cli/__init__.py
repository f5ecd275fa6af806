"""The command line: one small file per command, and the words of each in `words/`."""

import sys

from stepcut.errors import printable
from stepcut.progress import Bar


def say(text: str) -> None:
    """One line on standard error, in place of a bar that stands there."""
    Bar.clear()
    line = " ".join(part.strip() for part in text.splitlines())
    print(f"stepcut: {printable(line)}", file=sys.stderr)
