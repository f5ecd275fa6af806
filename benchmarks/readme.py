"""The pictures of the README, into docs/images.

    python benchmarks/readme.py charts              charts.svg, from benchmarks/readme.json
    python benchmarks/readme.py timelines DATA      labels.svg, from a folder of CaptainCook4D
    python benchmarks/readme.py screencast PROC
        view.webp, from a procedure with its videos (stepcut demo makes one)

`readme.json` contains the figures and their conditions.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import stepcut as sc
from shared import arguments
from stepcut.colours import BACKGROUND_COLOUR, colour
from stepcut.paper.datasets import load
from stepcut.show import plots
from stepcut.show.canvas import compare, styled
from stepcut.timeline import Timeline

HERE = Path(__file__).parent
IMAGES = HERE.parent / "docs" / "images"
RECIPE, BACKBONE = "Microwave Mug Pizza", "omnivore"
"""A test recipe."""
STRONG, PALE = colour(0), "#a9c1dc"


@styled
def charts() -> None:
    """F1 of stepcut and of published methods without labels, and of stepcut by number of labels."""
    from matplotlib.figure import Figure

    data: dict[str, Any] = json.loads((HERE / "readme.json").read_text(encoding="utf-8"))
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
    plots.save(figure, IMAGES / "charts.svg")


@styled
def timelines(root: Path) -> None:
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
        draw(axes, row, timeline, paint)
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
    plots.save(figure, IMAGES / "labels.svg")


def draw(axes: Any, row: int, timeline: Timeline, paint: dict[str, str]) -> None:
    """One bar with a block per segment; steps outside `paint` are grey."""
    axes.barh(row, timeline.end, height=0.7, color="#efefef")
    for part in timeline:
        fill = paint.get(part.step, BACKGROUND_COLOUR)
        axes.barh(row, part.duration, left=part.start, height=0.7, color=fill)


def screencast(folder: Path) -> None:
    """Record the viewer as an animated WebP: play, jump to a step, tap a step; edits a copy."""
    import io

    from PIL import Image
    from playwright.sync_api import sync_playwright

    pictures: list[Image.Image] = []
    with tempfile.TemporaryDirectory() as safe, sync_playwright() as driver:
        copy = shutil.copytree(folder, Path(safe) / folder.name)
        running = sc.view(copy, browser=False, block=False)
        browser = driver.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 860})
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
        browser.close()
        running.close()
    first, *others = pictures
    first.save(
        IMAGES / "view.webp", save_all=True, append_images=others, duration=350, loop=0, quality=60
    )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("picture", choices=("charts", "timelines", "screencast"))
    parser.add_argument("source", type=Path, nargs="?", help="folder of data, or a procedure")
    given = parser.parse_args()
    if given.picture == "charts":
        charts()
    elif given.source is None:
        parser.error(f"{given.picture} needs a folder")
    else:
        (timelines if given.picture == "timelines" else screencast)(given.source)


if __name__ == "__main__":
    main()
