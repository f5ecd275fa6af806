"""Measure the package: lines by folder, import cycles and upward imports (both 0), import time,
install size.

python benchmarks/size.py            lines, cycles, times
python benchmarks/size.py --install
    also install the package twice into new environments and measure the size
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from shared import arguments, report
from stepcut.tables import Cell, Table

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "stepcut"


def lines_by_folder() -> Table:
    """Lines of Python, folder by folder."""
    counted: dict[str, int] = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).parts
        room = (
            "/".join(parts[:2])
            if parts[0] == "methods" and len(parts) > 2
            else parts[0]
            if len(parts) > 1
            else "."
        )
        counted[room] = counted.get(room, 0) + len(path.read_text(encoding="utf-8").splitlines())
    rows: list[list[Cell]] = [[room, count] for room, count in sorted(counted.items())]
    return Table(
        ["folder", "lines"],
        [*rows, ["all", sum(counted.values())]],
        "lines of Python in src/stepcut",
    )


def house() -> Table:
    """Whether the architecture tests pass, which count cycles and upward imports."""
    checks = ("test_no_circle_of_files", "test_imports_point_down")
    rows: list[list[Cell]] = []
    for check in checks:
        words = [sys.executable, "-m", "pytest", "-q", "tests/test_architecture.py", "-k", check]
        passed = subprocess.run(words, cwd=ROOT, capture_output=True, check=False).returncode == 0
        rows.append([check, "0" if passed else "some: run the test"])
    return Table(["what", "found"], rows, "cycles and upward imports")


def times(repeats: int = 5) -> Table:
    """Median seconds of a bare interpreter, of `import stepcut` and of `stepcut -h`, interleaved."""
    commands = {
        "python": ["-c", "pass"],
        "import stepcut": ["-c", "import stepcut"],
        "stepcut -h": ["-m", "stepcut", "-h"],
    }
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(repeats):
        for name, words in commands.items():
            start = time.perf_counter()
            subprocess.run(
                [sys.executable, *words], check=True, capture_output=True, cwd=ROOT / "src"
            )
            taken[name].append(time.perf_counter() - start)
    bare = statistics.median(taken["python"])
    rows: list[list[Cell]] = [
        [name, statistics.median(t), statistics.median(t) / bare] for name, t in taken.items()
    ]
    return Table(
        ["what", "seconds", "times bare Python"],
        rows,
        f"start time, median of {repeats}",
        digits=2,
    )


def weights() -> Table:
    """Megabytes of an install in a new environment, without extras and with `[cnc]`."""
    rows: list[list[Cell]] = []
    for extra in ("", "[cnc]"):
        with tempfile.TemporaryDirectory() as folder:
            python = Path(folder) / "bin" / "python"
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            before = _bytes(Path(folder))
            if extra:  # the CPU build; a newer torch would install CUDA
                subprocess.run([python, "-m", "pip", "install", "-q", "torch==2.13.0"], check=True)
            subprocess.run([python, "-m", "pip", "install", "-q", f"{ROOT}{extra}"], check=True)
            rows.append([f"stepcut{extra}", round((_bytes(Path(folder)) - before) / 1e6)])
    return Table(["install", "MB"], rows, "size of an install")


def _bytes(folder: Path) -> int:
    return sum(
        path.stat().st_size
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    )


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument(
        "--install", action="store_true", help="also measure the size of an install (minutes)"
    )
    args = parser.parse_args()
    tables = [lines_by_folder(), house(), times()] + ([weights()] if args.install else [])
    with report(__file__):
        print("\n\n".join(map(str, tables)))
