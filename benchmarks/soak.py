"""Run everything for a long time: `make soak SECONDS=3600`; figures as JSON, exit 1 after a failure.

A quarter of the time each:
guide   a stream of features through `Procedure.guide()`: do memory or update time grow?
learn   one video in twenty broken: is each reported, and are the others learned?
view    50 readers of the viewer's state: p95 latency, memory of the server, failed requests
kills   learning killed at a random moment and restarted: is the procedure identical?
"""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import stepcut as sc
from shared import arguments
from stepcut.toy import make_kitchen

READERS = 50
Figures = dict[str, Any]


def task(seed: int, videos: int) -> list[np.ndarray]:
    """Features of videos with six ordered steps of 8 to 20 rows, sixteen numbers per row."""
    rng, centres = np.random.default_rng(seed), np.random.default_rng(1).normal(size=(6, 16))

    def video() -> np.ndarray:
        parts = [centre + 0.3 * rng.normal(size=(rng.integers(8, 20), 16)) for centre in centres]
        return np.concatenate(parts)

    return [video() for _ in range(videos)]


def soak_guide(seconds: float, _: Path) -> Figures:
    """Push rows into a guide as fast as it accepts them."""
    procedure = sc.learn(task(0, 12), steps=6, seed=0)
    guide, rate = procedure.guide(), float(procedure.rate)
    rows, took = np.concatenate(task(2, 50)), []
    pushed, end, memory = 0, time.monotonic() + seconds, [resident(os.getpid())]
    while time.monotonic() < end:
        began = time.process_time()
        for row in rows:
            guide.push(pushed / rate, row)
            pushed += 1
        took.append(1e6 * (time.process_time() - began) / len(rows))
        memory.append(resident(os.getpid()))
    tenth = max(1, len(took) // 10)
    first, last = float(np.median(took[:tenth])), float(np.median(took[-tenth:]))
    grown = memory[-1] - memory[min(5, len(memory) - 1)]
    return {
        "hours of stream": round(pushed / rate / 3600, 1),
        "microseconds per update, first tenth and last": [round(first), round(last)],
        "memory grown, MB": round(grown, 1),
        "failed": int(grown > 50 or last > 2 * first),
    }


def soak_learn(seconds: float, folder: Path) -> Figures:
    """Learn videos of which one in twenty is broken, until the time is up."""
    count = 200 if seconds >= 900 else 20
    kitchen = make_kitchen(folder / "kitchen", videos=4, duration=20)
    films, broken, chance = folder / "films", count // 20, random.Random(0)
    films.mkdir()
    for number in range(count):
        data = Path(kitchen.videos[number % 4]).read_bytes()
        # an empty box with a unique number, so that no video is a copy of another in the cache
        data += (16).to_bytes(4, "big") + b"free" + number.to_bytes(8, "big")
        if number < broken:
            data = data[: len(data) // 3] if number % 2 else chance.randbytes(len(data))
        (films / f"v{number:03d}{'-broken' * (number < broken)}.mp4").write_bytes(data)
    runs, wrong, end = 0, [], time.monotonic() + seconds
    while runs == 0 or time.monotonic() < end:
        place = folder / f"p{runs}.proc"
        words = command("learn", films, "-k", "6", "-o", place, "--quiet", "--seed", runs)
        run = subprocess.run(words, capture_output=True, text=True, check=False)
        told = (run.returncode, run.stdout.count("-broken: "), len(sc.load(place).timelines))
        if told != (2, broken, count - broken):
            wrong.append([*told, run.stderr[-300:]])
        runs += 1
    return {"films": count, "broken": broken, "runs": runs, "wrong": wrong, "failed": len(wrong)}


def soak_view(seconds: float, folder: Path) -> Figures:
    """Request the state of the viewer from many threads."""
    place = folder / "view.proc"
    sc.learn(task(0, 30), steps=6, seed=0, output=place)
    words = command("view", place, "--no-browser")
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = server.stdout.readline().strip().split("#")[0].rstrip("/")
    took, errors, end = [], [], time.monotonic() + seconds

    def read(_: int) -> None:
        while time.monotonic() < end:
            began = time.perf_counter()
            try:
                urllib.request.urlopen(f"{address}/api/state", timeout=30).read()
            except OSError as error:
                errors.append(str(error))
            took.append(1000 * (time.perf_counter() - began))
            time.sleep(0.5)  # like a page that polls

    with ThreadPoolExecutor(READERS) as readers:
        reading = readers.map(read, range(READERS))
        time.sleep(min(10, seconds / 4))
        before = resident(server.pid)
        list(reading)
    grown = resident(server.pid) - before
    server.send_signal(signal.SIGINT)
    server.wait(30)
    return {
        "requests": len(took),
        "readers": READERS,
        "p50 and p95, ms": np.percentile(took, [50, 95]).round().tolist(),
        "memory grown, MB": round(grown, 1),
        "errors": errors[:3],
        "failed": len(errors),
    }


def soak_kills(seconds: float, folder: Path) -> Figures:
    """Kill a learning run at a random moment, restart it, and compare with an undisturbed run."""
    features, whole, place = (folder / name for name in ("features", "whole.proc", "killed.proc"))
    features.mkdir()
    for number, rows in enumerate(task(0, 8)):
        np.save(features / f"v{number}.npy", rows)
    began, quiet = time.monotonic(), {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.run(command("learn", features, "-k", "6", "-o", whole), check=True, **quiet)
    length, wrong, kills = time.monotonic() - began, 0, 0
    end, chance = time.monotonic() + seconds, random.Random(0)
    words = command("learn", features, "-k", "6", "-o", place)
    while kills == 0 or time.monotonic() < end:
        shutil.rmtree(place, ignore_errors=True)
        run = subprocess.Popen(words, **quiet)
        time.sleep(chance.uniform(0, length))
        run.kill()
        run.wait()
        kills += 1
        again = subprocess.run(words, check=False, **quiet)
        wrong += again.returncode != 0 or learned(place) != learned(whole)
    return {"kills": kills, "ended otherwise": wrong, "failed": wrong}


def learned(place: Path) -> tuple[object, bytes]:
    [file] = place.glob("revisions/*/model.safetensors")
    return sc.load(place).timelines, file.read_bytes()


PARTS = {"guide": soak_guide, "learn": soak_learn, "view": soak_view, "kills": soak_kills}


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "stepcut", *map(str, words)]


def resident(pid: int) -> float:
    """Memory of a process, in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("seconds", type=float, nargs="?", default=600.0)
    parser.add_argument("--only", choices=list(PARTS), nargs="+", default=list(PARTS))
    args = parser.parse_args()
    figures: Figures = {"seconds": args.seconds, "cores": os.cpu_count()}
    for name in args.only:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["STEPCUT_CACHE"] = str(Path(folder) / "cache")
            figures[name] = PARTS[name](args.seconds / len(args.only), Path(folder))
            print(f"{name}: {json.dumps(figures[name])}", file=sys.stderr, flush=True)
    print(json.dumps(figures, indent=1))
    return 1 if any(figures[name]["failed"] for name in args.only) else 0


if __name__ == "__main__":
    sys.exit(main())
