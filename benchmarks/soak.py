"""Run everything for a long time: `make soak SECONDS=3600`; figures as JSON, exit 1 after a failure.

guide   a stream of features through `Procedure.guide()`: do memory or update time grow?
people  three people edit and teach beside 50 readers of the viewer: is an edit lost?
kills   learning and undoing, each killed at a random moment: is all there afterwards?
agree   100 videos through `guide` and `segment`, once: how many rows get the same step?
many    10,000 videos learned, once: CPU time and memory
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
from stepcut.procedure.edits import Edits

PEOPLE, READERS, SEEN, VIDEOS = 3, 50, 100, 10_000
STEPCUT = [sys.executable, "-m", "stepcut"]
UNDO = "import sys; from stepcut.procedure.edits import Edits; Edits(sys.argv[1]).undo()"
QUIET: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
Figures = dict[str, Any]


def task(seed: int, videos: int, folder: Path | None = None) -> list[np.ndarray]:
    """Features of videos with six ordered steps of 8 to 20 rows, sixteen numbers per row."""
    rng, centres = np.random.default_rng(seed), np.random.default_rng(1).normal(size=(6, 16))

    def video() -> np.ndarray:
        parts = [centre + 0.3 * rng.normal(size=(rng.integers(8, 20), 16)) for centre in centres]
        return np.concatenate(parts)

    made = [video() for _ in range(videos)]
    for number, rows in enumerate(made if folder else ()):
        np.save(f"{folder}/v{number}.npy", rows)
    return made


def guide(seconds: float, _: Path) -> Figures:
    follower = sc.learn(task(0, 12), steps=6, seed=0).guide()
    rows, took = np.concatenate(task(2, 50)), []
    pushed, end, memory = 0, time.monotonic() + seconds, [resident(os.getpid())]
    while time.monotonic() < end:
        began = time.process_time()
        for row in rows:
            follower.push(float(pushed), row)
            pushed += 1
        took.append(1e6 * (time.process_time() - began) / len(rows))
        memory.append(resident(os.getpid()))
    tenth = max(1, len(took) // 10)
    first, last = float(np.median(took[:tenth])), float(np.median(took[-tenth:]))
    grown = memory[-1] - memory[min(5, len(memory) - 1)]
    return {
        "hours of stream": round(pushed / 3600, 1),
        "microseconds per update, first tenth and last": [round(first), round(last)],
        "memory grown, MB": round(grown, 1),
        "failed": int(grown > 50 or last > 2 * first),
    }


def people(seconds: float, folder: Path) -> Figures:
    place = folder / "view.proc"
    task(0, 30, folder)
    sc.learn(folder, steps=6, seed=0, output=place)
    words = [*STEPCUT, "view", str(place), "--no-browser"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = server.stdout.readline().strip().split("#")[0].rstrip("/")
    head = {"Content-Type": "application/json", "Origin": "/".join(address.split("/")[:3])}
    took, errors, confirmed, late = list[float](), list[str](), set[str](), list[str]()
    end, memory = time.monotonic() + seconds, [resident(server.pid)]

    def ask(call: str, **body: Any) -> Any:
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(f"{address}/api/{call}", data, head if body else {})
        began = time.perf_counter()
        try:
            return json.load(urllib.request.urlopen(request, timeout=60))
        except OSError as error:  # 409: another person was first
            (late if getattr(error, "code", 0) == 409 else errors).append(f"{call}: {error}")
        finally:
            took.append(1000 * (time.perf_counter() - began))

    def act(person: int) -> None:
        chance, made = random.Random(person), 0
        while time.monotonic() < end:
            time.sleep(chance.uniform(0.5, 1.5))
            state = ask("state")
            if person >= PEOPLE or not state:
                continue
            step, name = chance.randrange(6), f"{person}-{made}"
            change: Figures = {"do": "rename", "step": step, "name": name}
            if chance.random() < 0.5:
                video, start = chance.choice(state["videos"])["name"], chance.uniform(0, 40)
                change = {"do": "mark", "video": video, "start": start, "end": start + 2}
                change["step"] = step
            if answer := ask("edit", revision=state["revision"], edit=change, author=name):
                confirmed.add(name)
                made += 1
                if made % 20 == 0:
                    ask("teach", revision=answer["state"]["revision"])
                memory.append(resident(server.pid))

    with ThreadPoolExecutor(READERS + PEOPLE) as pool:
        list(pool.map(act, range(READERS + PEOPLE)))
    server.send_signal(signal.SIGINT)
    server.wait(600)
    events = [json.loads(line) for line in (place / "events.jsonl").read_text().splitlines()]
    lost = len(confirmed - {event["author"] for event in events})
    return {
        "requests": len(took),
        "p50 and p95, ms": np.percentile(took, [50, 95]).round().tolist(),
        "edits": len(confirmed),
        "too late, another person was first": len(late),
        "taught": sum(event["verb"] == "teach" for event in events),
        "lost": lost,
        "steps": sc.load(place).steps,
        "memory, first and last, MB": [round(memory[0]), round(memory[-1])],
        "errors": errors[:3],
        "failed": lost + len(errors),
    }


def kills(seconds: float, folder: Path) -> Figures:
    task(0, 8, folder)
    whole, place, words = folder / "whole.proc", folder / "killed.proc", [*STEPCUT, "learn"]
    words += [*map(str, folder.glob("*.npy")), "-k", "6", "-o"]
    began = time.monotonic()
    subprocess.run([*words, str(whole)], check=True, **QUIET)
    length, wrong, count = time.monotonic() - began, 0, 0
    end, chance = time.monotonic() + seconds, random.Random(0)

    def kill(*words: str) -> None:
        with subprocess.Popen(words, **QUIET) as run:
            time.sleep(chance.uniform(0, length))
            run.kill()

    def learned(place: Path) -> tuple[object, bytes]:
        [file] = place.glob("revisions/*/model.safetensors")
        return sc.load(place).timelines, file.read_bytes()

    while count == 0 or time.monotonic() < end:
        shutil.rmtree(place, ignore_errors=True)
        kill(*words, str(place))
        again = subprocess.run([*words, str(place)], check=False, **QUIET)
        wrong += again.returncode != 0 or learned(place) != learned(whole)
        for name in ("first", "second"):
            Edits(place).do({"do": "rename", "step": 0, "name": name})
        kill(sys.executable, "-c", UNDO, str(place))
        wrong += sc.load(place).steps[0] not in ("first", "second")
        count += 2
    return {"kills": count, "failed": wrong}


def agree(_: float, __: Path) -> Figures:
    procedure, same = sc.learn(task(0, 12), steps=6, seed=0), list[float]()
    for rows in task(5, SEEN):
        push = procedure.guide().push
        now = np.array([push(float(second), row).step for second, row in enumerate(rows)])
        whole = procedure.segment(rows).labels(np.arange(len(rows)) + 0.5)
        same.append(100 * float(np.mean(now == whole)))
    shares = [round(min(same)), round(float(np.mean(same)))]
    return {"same step, % of a video, least and mean": shares, "failed": int(shares[1] < 80)}


def many(_: float, folder: Path) -> Figures:
    began, place = time.process_time(), folder / "many.proc"
    sc.learn(task(0, VIDEOS), steps=6, seed=0, output=place)
    return {
        "CPU seconds": round(time.process_time() - began),
        "peak of memory, MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "failed": VIDEOS - len(sc.load(place).timelines),
    }


PARTS = {part.__name__: part for part in (guide, people, kills, agree, many)}


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
    share = args.seconds / max(1, len({*args.only} - {"agree", "many"}))
    for name in args.only:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["STEPCUT_CACHE"] = str(Path(folder) / "cache")
            figures[name] = PARTS[name](share, Path(folder))
            print(f"{name}: {json.dumps(figures[name])}", file=sys.stderr, flush=True)
    print(json.dumps(figures, indent=1))
    return 1 if any(figures[name]["failed"] for name in args.only) else 0


if __name__ == "__main__":
    sys.exit(main())
