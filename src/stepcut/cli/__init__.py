"""The command line: one file per command, with its options and help in `words/`."""

import sys

from stepcut.errors import printable
from stepcut.progress import Bar


def say(text: str) -> None:
    Bar.clear()
    line = " ".join(part.strip() for part in text.splitlines())
    print(f"stepcut: {printable(line)}", file=sys.stderr)
