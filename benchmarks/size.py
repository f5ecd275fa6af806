"""Show how large the project is, folder by folder, and the whole beside 0.3.0: `make size`."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

from shared import arguments
from stepcut.tables import Table

ROOT = Path(__file__).resolve().parents[1]
WHOLE = {
    "src, characters": (1_644_076, 1_380_000),
    "src, files": (237, 150),
    "tests, lines": (30_640, 24_000),
    "benchmarks, characters": (277_917, 130_000),
    "JavaScript and CSS, characters": (165_237, 220_000),
    "docs, words": (15_909, 18_000),
}
"""The same of the whole of 0.3.0, and the most that 0.4.0 may have."""


def main() -> None:
    """Print the characters of each folder, and the sizes of the whole with their limits."""
    arguments(__doc__).parse_args()
    listed = subprocess.check_output(["git", "ls-files"], cwd=ROOT, text=True).splitlines()
    files = [name for name in listed if name.endswith((".py", ".js", ".css", ".md"))]
    texts = {name: (ROOT / name).read_text() for name in files if (ROOT / name).is_file()}

    def some(start: str, *ends: str) -> dict[str, str]:
        return {n: t for n, t in texts.items() if n.startswith(start) and n.endswith(ends)}

    source, folders = some("src/", ".py"), Counter[str]()
    for name, text in source.items():
        folders[name.split("/")[2]] += len(text)
    rows = [[name, count] for name, count in sorted(folders.items())]
    print(Table(["in src/stepcut", "characters"], rows), end="\n\n")
    found = (
        sum(map(len, source.values())),
        len(source),
        sum(text.count("\n") for text in some("tests/", ".py").values()),
        sum(map(len, some("benchmarks/", ".py").values())),
        sum(map(len, some("src/", ".js", ".css").values())),
        sum(len(text.split()) for text in some("docs/", ".md").values()),
    )
    whole = [[name, *WHOLE[name], n] for name, n in zip(WHOLE, found, strict=True)]
    print(Table(["the whole", "0.3.0", "limit", "now"], whole))


if __name__ == "__main__":
    main()
