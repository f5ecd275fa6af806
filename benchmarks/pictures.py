"""The pictures of README and docs, into docs/images: `python benchmarks/pictures.py PICTURE [SOURCE]`.

toys         plots, report and viewer of a toy kitchen; SOURCE: also of real videos of one task
app          pages of the app
segmenters   cut.svg: one toy video by each method
charts       charts.svg, from benchmarks/readme.json, which has the conditions of its figures
timelines    labels.svg; SOURCE: a folder of CaptainCook4D
screencast   view.webp; SOURCE: a procedure with its videos (`stepcut demo` makes one)

Screenshots need Chromium.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import stepcut as sc
from shared import arguments
from stepcut.app.server import Running
from stepcut.app.state import OtherTimelines
from stepcut.app.workspace import Workspace
from stepcut.colours import BACKGROUND_COLOUR, colour
from stepcut.paper.datasets import load
from stepcut.paper.experiments.figure import draw_figure
from stepcut.progress import Bar
from stepcut.show import plots
from stepcut.show.plots import compare, styled
from stepcut.show.report import make_report
from stepcut.timeline import Timeline
from stepcut.toy import make_kitchen

IMAGES = Path(__file__).resolve().parents[1] / "docs" / "images"
FLAGS = ["--no-sandbox", "--disable-gpu"]
LOADED = """[...document.images].every((image) => image.complete && image.naturalWidth
  || !image.offsetParent || image.getBoundingClientRect().top > innerHeight)"""
"""Whether all pictures in view are there."""
RECIPE, BACKBONE = "Microwave Mug Pizza", "omnivore"
"""A test recipe."""
STRONG, PALE = colour(0), "#a9c1dc"


def main() -> None:
    parser = arguments(__doc__)
    made = {each.__name__: each for each in (segmenters, charts, toys, app, timelines, screencast)}
    parser.add_argument("picture", choices=made)
    parser.add_argument("source", type=Path, nargs="?")
    parser.add_argument("--out", type=Path, default=IMAGES, help="folder of the pictures")
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        os.environ["STEPCUT_CACHE"] = f"{work}/cache"
        if given.picture in ("segmenters", "charts"):
            made[given.picture](given.out)
        elif given.picture in ("toys", "app"):
            made[given.picture](Path(work), given.out, given.source)
        else:
            made[given.picture](given.source, given.out)


@contextlib.contextmanager
def browser(width: int = 1440, height: int = 900) -> Iterator[Any]:
    """A page of a headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield opened.new_page(viewport={"width": width, "height": height})
        opened.close()


@contextlib.contextmanager
def viewer(page: Any, workspace: Workspace) -> Iterator[None]:
    """Show a workspace in a page, which is ready."""
    running = Running(workspace).start()
    page.goto(running.address)
    page.wait_for_selector("body.ready")
    yield
    page.goto("about:blank")
    running.close()


# ------------------------------------------------------------------ the toy kitchen


def toys(work: Path, images: Path, real: Path | None) -> None:
    """Render and learn the toy kitchen, draw its plots, and take screenshots."""
    kitchen = make_kitchen(work / "kitchen", videos=8, seed=0, progress=Bar())
    same = {"backbone": sc.FeatureSpec(fps=1), "seed": 0, "progress": Bar()}
    videos, truth = work / "kitchen" / "videos", kitchen.annotations
    toy = sc.learn(videos, output=work / "kitchen.proc", steps=6, **same)
    drawn = {
        "readme.png": plots.timelines(toy, truth),
        "embedding.png": plots.embedding(toy),
        "orders.svg": plots.orders(toy),
        "graph.svg": plots.graph(toy),
        "confusion.svg": plots.confusion(toy, truth),
        "hierarchy.svg": plots.hierarchy(toy),
        "loss.svg": plots.loss(sc.learn(videos, steps=6, method="cnc", **same)),
    }
    for name, figure in drawn.items():
        plots.save(figure, images / name)
    report = work / "report.html"
    report.write_text(make_report(toy, truth=truth, title="Making breakfast"), encoding="utf-8")
    with browser(1200, 1500) as page:
        page.goto(report.absolute().as_uri())
        shoot(page, images / "report.jpg")
    with browser() as page:
        photograph_viewer(page, work / "kitchen.proc", images, "view")
        other = OtherTimelines("annotations", kitchen.timelines)
        with viewer(page, Workspace.around(work / "kitchen.proc", beside=other)):
            page.keyboard.press("d")
            page.wait_for_timeout(3000)
            shoot(page, images / "view-beside.jpg")
        if real:
            sc.learn(real, output=work / "real.proc", steps=4, seed=0, progress=Bar())
            photograph_viewer(page, work / "real.proc", images, "view-real")


def shoot(page: Any, path: Path) -> None:
    page.screenshot(path=path, type="jpeg", quality=82)


def photograph_viewer(page: Any, procedure: Path, images: Path, name: str) -> None:
    """Take screenshots of the page, and of one step in all videos."""
    with viewer(page, Workspace.around(procedure)):
        page.locator("#stage .segments button").nth(1).click()
        page.wait_for_timeout(4000)
        while not page.evaluate(LOADED):  # busy machines are slow
            page.wait_for_timeout(500)
        shoot(page, images / f"{name}.jpg")
        page.locator("[data-key^=all]").nth(1).click()
        page.wait_for_timeout(5000)
        shoot(page, images / f"{name}-step.jpg")


# ------------------------------------------------------------------ the app


def app(work: Path, images: Path, _: Path | None) -> None:
    """Take screenshots of the app: start page, tapping on a phone, and a check."""
    root = work / "work"
    recipe = partial(make_kitchen, duration=30, skip=0, repeat=0, shuffle=0)
    recipe(root / "toy", videos=12).videos[0].parent.rename(root / "breakfast")
    (root / "new").mkdir()
    [today] = recipe(root / "flawed", videos=1, seed=2, flaw="skip:wash dish").videos
    today.rename(root / "new" / "today.mp4")
    shutil.rmtree(root / "toy")
    shutil.rmtree(root / "flawed")
    running = Running(Workspace(root)).start()
    with browser(1280, 800) as page:
        page.set_default_timeout(300_000)

        def shot(name: str) -> None:
            page.wait_for_timeout(1200)
            shoot(page, images / f"app-{name}.jpg")

        page.goto(running.address)
        page.locator("#new").click()
        page.get_by_role("button", name="breakfast/").click()
        page.locator("[name=steps]").fill("6")
        page.get_by_role("button", name="Learn", exact=True).click()
        page.locator(".job a.button").wait_for()
        shot("start")
        page.locator(".job a.button").click()
        page.wait_for_selector("body.ready")
        page.keyboard.press("p")
        for step in range(3):
            for _ in range(3):
                page.keyboard.press("ArrowRight")
            page.keyboard.press(str(step + 1))
        page.set_viewport_size({"width": 390, "height": 844})
        page.emulate_media(color_scheme="dark")
        shot("tap-phone")
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
        shot("check")
        running.close()


# ------------------------------------------------------------------ timelines


def draw_timelines(rows: Sequence[tuple[str, Timeline, str]], under: str, file: Path) -> None:
    """Draw a bar per name and timeline, with its figure at the end; steps of others are grey."""
    from matplotlib.figure import Figure

    paint = {step: colour(number) for number, step in enumerate(rows[0][1].steps)}
    figure = Figure(figsize=(8.2, 0.5 + 0.4 * len(rows)), layout="constrained", facecolor="white")
    axes, end = figure.subplots(), rows[0][1].end
    for row, (_, timeline, text) in enumerate(rows):
        axes.barh(row, timeline.end, height=0.7, color="#efefef")
        for part in timeline:
            fill = paint.get(part.step, BACKGROUND_COLOUR)
            axes.barh(row, part.duration, left=part.start, height=0.7, color=fill)
        axes.text(timeline.end * 1.01, row, text, va="center", fontsize=8)
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows])
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(0, end * 1.1)
    axes.set_xlabel(under)
    axes.tick_params(length=0)
    axes.spines["left"].set_visible(False)
    plots.save(figure, file)


def segmenters(images: Path) -> None:
    """Draw one video of the toy kitchen segmented by several methods, under its true steps."""
    rows = ["stepcut", "procut", "asot", "kmeans", "subset", "uniform", "random"]
    print(draw_figure(images / "cut.svg", "toy", rows=rows, steps="true"))


# ------------------------------------------------------------------ the README


@styled
def charts(images: Path) -> None:
    """What stepcut and published methods gain over segments of equal length, without labels, and
    the F1 of stepcut by number of labels."""
    from matplotlib.figure import Figure

    data = json.loads(Path(__file__).with_name("readme.json").read_text(encoding="utf-8"))
    figure = Figure(figsize=(8.2, 3.1), layout="constrained", facecolor="white")
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    names, *columns = zip(*data["methods"]["rows"], strict=True)
    for number, (values, paint) in enumerate(zip(columns, (PALE, STRONG), strict=True)):
        places = np.arange(len(names)) + 0.38 * number
        bars = left.barh(
            places, values, 0.36, color=paint, label=data["methods"]["columns"][number]
        )
        left.bar_label(bars, fmt="%+.0f", padding=2, fontsize=6)
    left.set_yticks(np.arange(len(names)) + 0.19, names)
    left.invert_yaxis()
    left.set_xlim(-10, 25)
    left.axvline(0, color="0.6", lw=0.8)
    left.legend(loc="lower right")
    names, *columns = zip(*data["labels"]["rows"], strict=True)
    for values, paint, name in zip(columns, (PALE, STRONG), data["labels"]["columns"], strict=True):
        right.plot(names, values, color=paint, marker="o", ms=4, label=name)
    for place, value in enumerate(columns[-1]):
        right.text(place, value - 7, f"{value:.0f}", ha="center", fontsize=6)
    right.set_ylim(0, 80)
    right.set_xlabel("labelled recordings")
    right.legend(loc="lower right")
    for axes, part in ((left, "methods"), (right, "labels")):
        axes.set_title(data[part]["title"], loc="left", fontweight="bold")
        axes.tick_params(length=0)
    plots.save(figure, images / "charts.svg")


@styled
def timelines(root: Path, images: Path) -> None:
    """One recording before and after three others were labelled, beside the annotation."""
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
    first = before.evaluation.score
    alone = first.per_video[before.evaluation.videos.index(shown)].f1
    rows = [
        ("truth", others[shown], ""),
        ("no labels", found.timelines[shown].rename(before.names), f"F1 {alone:.0f} %"),
        ("three other\nrecordings labelled", taught.timelines[shown], f"F1 {scores[shown]:.0f} %"),
    ]
    under = f"seconds; {RECIPE}, {len(videos)} recordings, {len(steps)} steps; all {len(others)} "
    under += f"without labels: F1 {first.f1:.0f} % → {after.score.f1:.0f} %"
    draw_timelines(rows, under, images / "labels.svg")


def screencast(folder: Path, images: Path) -> None:
    """Record the viewer as an animated WebP: play, jump to a step, tap a step; edits a copy."""
    import io

    from PIL import Image

    pictures: list[Image.Image] = []
    with tempfile.TemporaryDirectory() as safe, browser(1280, 860) as page:

        def film(key: str, count: int) -> None:
            if key:
                page.keyboard.press(key)
            for _ in range(count):
                shot = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
                pictures.append(shot.resize((896, 602), Image.Resampling.LANCZOS))
                page.wait_for_timeout(250)

        with viewer(page, Workspace.around(shutil.copytree(folder, Path(safe) / folder.name))):
            page.wait_for_load_state("networkidle")
            keys = [
                ("", 3),
                ("Space", 8),
                ("Space", 0),
                *[("ArrowDown", 3)] * 3,
                ("p", 3),
                ("4", 4),
            ]
            for key, count in keys:
                film(key, count)
    how = {"duration": 350, "loop": 0, "quality": 60}
    pictures[0].save(images / "view.webp", save_all=True, append_images=pictures[1:], **how)


if __name__ == "__main__":
    main()
