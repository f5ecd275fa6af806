"""Measure the time to write and read a large label file in each format.

python benchmarks/labels.py            60 MB each, CPU time of one core
python benchmarks/labels.py 6 csv elan
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from shared import arguments, report
from stepcut.formats import FORMATS, read_folder, write
from stepcut.tables import Table
from stepcut.timeline import Segment, Timeline
from stepcut.version import __version__

STEPS = [f"step number {number}" for number in range(20)]
RATE = 10


def make(segments: int) -> Timeline:
    """A video with a segment every half second."""
    each = [Segment(0.5 * n, 0.5 * n + 0.4, STEPS[n % len(STEPS)]) for n in range(segments)]
    return Timeline(each, 0.5 * segments, STEPS, "film.mp4")


def main() -> None:
    """Write and read a file of each format."""
    parser = arguments(__doc__)
    parser.add_argument("megabytes", type=float, nargs="?", default=60.0)
    parser.add_argument("formats", nargs="*", default=list(FORMATS))
    args = parser.parse_args()
    table = Table(
        ["format", "MB", "segments", "written in s", "read in s"], [], f"stepcut {__version__}"
    )
    for name in args.formats:
        form = FORMATS[name]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, f"film{form.suffix}")
            write(path, make(2000), name, RATE)
            count = int(args.megabytes * 1e6 / path.stat().st_size * 2000)
            timeline, began = make(count), time.process_time()
            write(path, timeline, name, RATE)
            written = time.process_time()
            videos = read_folder(path, name, RATE) if form.read else None
            again = None if videos is None else sum(map(len, videos.values()))
            read = time.process_time() - written if form.read else None
            assert again in (None, count), f"{name}: {again} of {count} segments were read"
            table.rows.append([name, path.stat().st_size / 1e6, count, written - began, read])
            print(f"{name}: {count} segments", flush=True)
    print(table)


if __name__ == "__main__":
    with report(__file__):
        main()
