"""Find the cycles of long recordings: `python benchmarks/cycles.py DATA` (knots, OpenPack)."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np

from shared import arguments
from stepcut.errors import OptionError
from stepcut.features.cycles import find_cycles
from stepcut.features.extract import extract
from stepcut.features.features import Features
from stepcut.tables import Cell, Table
from stepcut.toy import toy_features

Rows = list[np.ndarray]
KNOTS = 3


def toy(shuffle: float, idle: float) -> tuple[Rows, float]:
    """30 cycles of the toy kitchen."""
    rows, _ = toy_features(30, rate=2, duration=40, offset=0, shuffle=shuffle, background=0)
    return rows, idle


def join(recordings: Rows, idle: float) -> tuple[Features, np.ndarray]:
    """One recording with idle time before each of `recordings`, and when each starts and ends."""
    rng, parts, spans, length = np.random.default_rng(0), [], [], 0
    spread = np.concatenate(recordings).std(axis=0)
    still = rng.normal(size=len(spread)) * spread / 2
    for rows in recordings:
        wait = int(idle * len(rows) * rng.uniform(0.1, 0.9))
        parts += [still + 0.2 * spread * rng.normal(size=(wait, len(spread))), rows]
        spans.append((length + wait, length + wait + len(rows)))
        length += wait + len(rows)
    joined = np.concatenate(parts).astype(np.float32)
    return Features(joined, Fraction(2), len(joined) / 2, "line"), np.array(spans) / 2


def judge(name: str, recordings: Rows, idle: float, marks: int) -> list[Cell]:
    """Precision and recall of starts within a tenth of a cycle."""
    features, true = join(recordings, idle)
    try:
        found = [one.start for one in find_cycles(features, true[1 : 1 + marks].tolist()).cycles]
    except OptionError:
        return [name, marks, len(true), 0, None, 0.0]
    near = np.abs(np.subtract.outer(true[:, 0], found))
    near = near <= 0.1 * np.median(true[:, 1] - true[:, 0])
    shares = 100 * near.any(axis=0).mean(), 100 * near.any(axis=1).mean()
    return [name, marks, len(true), len(found), *map(float, shares)]


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("data", type=Path)
    data = parser.parse_args().data
    files = sorted((data / "openpack/features").glob("*.npy"))
    videos = sorted((data / "knot_tying/videos").iterdir())[:KNOTS]
    cases = {
        "toy line, pauses": toy(0, 1),
        "toy line, no pauses": toy(0, 0),
        "toy line, any valid order": toy(0.7, 1),
        "OpenPack": ([np.load(file).astype(np.float32) for file in files], 0.0),
        "three knots, idle time": ([one.rows for one in extract(videos)[0]], 1.0),
    }
    columns = ["recording", "marked", "cycles", "found", "precision", "recall"]
    rows = [judge(name, *case, marks) for name, case in cases.items() for marks in (0, 1, 2)]
    print(Table(columns, rows))


if __name__ == "__main__":
    main()
