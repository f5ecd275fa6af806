"""Show how large the project is, folder by folder, beside 0.3.0: `make size`."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from shared import arguments
from stepcut.tables import Table

ROOT = Path(__file__).resolve().parents[1]
LAST = {
    "checking": 108_710, "cli": 96_506, "evaluation": 90_158, "features": 192_778,
    "files": 26_129, "formats": 128_468, "guidance": 33_582, "methods": 161_684,
    "order": 62_332, "paper": 225_237, "parallel": 24_605, "procedure": 193_878,
    "show": 161_245, "toy": 50_792, "(files)": 87_972,
}  # fmt: skip
"""Characters of Python of 0.3.0 (commit 94e1913e) by folder."""
WHOLE = {
    "src, characters": (1_644_076, 1_380_000),
    "src, files": (237, 150),
    "src, imports": (108_963, 75_000),
    "tests, lines": (30_640, 24_000),
    "benchmarks, characters": (277_917, 130_000),
    "JavaScript and CSS, characters": (165_237, 220_000),
    "docs, words": (15_909, 18_000),
}
"""The same of the whole of 0.3.0, and the most that 0.4.0 may have."""


def main() -> None:
    """Print the characters of each folder, and the sizes of the whole with their limits."""
    arguments(__doc__).parse_args()
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    texts = {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in listed.stdout.splitlines()
        if name.endswith((".py", ".js", ".css", ".md")) and (ROOT / name).is_file()
    }
    python = {name: text for name, text in texts.items() if name.endswith(".py")}
    source = {name.split("/", 2)[2]: t for name, t in python.items() if name.startswith("src/")}
    now = Counter[str]()
    for name, text in source.items():
        now[name.split("/")[0] if "/" in name else "(files)"] += len(text)
    rows = [[room, LAST.get(room, "–"), now.get(room, 0)] for room in sorted({*now, *LAST})]
    print(Table(["folder", "0.3.0", "now"], rows, "Characters of Python in src/stepcut"))
    found = {
        "src, characters": sum(map(len, source.values())),
        "src, files": len(source),
        "src, imports": sum(map(import_characters, source.values())),
        "tests, lines": _sum(python, "tests/", lambda text: text.count("\n")),
        "benchmarks, characters": _sum(python, "benchmarks/", len),
        "JavaScript and CSS, characters": _sum(
            {name: t for name, t in texts.items() if name.endswith((".js", ".css"))}, "src/", len
        ),
        "docs, words": _sum(texts, "docs/", lambda text: len(text.split())),
    }
    whole = [[name, *WHOLE[name], number] for name, number in found.items()]
    print()
    print(Table(["what", "0.3.0", "limit", "now"], whole, "The whole"))


def import_characters(text: str) -> int:
    """Characters of the import statements at the top level of a module."""
    found = re.findall(r"^(?:from [\w.]+ )?import (?:\([^)]*\)|.*)\n", text, flags=re.MULTILINE)
    return sum(map(len, found))


def _sum(texts: dict[str, str], start: str, count: Callable[[str], int]) -> int:
    return sum(count(text) for name, text in texts.items() if name.startswith(start))


if __name__ == "__main__":
    main()
