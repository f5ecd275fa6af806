"""Make every picture of the docs, and docs/gallery.md: `python benchmarks/gallery.py [--method cnc]
[--real FOLDER]`.

Renders the toy kitchen, learns it, draws all plots, and takes screenshots of the report and the
viewer in a headless Chromium. `--real` is a folder of real videos of one task for the viewer.
`--work` keeps videos and procedures, so that a second run only draws. `--quick` makes a small
kitchen in a temporary folder, to test the script.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import stepcut as sc
from shared import arguments
from stepcut.app.server import Running
from stepcut.app.state import Beside
from stepcut.app.workspace import Workspace
from stepcut.procedure.procedure import Procedure
from stepcut.progress import Bar
from stepcut.show import plots
from stepcut.show.report import make_report
from stepcut.toy import make_kitchen

DOCS = Path(__file__).resolve().parents[1] / "docs"
SEED = 0
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
LOADED = """[...document.images].every((image) => image.complete && image.naturalWidth
  || image.getBoundingClientRect().top > innerHeight)"""
"""Whether all pictures in view are there."""


def main() -> None:
    """Render, learn, draw, take screenshots, write the page."""
    parser = arguments(__doc__)
    parser.add_argument("--method", default="stepcut")
    parser.add_argument("--set", default="{}", help="settings of the method, as JSON")
    parser.add_argument("--real", type=Path, help="folder of real videos of one task")
    parser.add_argument("--real-steps", type=int, default=4)
    parser.add_argument("--work", type=Path, help="folder for the kitchen and the procedures")
    parser.add_argument(
        "--out", type=Path, default=DOCS, help="docs folder (default: this project's)"
    )
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    with contextlib.ExitStack() as stack:
        work = args.work or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        size = {"videos": 2, "duration": 8} if args.quick else {"videos": 8}
        kitchen = make_kitchen(work / "kitchen", seed=SEED, progress=Bar(), **size)
        slow = sc.FeatureSpec(fps=1)
        same = {"steps": 6, "backbone": slow, "seed": SEED, "progress": Bar()}
        options = {**same, "method": args.method, **json.loads(args.set)}
        toy = sc.learn(work / "kitchen" / "videos", output=work / "kitchen.proc", **options)
        trained = (
            toy
            if args.method == "cnc"
            else sc.learn(work / "kitchen" / "videos", **same, method="cnc")
        )
        images = args.out / "images"
        draw(toy, kitchen.annotations, images)
        plots.save(plots.loss(trained), images / "loss.svg")
        page = make_report(toy, truth=kitchen.annotations, title="Making breakfast")
        (work / "report.html").write_text(page, encoding="utf-8")
        page = stack.enter_context(browser())
        photograph_report(page, work / "report.html", images)
        photograph_viewer(page, work / "kitchen.proc", images, "view")
        photograph_beside(
            page, work / "kitchen.proc", Beside("annotations", kitchen.timelines), images
        )
        if args.real:
            sc.learn(
                args.real,
                output=work / "real.proc",
                **{**options, "steps": args.real_steps, "backbone": sc.FeatureSpec()},
            )
            photograph_viewer(page, work / "real.proc", images, "view-real")
        (args.out / "gallery.md").write_text(gallery(toy, args))


def draw(toy: Procedure, truth: Path, images: Path) -> None:
    """Draw all plots."""
    images.mkdir(parents=True, exist_ok=True)
    plots.save(plots.timelines(toy, truth), images / "readme.png")
    plots.save(plots.embedding(toy), images / "embedding.png")
    plots.save(plots.orders(toy), images / "orders.svg")
    plots.save(plots.graph(toy), images / "graph.svg")
    plots.save(plots.confusion(toy, truth), images / "confusion.svg")
    plots.save(plots.hierarchy(toy), images / "hierarchy.svg")


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """A page of a headless Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield opened.new_page(viewport={"width": 1440, "height": 900})
        opened.close()


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


def gallery(toy: Procedure, args: argparse.Namespace) -> str:
    """Write docs/gallery.md."""
    version = toy.config["versions"]["stepcut"]
    learned = f"method `{args.method}`, settings `{args.set}`, seed {SEED}, 1 frame per second"
    what = f"{learned}, protocol strict, stepcut {version}"
    pictures = [
        (
            "Timelines, with the truth above",
            "readme.png",
            'plots.timelines(proc, truth="annotations/")',
        ),
        (
            "Embedding: good steps are clusters on the left, mixed on the right",
            "embedding.png",
            "plots.embedding(proc)",
        ),
        ("Prerequisites of each step", "graph.svg", "plots.graph(proc)"),
        ("Most frequent orders", "orders.svg", "plots.orders(proc)"),
        ("Hierarchy of steps", "hierarchy.svg", "plots.hierarchy(proc)"),
        (
            "Confusion of true and discovered steps",
            "confusion.svg",
            'plots.confusion(proc, truth="annotations/")',
        ),
        ("Training loss (method cnc)", "loss.svg", "plots.loss(proc)"),
    ]
    lines = [
        "# Plots",
        "",
        "```python",
        "import stepcut as sc",
        "from stepcut.show import plots",
        "",
        'proc = sc.load("sandwich.proc")',
        'plots.save(plots.timelines(proc, truth="annotations/"), "timelines.pdf")',
        "```",
        "Each function returns a matplotlib figure; `plots.save` writes PNG, SVG or PDF.",
        "",
        f"The pictures show a toy kitchen (8 videos, 6 steps; {what}). They do not show the quality on real videos.",
    ]
    for title, file, code in pictures:
        if (args.out / "images" / file).exists():
            lines += ["", f"## {title}", f"`{code}`", "", f"![{title}](images/{file})"]
    lines += [
        "",
        "## The report",
        "`stepcut report P -o report.html`: one file that needs no network.",
        "",
        "![The report](images/report.jpg)",
    ]
    lines += [
        "",
        "## The viewer",
        "`stepcut view P`; see [App and viewer](app.md).",
        "",
        "![The viewer](images/view.jpg)",
    ]
    lines += ["", "Beside labels or another procedure (`stepcut view P --beside OTHER`):", ""]
    lines += ["![Two timelines, one above the other](images/view-beside.jpg)"]
    if args.real or (args.out / "images" / "view-real.jpg").exists():
        lines += ["", "Real videos of a robot and a bottle (not in this repository):", ""]
        lines += [
            "![The viewer with real videos](images/view-real.jpg)",
            "",
            "![One step of real videos](images/view-real-step.jpg)",
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
