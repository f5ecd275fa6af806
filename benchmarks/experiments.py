"""The tables of reports/experiments.md: experiments of the paper on real features and on the toy
kitchen.

    python benchmarks/experiments.py DATA_DIR [--out DIR] [--write REPORT] [--only NAME ...]

DATA_DIR contains captaincook4d/ and egoprocel/ as in `stepcut data info NAME`. Finished work is
kept in --out, so the script resumes. Every loss and segmenter runs with its defaults.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from shared import arguments, fill
from stepcut.evaluation.clock import NO_VIDEO
from stepcut.paper.experiments import Results, run_experiment
from stepcut.progress import Bar

CLIPS = {"data": "captaincook4d", "features": "omnivore", "steps": "true", "seeds": 2}
TWO = ["Spiced Hot Chocolate", "Tomato Mozzarella Salad"]
LOSSES = [f"{loss} + procut" for loss in ("tcc", "lav", "tc3i")]
PRESET = {**CLIPS, "tasks": TWO, "rows": LOSSES, "seeds": 1}
RELEASED = {**PRESET, "as_released": True, "train": {"iterations": 500}}
"""500 x 4 batches instead of 2,500 x 4, as many frames as ten passes over the rows."""
EGO = {"data": "egoprocel", "steps": 7, "seeds": 3, "rows": NO_VIDEO}
TOY = {"data": "toy", "steps": "true", "seeds": 2}

# Name in the page -> (experiment, settings, protocols to show)
RUNS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "egoprocel-main": ("main", EGO, ("paper",)),
    "clips-main": ("main", CLIPS, ("strict", "paper")),
    "clips-losses": ("losses", {**CLIPS, "tasks": TWO}, ("strict",)),
    "clips-cuts": ("cuts", {**CLIPS, "tasks": TWO}, ("strict",)),
    "clips-steps": ("steps", {**CLIPS, "tasks": TWO}, ("strict", "paper")),
    "clips-published": ("losses", {**PRESET, "as_published": True}, ("strict",)),
    "clips-released": ("losses", RELEASED, ("strict",)),
    "toy-main": ("main", TOY, ("strict",)),
    "toy-views": ("views", TOY, ("strict",)),
}


def run(name: str, root: Path, out: Path) -> Results:
    experiment, settings, _ = RUNS[name]
    source = settings["data"]
    options = {**settings, "data": source if source == "toy" else f"{source}:{root / source}"}
    results = run_experiment(experiment, folder=out, progress=Bar(), **options)
    results.save(out / f"{name}.json")
    return results


def main() -> None:
    """Run, then print the tables or write them into the page."""
    parser = arguments(__doc__)
    parser.add_argument("data", type=Path, help="folder with captaincook4d/ and egoprocel/")
    parser.add_argument("--out", type=Path, default=Path("experiments-out"))
    parser.add_argument("--write", type=Path, help="page with marks for the tables")
    parser.add_argument("--only", nargs="+", choices=list(RUNS), default=list(RUNS))
    args = parser.parse_args()
    for name in args.only:
        results = run(name, args.data, args.out)
        versions = ", ".join(map(" ".join, results.record["versions"].items()))
        tables = [results.table(protocol).markdown() for protocol in RUNS[name][2]]
        text = "\n".join([*tables, f"({versions})"])
        if args.write is None:
            print(f"\n{name}\n{text}")
        else:
            args.write.write_text(fill(args.write.read_text(), {name: text}))


if __name__ == "__main__":
    main()
