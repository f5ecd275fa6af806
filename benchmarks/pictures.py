"""The pictures of README and docs, into docs/images.

    python benchmarks/pictures.py toys [--real FOLDER]
        plots, report and viewer of a toy kitchen; --real is a folder of real videos of one task
    python benchmarks/pictures.py app               every page of the app
    python benchmarks/pictures.py segmenters        cut.svg: one toy video by each method
    python benchmarks/pictures.py charts            charts.svg, from benchmarks/readme.json
    python benchmarks/pictures.py timelines DATA    labels.svg, from a folder of CaptainCook4D
    python benchmarks/pictures.py screencast PROC
        view.webp, from a procedure with its videos (stepcut demo makes one)

Screenshots need Chromium. `readme.json` contains the figures of the charts and their conditions.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import stepcut as sc
from shared import arguments
from stepcut.app.server import Running
from stepcut.app.state import Beside
from stepcut.app.workspace import Workspace
from stepcut.colours import BACKGROUND_COLOUR, colour
from stepcut.evaluation import score
from stepcut.methods import METHODS
from stepcut.paper.datasets import load
from stepcut.procedure.procedure import Procedure
from stepcut.progress import Bar
from stepcut.show import plots
from stepcut.show.plots import compare, styled
from stepcut.show.report import make_report
from stepcut.timeline import Timeline
from stepcut.toy import make_kitchen, toy_features
from stepcut.version import __version__

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
LOADED = """[...document.images].every((image) => image.complete && image.naturalWidth
  || image.getBoundingClientRect().top > innerHeight)"""
"""Whether all pictures in view are there."""
RECIPE, BACKBONE = "Microwave Mug Pizza", "omnivore"
"""A test recipe."""
STRONG, PALE = colour(0), "#a9c1dc"
NOISE = 1.5
"""Three times the default noise of the toy."""
LEFT, WIDTH, HEIGHT, GAP = 110, 640, 26, 8


def main() -> None:
    parser = arguments(__doc__)
    kinds = ("toys", "app", "segmenters", "charts", "timelines", "screencast")
    parser.add_argument("picture", choices=kinds)
    parser.add_argument("source", type=Path, nargs="?", help="folder of data, or a procedure")
    parser.add_argument("--real", type=Path, help="folder of real videos of one task")
    parser.add_argument("--out", type=Path, default=IMAGES, help="folder of the pictures")
    parser.add_argument("--quick", action="store_true", help="a small kitchen, to test the script")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.picture in ("timelines", "screencast") and given.source is None:
        parser.error(f"{given.picture} needs a folder")
    with tempfile.TemporaryDirectory() as work:
        os.environ["STEPCUT_CACHE"] = f"{work}/cache"
        if given.picture == "toys":
            toys(Path(work), given.out, given.real, given.quick)
        elif given.picture == "app":
            with browser() as page:
                photograph_app(page, Path(work, "work"), given.out)
        elif given.picture == "segmenters":
            segmenters(given.out)
        elif given.picture == "charts":
            charts(given.out)
        else:
            (timelines if given.picture == "timelines" else screencast)(given.source, given.out)


@contextlib.contextmanager
def browser(width: int = 1440, height: int = 900) -> Iterator[Any]:
    """A page of a headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield opened.new_page(viewport={"width": width, "height": height})
        opened.close()


# ------------------------------------------------------------------ the toy kitchen


def toys(work: Path, images: Path, real: Path | None, quick: bool) -> None:
    """Render and learn the toy kitchen, draw its plots, and take screenshots."""
    size = {"videos": 2, "duration": 8} if quick else {"videos": 8}
    kitchen = make_kitchen(work / "kitchen", seed=0, progress=Bar(), **size)
    same = {"backbone": sc.FeatureSpec(fps=1), "seed": 0, "progress": Bar()}
    videos = work / "kitchen" / "videos"
    toy = sc.learn(videos, output=work / "kitchen.proc", steps=6, **same)
    draw_plots(toy, kitchen.annotations, images)
    trained = sc.learn(videos, steps=6, method="cnc", **same)
    plots.save(plots.loss(trained), images / "loss.svg")
    page = make_report(toy, truth=kitchen.annotations, title="Making breakfast")
    (work / "report.html").write_text(page, encoding="utf-8")
    with browser() as page:
        photograph_report(page, work / "report.html", images)
        photograph_viewer(page, work / "kitchen.proc", images, "view")
        other = Beside("annotations", kitchen.timelines)
        photograph_beside(page, work / "kitchen.proc", other, images)
        if real:
            sc.learn(real, output=work / "real.proc", steps=4, seed=0, progress=Bar())
            photograph_viewer(page, work / "real.proc", images, "view-real")


def draw_plots(toy: Procedure, truth: Path, images: Path) -> None:
    """Draw all plots."""
    plots.save(plots.timelines(toy, truth), images / "readme.png")
    plots.save(plots.embedding(toy), images / "embedding.png")
    plots.save(plots.orders(toy), images / "orders.svg")
    plots.save(plots.graph(toy), images / "graph.svg")
    plots.save(plots.confusion(toy, truth), images / "confusion.svg")
    plots.save(plots.hierarchy(toy), images / "hierarchy.svg")


def photograph_report(page: Any, report: Path, images: Path) -> None:
    """Take a screenshot of the top of the report."""
    page.set_viewport_size({"width": 1200, "height": 1500})
    page.goto(report.absolute().as_uri())
    page.screenshot(path=images / "report.jpg", type="jpeg", quality=82)
    page.set_viewport_size({"width": 1440, "height": 900})


def photograph_viewer(page: Any, procedure: Path, images: Path, name: str) -> None:
    """Take screenshots of the page, and of one step in all videos."""
    running = Running(Workspace.around(procedure)).start()
    page.goto(running.address)
    page.wait_for_selector("body.ready")
    page.locator("#stage .segments button").nth(1).click()
    page.wait_for_timeout(4000)
    while not page.evaluate(LOADED):  # busy machines are slow
        page.wait_for_timeout(500)
    page.screenshot(path=images / f"{name}.jpg", type="jpeg", quality=82)
    page.locator("[data-key^=all]").nth(1).click()
    page.wait_for_timeout(5000)
    page.screenshot(path=images / f"{name}-step.jpg", type="jpeg", quality=82)
    page.goto("about:blank")
    running.close()


def photograph_beside(page: Any, procedure: Path, other: Beside, images: Path) -> None:
    """Take a screenshot of two timelines that differ."""
    running = Running(Workspace.around(procedure, beside=other)).start()
    page.goto(running.address)
    page.wait_for_selector("body.ready")
    page.keyboard.press("d")
    page.wait_for_timeout(3000)
    page.screenshot(path=images / "view-beside.jpg", type="jpeg", quality=82)
    page.goto("about:blank")
    running.close()


# ------------------------------------------------------------------ the app


def photograph_app(page: Any, root: Path, shots: Path) -> None:
    """Take screenshots of every page of the app, at desktop and phone size."""
    recipe = partial(make_kitchen, duration=30, skip=0, repeat=0, shuffle=0)
    recipe(root / "toy", videos=12).videos[0].parent.rename(root / "breakfast")
    (root / "new").mkdir()
    [today] = recipe(root / "flawed", videos=1, seed=2, flaw="skip:wash dish").videos
    today.rename(root / "new" / "today.mp4")
    shutil.rmtree(root / "toy")
    shutil.rmtree(root / "flawed")
    running = Running(Workspace(root)).start()
    page.set_viewport_size({"width": 1280, "height": 800})
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


# ------------------------------------------------------------------ one video by each method


def bar(labels: Any, y: int) -> str:
    """Draw one bar with a block per segment."""
    edges = [0, *(np.flatnonzero(np.diff(labels)) + 1).tolist(), len(labels)]
    blocks = []
    for first, last in pairwise(edges):
        x, width = LEFT + WIDTH * first / len(labels), WIDTH * (last - first) / len(labels)
        fill = colour(int(labels[first]))
        blocks.append(
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{HEIGHT}" fill="{fill}"/>'
        )
    return "".join(blocks)


def segmenters(images: Path) -> None:
    """Draw one toy video segmented by each method, under its true steps."""
    rows, lines = toy_features(videos=8, seed=0, noise=NOISE)
    rows = [video - video.mean(axis=0) for video in rows]
    true = [
        line.labels(np.arange(len(one)) + 0.5) + 1 for line, one in zip(lines, rows, strict=True)
    ]
    steps = lines[0].steps
    bars = [("true steps", true[0] - 1, "")]
    for name, kind in METHODS.items():
        labels = kind(steps=len(steps), seed=0).fit(rows).labels_
        result = score(labels, true)
        # A cluster has the colour of its matched step; an unmatched one is grey.
        names = np.array([result.matching.get(k, 0) - 1 for k in range(len(steps))])
        bars.append((name, names[labels[0]], f"{result.f1:.0f}"))
    height = (len(bars) + 1) * (HEIGHT + GAP) + 2 * GAP
    total = LEFT + WIDTH + 60
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {total} {height}" font-family="sans-serif" '
        f'font-size="13">'
        f'<rect width="{total}" height="{height}" fill="white"/>'
    ]
    for number, (name, labels, figure) in enumerate(bars):
        y = GAP + number * (HEIGHT + GAP)
        parts.append(
            f'<text x="{LEFT - 8}" y="{y + 18}" text-anchor="end">{name}</text>{bar(labels, y)}'
        )
        parts.append(f'<text x="{LEFT + WIDTH + 8}" y="{y + 18}">{figure}</text>')
    note = f"Toy video 0 of seed 0, noise {NOISE}; grey: background or no match; right: F1 (strict) of "
    note += f"all 8 videos, K = {len(steps)}; stepcut {__version__}"
    parts.append(f'<text x="{GAP}" y="{height - GAP - 4}" font-size="11">{note}</text></svg>')
    (images / "cut.svg").write_text("\n".join(parts) + "\n", encoding="utf-8")


# ------------------------------------------------------------------ the README


@styled
def charts(images: Path) -> None:
    """F1 of stepcut and of published methods without labels, and of stepcut by number of labels."""
    from matplotlib.figure import Figure

    data: dict[str, Any] = json.loads(
        (Path(__file__).with_name("readme.json")).read_text(encoding="utf-8")
    )
    figure = Figure(figsize=(8.2, 3.1), layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    names, *columns = zip(*data["methods"]["rows"], strict=True)
    for number, (values, paint) in enumerate(zip(columns, (PALE, STRONG), strict=True)):
        places = np.arange(len(names)) + 0.38 * number
        bars = left.barh(
            places, values, 0.36, color=paint, label=data["methods"]["columns"][number]
        )
        left.bar_label(bars, fmt="%.0f", padding=2, fontsize=6)
    left.set_yticks(np.arange(len(names)) + 0.19, names)
    left.invert_yaxis()
    left.set_xlim(0, 55)
    left.legend(loc="lower right")
    names, *columns = zip(*data["labels"]["rows"], strict=True)
    for values, paint, name in zip(columns, (PALE, STRONG), data["labels"]["columns"], strict=True):
        right.plot(names, values, color=paint, marker="o", ms=4, label=name)
    for place, value in enumerate(columns[-1]):
        right.annotate(
            f"{value:.0f}",
            (place, value),
            (0, -11),
            textcoords="offset points",
            ha="center",
            fontsize=6,
        )
    right.set_ylim(0, 80)
    right.set_xlabel("labelled recordings")
    right.legend(loc="lower right")
    for axes, part in ((left, "methods"), (right, "labels")):
        axes.set_title(f"{data[part]['title']} (F1, %)", loc="left", fontweight="bold")
        axes.tick_params(length=0)
    plots.save(figure, images / "charts.svg")


@styled
def timelines(root: Path, images: Path) -> None:
    """One recording before and after three others were labelled, beside the annotation."""
    from matplotlib.figure import Figure

    task = next(task for task in load("captaincook4d", root) if task.name == RECIPE)
    videos = [each for each in task.with_features(BACKBONE) if each.timeline is not None]
    given = {each.name: each.timeline for each in videos if each.timeline is not None}
    steps = list(dict.fromkeys(step for each in given.values() for step in each.sequence()))
    truth = {}  # on whole seconds; the later of two overlapping steps
    for name, each in given.items():
        labels = each.labels(np.arange(int(each.end)) + 0.5, steps)
        truth[name] = Timeline.from_labels(labels, rate=1, steps=steps, video=name)
    with tempfile.TemporaryDirectory() as folder:
        for each in videos:
            np.save(Path(folder) / f"{each.name}.npy", each.read_features(BACKBONE))
        found = sc.learn(folder, steps=len(steps), rate=1, seed=0)
        labelled = found.suggest(3)
        taught = found.teach({name: truth[name] for name in labelled})
    others = {name: each for name, each in truth.items() if name not in labelled}
    before, after = compare(found, others), sc.evaluate(taught, others, protocol="named")
    # The recording with the median F1 after teaching.
    scores = dict(zip(after.videos, (each.f1 for each in after.score.per_video), strict=True))
    shown = sorted(scores, key=lambda name: scores[name])[len(scores) // 2]
    first = dict(zip(before.evaluation.videos, before.evaluation.score.per_video, strict=True))[
        shown
    ].f1
    rows = [
        ("truth", others[shown], ""),
        ("no labels", found.timelines[shown].rename(before.names), f"F1 {first:.0f} %"),
        ("three other\nrecordings labelled", taught.timelines[shown], f"F1 {scores[shown]:.0f} %"),
    ]
    paint = {step: colour(number) for number, step in enumerate(steps)}
    figure = Figure(figsize=(8.2, 2.0), layout="constrained", facecolor="white")
    axes = figure.subplots()
    for row, (_, timeline, figure_text) in enumerate(rows):
        draw_row(axes, row, timeline, paint)
        axes.text(timeline.end * 1.01, row, figure_text, va="center", fontsize=8)
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, others[shown].end * 1.1)
    axes.set_xlabel(
        f"seconds; {RECIPE}, {len(videos)} recordings, {len(steps)} steps; "
        f"all {len(others)} without labels: F1 {before.evaluation.score.f1:.0f} % → {after.score.f1:.0f} %"
    )
    axes.tick_params(length=0)
    axes.spines["left"].set_visible(False)
    plots.save(figure, images / "labels.svg")


def draw_row(axes: Any, row: int, timeline: Timeline, paint: dict[str, str]) -> None:
    """One bar with a block per segment; steps outside `paint` are grey."""
    axes.barh(row, timeline.end, height=0.7, color="#efefef")
    for part in timeline:
        fill = paint.get(part.step, BACKGROUND_COLOUR)
        axes.barh(row, part.duration, left=part.start, height=0.7, color=fill)


def screencast(folder: Path, images: Path) -> None:
    """Record the viewer as an animated WebP: play, jump to a step, tap a step; edits a copy."""
    import io

    from PIL import Image

    pictures: list[Image.Image] = []
    with tempfile.TemporaryDirectory() as safe, browser(1280, 860) as page:
        copy = shutil.copytree(folder, Path(safe) / folder.name)
        running = sc.view(copy, browser=False, block=False)
        page.goto(running.address)
        page.wait_for_load_state("networkidle")

        def film(count: int) -> None:
            for _ in range(count):
                shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
                pictures.append(shot.resize((896, 602), Image.Resampling.LANCZOS))
                page.wait_for_timeout(250)

        film(3)
        page.keyboard.press("Space")
        film(8)
        page.keyboard.press("Space")
        for _ in range(3):
            page.keyboard.press("ArrowDown")
            film(3)
        page.keyboard.press("p")
        film(3)
        page.keyboard.press("4")
        film(4)
        running.close()
    first, *others = pictures
    first.save(
        images / "view.webp", save_all=True, append_images=others, duration=350, loop=0, quality=60
    )


if __name__ == "__main__":
    main()
