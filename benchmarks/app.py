"""Measure how fast the pages of the app are with 200 videos: `python benchmarks/app.py [--videos
200]`.

Writes a procedure with synthetic timelines over links to one toy video of ten minutes, opens it in
a headless Chromium, and measures the time until the page is ready, the longest task during scrubbing
and scrolling, and their CPU time, which does not depend on other load. `--shots FOLDER` takes
screenshots of every page of the app instead, for docs/.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

from shared import arguments, report
from stepcut.app.server import Running
from stepcut.app.workspace import Workspace
from stepcut.colours import colour
from stepcut.toy import make_kitchen

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
STEPS = 12
SEGMENTS = 40
"""Segments per video."""
WATCH = """() => {
  window.long = [];
  new PerformanceObserver((list) => window.long.push(...list.getEntries().map((one) => one.duration)))
    .observe({ type: "longtask", buffered: false });
}"""


def main() -> None:
    """Measure, or take screenshots."""
    parser = arguments(__doc__)
    parser.add_argument("--videos", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--shots", type=Path, help="take screenshots into this folder")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, browser() as opened:
        os.environ["STEPCUT_CACHE"] = f"{folder}/cache"
        root = Path(folder, "work")
        if args.shots:
            photograph(opened, root, args.shots)
        else:
            made = make_kitchen(Path(folder, "toy"), videos=1, duration=8).folder
            film = next((made / "videos").iterdir())
            write_large(root / "large.proc", film, args.videos, 60 * args.minutes)
            with report(__file__):
                measure(opened, root)


@contextmanager
def browser() -> Iterator[Any]:
    """Start a headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield opened
        opened.close()


def write_large(folder: Path, film: Path, videos: int, seconds: float) -> None:
    """Write a procedure with synthetic timelines; every video is a link to the same file."""
    folder.mkdir(parents=True)
    dice = random.Random(0)
    config = {"format": 1, "stepcut": "0", "method": "stepcut", "rate": "2", "fingerprint": "f00d"}
    steps = [{"step": k, "name": f"step {k}", "colour": colour(k)} for k in range(STEPS)]
    timelines = {}
    for number in range(videos):
        path = folder.parent / f"video{number:03d}.mp4"
        path.symlink_to(film)
        edges = sorted(dice.uniform(0, seconds) for _ in range(SEGMENTS - 1))
        bounds = zip([0.0, *edges], [*edges, seconds], strict=True)
        timelines[path.stem] = {
            "path": str(path),
            "duration": seconds,
            "samples": int(2 * seconds),
            "segments": [
                {"start": a, "end": b, "step": dice.randrange(STEPS), "confidence": 0.8}
                for a, b in bounds
            ],
        }
    for file, value in (("config", config), ("steps", steps), ("timelines", timelines)):
        (folder / f"{file}.json").write_text(json.dumps(value))


def measure(opened: Any, root: Path) -> None:
    """Print the time until the page is ready, and the longest task of scrubbing and scrolling."""
    running = Running(Workspace(root)).start()
    page = opened.new_page(viewport={"width": 1280, "height": 800})
    page.goto(running.address)
    page.wait_for_selector("body.ready")
    identity = page.locator(".procedures a").get_attribute("href")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def busy() -> float:
        """CPU time of the page's main thread in milliseconds; independent of other load."""
        found = session.send("Performance.getMetrics")["metrics"]
        return 1000 * float(next(one["value"] for one in found if one["name"] == "TaskDuration"))

    opened_in, work = [], []
    for _ in range(6):  # the server reads the procedure at the first request
        began, served = busy(), process_time()
        page.goto(f"{running.address}{identity}")
        page.wait_for_selector("body.ready")
        opened_in.append(page.evaluate("performance.now()"))
        work.append(busy() - began + 1000 * (process_time() - served))
    page.wait_for_timeout(2000)
    page.evaluate(WATCH)
    moves = [busy()]
    box = page.locator("#stage .ruler").bounding_box()
    page.mouse.move(box["x"] + 5, box["y"] + 8)
    page.mouse.down()
    for step in range(120):
        page.mouse.move(box["x"] + 5 + step * (box["width"] - 10) / 120, box["y"] + 8)
        page.wait_for_timeout(16)
        moves.append(busy())
    page.mouse.up()
    each = [after - before for before, after in pairwise(moves)]
    for _ in range(20):
        page.keyboard.press("ArrowDown")
    page.wait_for_timeout(500)
    scrubbing = page.evaluate("[...window.long]")
    page.evaluate("window.long.length = 0")
    page.mouse.move(700, 600)
    turns = [busy()]
    for _ in range(60):
        page.mouse.wheel(0, 300)
        page.wait_for_timeout(16)
        turns.append(busy())
    wheel = [after - before for before, after in pairwise(turns)]
    page.wait_for_timeout(500)
    scrolling = page.evaluate("[...window.long]")
    count = page.locator("#grid .card").count()
    first, *later = opened_in
    cpu_time = f"CPU time of page and server {median(work):.0f} ms"
    print(f"{count} videos on {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}")
    print(
        f"ready after {first:.0f} ms, then {min(later):.0f} to {max(later):.0f} ms (target: 1000); "
        f"{cpu_time}"
    )
    for name, tasks, cpu in (("scrubbing", scrubbing, each), ("scrolling", scrolling, wheel)):
        print(
            f"{name}: {len(tasks)} tasks above 50 ms, the longest {max(tasks, default=0):.0f} ms "
            f"(target: 100); CPU time per move {median(cpu):.0f} ms, at most {max(cpu):.0f} ms"
        )
    running.close()


def photograph(opened: Any, root: Path, shots: Path) -> None:
    """Take screenshots of every page of the app, at desktop and phone size."""
    shots.mkdir(parents=True, exist_ok=True)
    recipe = partial(make_kitchen, duration=30, skip=0, repeat=0, shuffle=0)
    recipe(root / "toy", videos=12).videos[0].parent.rename(root / "breakfast")
    (root / "new").mkdir()
    [today] = recipe(root / "flawed", videos=1, seed=2, flaw="skip:wash dish").videos
    today.rename(root / "new" / "today.mp4")
    shutil.rmtree(root / "toy")
    shutil.rmtree(root / "flawed")
    running = Running(Workspace(root)).start()
    page = opened.new_page(viewport={"width": 1280, "height": 800})
    page.set_default_timeout(300_000)

    def shoot(name: str) -> None:
        page.wait_for_timeout(1200)
        page.screenshot(path=shots / f"app-{name}.jpg", type="jpeg", quality=82)

    page.goto(running.address)
    page.locator("#new").click()
    page.get_by_role("button", name="breakfast/").click()
    page.locator("[name=steps]").fill("6")
    shoot("new")
    page.get_by_role("button", name="Learn", exact=True).click()
    while page.locator(".job progress").evaluate_all("all => all.every(one => one.value < 0.2)"):
        page.wait_for_timeout(200)
    shoot("learning")
    page.locator(".job a.button").wait_for()
    shoot("start")
    page.locator(".job a.button").click()
    page.wait_for_selector("body.ready")
    page.keyboard.press("p")
    for step in range(3):
        for _ in range(3):
            page.keyboard.press("ArrowRight")
        page.keyboard.press(str(step + 1))
    shoot("tap")
    page.set_viewport_size({"width": 390, "height": 844})
    page.emulate_media(color_scheme="dark")
    shoot("tap-phone")
    page.set_viewport_size({"width": 1280, "height": 800})
    page.emulate_media(color_scheme="light")
    page.keyboard.press("p")
    page.locator("#tabs a").nth(1).click()
    page.get_by_role("button", name="Choose videos").click()
    page.get_by_role("button", name="new/").click()
    page.get_by_label("today.mp4").check()
    page.locator("dialog button.main").click()
    page.locator("article.check").wait_for()
    page.locator("article.check summary").click()
    shoot("check")
    page.locator("#tabs a").nth(2).click()
    for place in range(4):
        page.locator(".ticks tbody tr").nth(place).locator("input").nth(place % 2).check()
    page.get_by_role("button", name="Compare", exact=True).click()
    page.locator(".words").wait_for()
    shoot("compare")
    page.locator("#tabs a").nth(3).click()
    page.locator("#export-view [name=elan]").check()
    shoot("export")
    running.close()


if __name__ == "__main__":
    main()
