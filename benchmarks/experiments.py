"""The tables of reports/experiments.md: experiments of the paper on real features and on the toy
kitchen.

    python benchmarks/experiments.py DATA_DIR [--out DIR] [--write REPORT] [--only NAME ...]
        [--quick]

DATA_DIR contains captaincook4d/ and egoprocel/ as in `stepcut data info NAME`. Finished work is
kept in --out, so the script resumes. `--quick` uses one task and one seed. Every loss and segmenter
runs with its defaults; nothing is tuned here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import shared
from shared import arguments
from stepcut.evaluation.clock import NO_VIDEO
from stepcut.paper.experiments import Results, run_experiment
from stepcut.progress import Bar

CLIPS = {"data": "captaincook4d", "features": "omnivore", "steps": "true", "seeds": 2}
TWO = ["Spiced Hot Chocolate", "Tomato Mozzarella Salad"]
PRESET = {
    **CLIPS,
    "tasks": TWO,
    "rows": ["tcc + procut", "lav + procut", "tc3i + procut"],
    "seeds": 1,
}
TOY = {"data": "toy", "steps": "true", "seeds": 2}

# Name in the page -> (experiment, settings, protocols to show)
RUNS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "egoprocel-main": (
        "main",
        {"data": "egoprocel", "steps": 7, "seeds": 3, "rows": NO_VIDEO},
        ("paper",),
    ),
    "clips-main": ("main", CLIPS, ("strict", "paper")),
    "clips-losses": ("losses", {**CLIPS, "tasks": TWO}, ("strict",)),
    "clips-cuts": ("cuts", {**CLIPS, "tasks": TWO}, ("strict",)),
    "clips-steps": ("steps", {**CLIPS, "tasks": TWO}, ("strict", "paper")),
    "clips-published": ("losses", {**PRESET, "as_published": True}, ("strict",)),
    # 500 x 4 batches instead of 2,500 x 4, as many frames as ten passes over the rows
    "clips-released": (
        "losses",
        {**PRESET, "as_released": True, "train": {"iterations": 500}},
        ("strict",),
    ),
    "toy-main": ("main", TOY, ("strict",)),
    "toy-views": ("views", TOY, ("strict",)),
}


def run(name: str, root: Path, out: Path, quick: bool, jobs: int | None) -> Results:
    """Run or resume one experiment."""
    experiment, settings, _ = RUNS[name]
    data = (
        settings["data"]
        if settings["data"] == "toy"
        else f"{settings['data']}:{root / settings['data']}"
    )
    options = {**settings, "data": data}
    if quick:
        options["seeds"] = 1
        options["tasks"] = {"captaincook4d": TWO[:1], "egoprocel": ["Tent"]}.get(settings["data"])
    results = run_experiment(experiment, folder=out, jobs=jobs, progress=Bar(), **options)
    results.save(out / f"{name}.json")
    return results


def main() -> None:
    """Run, then print the tables or write them into the page."""
    parser = arguments(__doc__)
    parser.add_argument("data", type=Path, help="folder with captaincook4d/ and egoprocel/")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("experiments-out"),
        help="folder of finished work (default %(default)s)",
    )
    parser.add_argument(
        "--write", type=Path, help="page with marks <!-- table NAME --> ... <!-- end -->"
    )
    parser.add_argument(
        "--only", nargs="+", choices=list(RUNS), default=list(RUNS), help="only these"
    )
    parser.add_argument(
        "--jobs", type=int, help="parallel cells (default: as cores and memory allow)"
    )
    parser.add_argument("--quick", action="store_true", help="one task and one seed")
    args = parser.parse_args()
    for name in args.only:
        results = run(name, args.data, args.out, args.quick, args.jobs)
        versions = ", ".join(
            f"{package} {number}" for package, number in results.record["versions"].items()
        )
        tables = [results.table(protocol).markdown() for protocol in RUNS[name][2]]
        text = "\n".join([*tables, f"({versions})"])
        if args.write is None:
            print(f"\n{name}\n{text}")
            continue
        args.write.write_text(
            shared.fill(args.write.read_text(encoding="utf-8"), {name: text}), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
