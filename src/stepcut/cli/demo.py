"""stepcut demo: everything on an embedded example, offline: film, learn, score, teach, check flawed videos, report."""

import argparse
import shlex
from functools import partial
from pathlib import Path

import numpy as np

import stepcut as sc
from stepcut.cli.common import progress_hook
from stepcut.files.atomic import write_text
from stepcut.show.report import make_report
from stepcut.toy import EDGES, STEPS, make_kitchen


def run(args: argparse.Namespace) -> int:
    """Film a toy kitchen, learn its procedure, and use it."""
    folder, hook = Path(args.output), progress_hook(args)
    print(
        "1. Filming a toy kitchen: twelve people make the same breakfast by one recipe, each in their own kitchen."
    )
    film = partial(
        make_kitchen, skip=0, repeat=0, shuffle=0, progress=hook
    )  # each step once, in one order
    kitchen = film(folder / "kitchen", videos=12, seed=args.seed)

    print("\n2. Learning the procedure from the videos alone. No label is read.")
    place = folder / "kitchen.proc"
    found = sc.learn(
        kitchen.videos,
        steps=len(kitchen.steps),
        seed=args.seed,
        cache=folder / "cache",
        false_alarms=0.08,  # twelve videos cannot vouch for less
        progress=hook,
    )
    print(found.orders)
    print(found.quality)

    print("\n3. Scoring it against the true timelines, which nothing else has read.")
    table = sc.evaluate(found, truth=kitchen.timelines)
    print(table)
    print(table.matching)

    labelled = found.suggest(3)
    print(
        f"\n4. A person labels the three videos that would help most, {', '.join(labelled)}; the others follow."
    )
    procedure = found.teach({name: kitchen.timelines[name] for name in labelled}, progress=hook)
    procedure.save(place)
    print(sc.evaluate(procedure, truth=kitchen.timelines, protocol="named"))
    print(procedure.graph)

    print(
        "\n5. Checking six new videos, filmed in other kitchens, each with one flaw that the seed draws."
    )
    checks, flawed, random = [], [], np.random.default_rng(args.seed)
    # Two steps left out, two done too early, two done too often.
    steps = {"skip": STEPS, "swap": sorted({after for _, after in EDGES}), "repeat": STEPS}
    flaws = [
        f"{kind}:{step}"
        for kind, some in steps.items()
        for step in random.choice(some, 2, replace=False)
    ]
    for number, flaw in enumerate(flaws):
        made = film(folder / f"flawed-{number}", videos=1, seed=args.seed + 1 + number, flaw=flaw)
        flawed.append(made.videos[0])
        checks.append(procedure.check(made.videos[0]))
        told = "found" if not checks[-1].ok else "NOT found"
        print(f"   {next(iter(made.flaws.values()))[0].reason}: {told}")
    alarms = [not check.ok for check in checks]
    print(f"{sum(alarms)} of {len(alarms)} were found. What the check says of one of them:")
    print(checks[alarms.index(True) if any(alarms) else 0])

    print("\n6. Writing a report.")
    page = folder / "report.html"
    write_text(page, make_report(procedure, kitchen.timelines, checks, title="kitchen"))
    print(f"\nDone. Open {page.resolve()} in a browser. Then try:")
    print(offers(place, flawed[-1]))
    return 0


def offers(procedure: Path, video: Path) -> str:
    """Three commands to try with what the demo made, to be pasted: on its `procedure`, with a flawed `video`."""
    kept, new, labels = (
        shlex.quote(str(path)) for path in (procedure, video, procedure.parent / "new.eaf")
    )
    return (
        f"  1. stepcut view {kept}                          look at it, correct it\n"
        f"  2. stepcut check {kept} {new}\n"
        f"  3. stepcut segment {kept} {new} -o {labels}    proposals for ELAN"
    )
