"""stepcut demo: everything on an embedded example, offline: render, learn, score, check a flawed video, report."""

from __future__ import annotations

import argparse
from pathlib import Path

from stepcut.cli.common import add_progress, add_seed, progress_hook

EXAMPLES = """examples:
  stepcut demo                    about two minutes on two cores; writes the folder demo
  stepcut demo -o /tmp/kitchen    somewhere else
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of `stepcut demo`."""
    parser.add_argument("-o", "--output", default="demo", help="the folder to write (default demo)")
    add_seed(parser)
    add_progress(parser)


def run(args: argparse.Namespace) -> int:
    """Film a toy kitchen, learn its procedure, and use it."""
    import stepcut as sc
    from stepcut.datasets.toy import make_kitchen
    from stepcut.show.report import write_report

    folder, hook = Path(args.output), progress_hook(args)
    print("1. Filming a toy kitchen: eight people make the same breakfast, each in their own kitchen and way.")
    kitchen = make_kitchen(folder / "kitchen", videos=8, seed=args.seed, progress=hook)

    print("\n2. Learning the procedure from the videos alone. No label is read.")
    place = folder / "kitchen.proc"
    procedure = sc.learn(
        kitchen.videos,
        steps=len(kitchen.steps),
        seed=args.seed,
        output=place,
        cache=folder / "cache",
        false_alarms=0.12,  # eight videos cannot vouch for less
        progress=hook,
    )
    print(procedure.orders)
    print(procedure.graph)

    print("\n3. Scoring it against the true timelines, which nothing else reads, and naming the steps after them.")
    table = sc.evaluate(procedure, truth=kitchen.timelines)
    print(table)
    print(table.matching)
    procedure.rename({k: table.score.name(step) for k, step in table.score.matching.items() if k >= 0})
    procedure.save(place)

    print("\n4. Checking a new video, filmed in another kitchen, in which one step is done too often.")
    flawed = make_kitchen(
        folder / "flawed", videos=1, seed=args.seed + 1, skip=0, repeat=0, flaw="repeat:pour water", progress=hook
    )
    print(f"The truth: {next(iter(flawed.flaws.values()))[0].reason}.")
    check = procedure.check(flawed.videos[0])
    print(check)

    print("\n5. Writing a report.")
    page = folder / "report.html"
    write_report(procedure, page, truth=kitchen.timelines, checks=[check])
    print(f"\nDone. Open {page.resolve()} in a browser.")
    print(f"The procedure is in {place}; look at it with: stepcut view {place}")
    return 0
