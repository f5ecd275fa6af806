"""stepcut demo: everything on an embedded example, offline: film, learn, score, check flawed videos, report."""

from __future__ import annotations

import argparse
from pathlib import Path

from stepcut.cli.common import add_progress, add_seed, progress_hook

EXAMPLES = """examples:
  stepcut demo                    about two minutes on two cores; writes the folder demo
  stepcut demo -o /tmp/kitchen    somewhere else
"""

FLAWED = 6
"""How many flawed videos are checked: each kind of flaw twice."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The words of `stepcut demo`."""
    parser.add_argument("-o", "--output", default="demo", help="the folder to write (default demo)")
    add_seed(parser)
    add_progress(parser)


def draw_flaws(seed: int) -> list[str]:
    """The flaws of the videos to check, drawn by `seed`: two steps left out, two done too early, two done too often."""
    import numpy as np

    from stepcut.datasets.toy import EDGES, STEPS

    random = np.random.default_rng(seed)
    early = sorted({after for _, after in EDGES})
    steps = {"skip": STEPS, "swap": early, "repeat": STEPS}
    return [f"{kind}:{step}" for kind, choice in steps.items() for step in random.choice(choice, 2, replace=False)]


def run(args: argparse.Namespace) -> int:
    """Film a toy kitchen, learn its procedure, and use it."""
    import stepcut as sc
    from stepcut.datasets.toy import make_kitchen
    from stepcut.show.report import write_report

    folder, hook = Path(args.output), progress_hook(args)
    print("1. Filming a toy kitchen: eight people make the same breakfast, each in their own kitchen and way.")
    kitchen = make_kitchen(folder / "kitchen", videos=8, seed=args.seed, progress=hook)

    print("\n2. Learning the procedure from the videos alone. No label is read.")
    kept = folder / "kitchen.proc"
    procedure = sc.learn(
        kitchen.videos,
        steps=len(kitchen.steps),
        seed=args.seed,
        output=kept,
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
    procedure.save(kept)

    print(f"\n4. Checking {FLAWED} new videos, filmed in other kitchens, each with one flaw that the seed draws.")
    checks, flawed = [], []
    for number, flaw in enumerate(draw_flaws(args.seed)):
        made = make_kitchen(
            folder / f"flawed-{number}",
            videos=1,
            seed=args.seed + 1 + number,
            skip=0,
            repeat=0,
            flaw=flaw,
            progress=hook,
        )
        flawed.append(made.videos[0])
        checks.append(procedure.check(made.videos[0]))
        told = "found" if not checks[-1].ok else "NOT found"
        print(f"   {next(iter(made.flaws.values()))[0].reason}: {told}")
    found = [not check.ok for check in checks]
    print(f"{sum(found)} of {FLAWED} were found. What the check says of one of them:")
    print(checks[found.index(True) if any(found) else 0])

    print("\n5. Writing a report.")
    page = folder / "report.html"
    write_report(procedure, page, truth=kitchen.timelines, checks=checks)
    print(f"\nDone. Open {page.resolve()} in a browser. Then try:")
    print(f"  1. stepcut view {kept}                          look at it, correct it")
    print(f"  2. stepcut check {kept} {flawed[-1]}")
    print(f"  3. stepcut segment {kept} {flawed[-1]} -o {folder / 'new.eaf'}    proposals for ELAN")
    return 0
