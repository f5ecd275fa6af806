"""How well the probability of a step predicts whether it was done: `python benchmarks/steps.py DATA [MORE] --keep FILE`.

DATA and MORE are folders of CaptainCook4D. A fifth of the recordings is held out at a time; a procedure is learned from
the normal ones among the others, all or three of them labelled. In every normal held-out recording each step is judged
as it is and after its rows were removed. FILE keeps the probabilities, a JSON line per fold, so that the script continues
where it stopped; benchmarks/reports/steps.md is written from it.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shared import Kept, add_reduce, head, reduce_features
from stepcut.paper.datasets import Task, load
from use_figures import area, backbone_of, is_wrong, true_labels
from verdicts import FEWEST, FOLDS, REDUCED, Learned

REPORT = Path(__file__).parent / "reports" / "steps.md"
LEVELS = (0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 0.75)
BEFORE = {"all": (54.7, 8.7), "3": (53.4, 10.4)}
"""Version 0.2.0 on the same folds: percent called *not seen*, of removed steps and of present ones."""


def judge(task: Task, fold: int) -> dict[str, Any]:
    """For all and for three labelled recordings, the probabilities of removed and of present steps."""
    backbone = backbone_of(task)
    videos = list(task.with_features(backbone))
    order = np.random.default_rng(0).permutation(len(videos))
    held = [videos[place] for place in sorted(order[fold::FOLDS])]
    own = [video for video in videos if video not in held and not is_wrong(video)]
    found: dict[str, Any] = {how: {"removed": [], "present": []} for how in BEFORE}
    if len(own) < FEWEST:
        return found
    rows = [video.read_features(backbone) for video in own]
    true = [true_labels(video, len(x)) for video, x in zip(own, rows, strict=True)]
    first = Learned(rows, len(task.steps))
    drawn = np.random.default_rng(fold).permutation(len(own))
    for how, chosen in (("all", drawn), ("3", drawn[:3])):
        labels = [one if place in chosen else None for place, one in enumerate(true)]
        learned = Learned(rows, len(task.steps), labels, before=first)
        for video in held:
            if is_wrong(video):
                continue
            x = video.read_features(backbone)
            cut = true_labels(video, len(x))
            whole = _probabilities(learned, x)
            for step in np.unique(cut[cut >= 0]).tolist():
                found[how]["present"].append(whole.get(step, 0.0))
                found[how]["removed"].append(_probabilities(learned, x[cut != step]).get(step, 0.0))
    return found


def _probabilities(learned: Learned, rows: NDArray[Any]) -> dict[int, float]:
    return {one.step: round(one.probability, 4) for one in learned.check(rows).steps}


def report(results: list[dict[str, Any]]) -> str:
    """The text of the report."""
    lines = [
        "# Steps: how well the probability predicts whether a step was done",
        "",
        head(
            0, "CaptainCook4D, held-out normal recordings", "python benchmarks/steps.py DATA MORE"
        ),
        "",
        "Each step is judged as it is (present) and after its rows were removed. A step is called *not seen* below 0.25.",
    ]
    for how, said in BEFORE.items():
        removed, present = (
            np.array([p for one in results for p in one[how][kind]])
            for kind in ("removed", "present")
        )
        both = [*removed, *present]
        curve = area([-p for p in both], [True] * len(removed) + [False] * len(present))
        lines += [
            "",
            f"## {'All' if how == 'all' else 'Three'} normal recordings labelled",
            "",
            f"{len(present)} steps. Area under the ROC {curve:.1f}. Version 0.2.0 called {said[0]} % of removed and",
            f"{said[1]} % of present steps *not seen*.",
            "",
            "| probability below | removed steps found, % | present steps called missing, % |",
            "|---|---|---|",
        ]
        lines += [
            f"| {at} | {100 * (removed < at).mean():.1f} | {100 * (present < at).mean():.1f} |"
            for at in LEVELS
        ]
        lines += ["", "| probability | steps | mean probability | done, % |", "|---|---|---|---|"]
        shares, done = np.array(both), np.repeat([0, 1], [len(removed), len(present)])
        for low in np.arange(0, 1, 0.2):
            there = (shares >= low) & (shares < low + 0.2 + (low > 0.7))
            if there.any():
                lines.append(
                    f"| {low:.1f} to {low + 0.2:.1f} | {there.sum()} | {shares[there].mean():.2f} | "
                    f"{100 * done[there].mean():.0f} |"
                )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Judge what is not kept yet, and write the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="+", type=Path, help="folders of CaptainCook4D")
    parser.add_argument("--keep", type=Path, required=True)
    add_reduce(parser, REDUCED)
    args = parser.parse_args()
    kept, results = Kept(args.keep), []
    for folder in reduce_features(args.data, args.reduce):
        for task in load("captaincook4d", str(folder)):
            if task.graph is not None:
                for fold in range(FOLDS):
                    results.append(kept.get(f"{task.name} {fold}", partial(judge, task, fold)))
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(report(results), encoding="utf-8")
    print(REPORT)


if __name__ == "__main__":
    main()
