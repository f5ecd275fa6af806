"""Calibrate the estimate of quality: `python benchmarks/quality.py DATA --keep FILE [--jobs 2]`.

DATA is the folder that holds captaincook4d, captaincook4d_more, knot_tying and openpack. Every task is learned without
labels and with three and five labelled videos; FILE keeps the evidence and what was right, a JSON line per task, so that
a second call only fits. Prints the constants for src/stepcut/methods/quality.py and writes benchmarks/reports/quality.md.

Right is the share of all rows, background included, after one matching of discovered to true steps per task. All
figures of the report are for tasks that were held out, with all other tasks of their group.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.stats import spearmanr

from provenance import provenance
from quality_tasks import Trial, trials
from shared import Kept
from stepcut.evaluation import score
from stepcut.methods import StepCut
from stepcut.methods.arithmetic import equal_parts
from stepcut.methods.constraints import as_constraints
from stepcut.methods.quality import (
    WEIGHTS,
    Evidence,
    gather_evidence,
    order_by_content,
    shorten,
    shows_nothing,
)

REPORT = Path(__file__).parent / "reports" / "quality.md"
PREDICTORS = [name for name in WEIGHTS if name != "one"]
RIDGE = 0.2
"""How many tasks the prior belief counts for that weights are 0."""
Floats = NDArray[np.float64]
Fit = Callable[[Sequence[dict[str, Any]]], Callable[[dict[str, Any]], float]]


def measure(trial: Trial) -> dict[str, Any]:
    """The evidence without labels, and what is right without, after three and after five labelled videos."""
    rows, true = shorten(trial.rows), trial.true
    method = StepCut(steps=trial.steps, rate=trial.rate, restarts=12).fit(rows)
    evidence = gather_evidence(method, rows)
    assert evidence is not None
    found: dict[str, Any] = {
        "group": trial.group,
        "kind": trial.kind,
        "evidence": asdict(evidence),
        "right": share_right(method.labels_, true),
        "uniform_right": share_right([equal_parts(len(x), trial.steps) for x in rows], true),
    }
    ids = sorted(set(np.concatenate(true).tolist()) - {0})
    known = [np.array([ids.index(one) if one else -1 for one in each]) for each in true]
    order = order_by_content(rows)
    for count in (3, 5):
        if len(rows) < count + 3 or trial.kind == "wrong":
            continue
        taught = StepCut(steps=len(ids), rate=trial.rate, restarts=12)
        taught.start_from(method)
        given = [known[n] if n in order[:count] else None for n in range(len(rows))]
        taught.fit(rows, constraints=as_constraints(given))
        hits = [taught.labels_[place] == known[place] for place in order[count:]]
        found[f"after{count}"] = float(np.mean(np.concatenate(hits)))
    return found


def share_right(labels: Sequence[NDArray[np.int64]], true: Sequence[NDArray[np.int64]]) -> float:
    """The share of all rows that are right after the matching; no step is background."""
    matching = score(labels, true).matching
    mapped = [[matching.get(int(x), -9) if x >= 0 else 0 for x in each] for each in labels]
    return float(np.mean(np.concatenate(mapped) == np.concatenate(true)))


def fit_right(known: Sequence[dict[str, Any]]) -> Callable[[dict[str, Any]], float]:
    """A sum of evidence with weights of at least 0, and a constant; every group counts once."""
    weights = np.array(fit_weights(known))
    return lambda one: float(np.clip(_row(one) @ weights, 0, 1))


def fit_weights(known: Sequence[dict[str, Any]]) -> list[float]:
    """The constant, then a weight for each of PREDICTORS."""
    counts = {one["group"]: 0 for one in known}
    for one in known:
        counts[one["group"]] += 1
    share = np.sqrt([1 / counts[one["group"]] for one in known])
    rows = np.array([_row(one) for one in known]) * share[:, None]
    aim = np.array([one["right"] for one in known]) * share
    prior = np.diag([0.0, *[math.sqrt(RIDGE)] * len(PREDICTORS)])
    # nnls keeps all at 0 or more; the constant may be below 0, so that it enters with both signs.
    both = np.concatenate([np.concatenate([rows, prior]), -np.concatenate([rows, prior])[:, :1]], 1)
    found = nnls(both, np.concatenate([aim, np.zeros(len(prior))]))[0]
    return [float(found[0] - found[-1]), *found[1:-1].tolist()]


def _row(one: dict[str, Any]) -> Floats:
    return np.array([1.0, *(one["evidence"][name] for name in PREDICTORS)])


def fit_line(x: Callable[[dict[str, Any]], float], y: str) -> Fit:
    """A straight line from x to one of the figures."""

    def fit(known: Sequence[dict[str, Any]]) -> Callable[[dict[str, Any]], float]:
        slope, start = np.polyfit([x(one) for one in known], [one[y] for one in known], 1)
        return lambda one: float(np.clip(start + slope * x(one), 0, 1))

    return fit


def left_out(known: Sequence[dict[str, Any]], fit: Fit) -> Floats:
    """The estimate of each task by the groups of the others."""
    groups = [one["group"] for one in known]
    models = {group: fit([one for one in known if one["group"] != group]) for group in set(groups)}
    return np.array([models[one["group"]](one) for one in known])


def quantiles(errors: Floats) -> tuple[float, float]:
    """Between which errors a new task's lies in 8 of 10 cases: order statistics for n + 1, as conformal intervals."""
    ranked, n = np.sort(errors), len(errors)
    high = min(math.ceil(0.9 * (n + 1)), n) - 1
    return float(ranked[n - 1 - high]), float(ranked[high])


def covered(known: Sequence[dict[str, Any]], said: Floats, y: str) -> list[bool]:
    """Whether the interval of each task, by the errors of the other groups, holds the truth."""
    errors, inside = np.array([one[y] for one in known]) - said, []
    for place, one in enumerate(known):
        others = np.array([other["group"] != one["group"] for other in known])
        low, high = quantiles(errors[others])
        inside.append(bool(low <= errors[place] <= high))
    return inside


def is_uniform(one: dict[str, Any]) -> bool:
    return shows_nothing(Evidence(**one["evidence"]))


def main() -> None:
    """Run the missing measurements, fit, print the constants and write the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("--keep", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    kept = Kept(args.keep)
    todo = {one.name: (one,) for one in trials(args.data, args.keep.parent)}
    kept.fill(measure, todo, args.jobs)
    names = list(todo)
    every = [kept.known[name] for name in names]
    shared = [one for one in every if not is_uniform(one)]
    said = left_out(shared, fit_right)
    weights = fit_weights(shared)
    errors = np.array([one["right"] for one in shared]) - said
    lines = [
        f"WEIGHTS = {dict(zip(['one', *PREDICTORS], [round(w, 3) for w in weights], strict=True))}"
    ]
    lines.append(f"ERRORS = {_round(quantiles(errors))}")
    equal_fit = fit_line(lambda one: 1 / one["evidence"]["steps"], "uniform_right")
    equal = left_out(every, equal_fit)
    slope, start = np.polyfit(
        [1 / one["evidence"]["steps"] for one in every], [one["uniform_right"] for one in every], 1
    )
    wrong = np.array([one["uniform_right"] for one in every]) - equal
    lines.append(f"EQUAL = {_round((start, slope, *quantiles(wrong)))}")
    after = {}
    full = fit_right(shared)
    for count in (3, 5):
        some = [one for one in shared if f"after{count}" in one]
        line = fit_line(full, f"after{count}")
        guess = left_out(some, line)
        b, a = np.polyfit([full(one) for one in some], [one[f"after{count}"] for one in some], 1)
        after[count] = (some, guess)
        low, high = quantiles(np.array([one[f"after{count}"] for one in some]) - guess)
        lines.append(f"AFTER[{count}] = {_round((a, b, low, high))}")
    print("\n".join(lines))
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(report(names, every, shared, said, after), encoding="utf-8")


def _round(numbers: Sequence[float]) -> tuple[float, ...]:
    return tuple(round(float(one), 3) for one in numbers)


def report(
    names: Sequence[str],
    every: Sequence[dict[str, Any]],
    shared: Sequence[dict[str, Any]],
    said: Floats,
    after: dict[int, tuple[Sequence[dict[str, Any]], Floats]],
) -> str:
    """The text of the report."""
    inside, errors = covered(shared, said, "right"), np.array([o["right"] for o in shared]) - said
    low, high = quantiles(errors)
    lines = [
        "# Quality: how well the estimate holds on held-out tasks",
        "",
        provenance(
            "python benchmarks/quality.py DATA",
            "0",
            "CaptainCook4D, JIGSAWS knot tying, OpenPack, toy kitchens, mixed and unrelated videos",
        ),
        "",
        "Right: share of all rows, background included, after one matching per task.",
        "Each task is estimated by what was fitted to the other groups (one recipe is one group).",
        "",
        "| tasks | number | in the 80 % interval, % | rank correlation | mean absolute error, points |",
        "|---|---|---|---|---|",
    ]
    for kind in ("recorded", "toy", "wrong"):
        mine = [place for place, one in enumerate(shared) if one["kind"] == kind]
        if mine:
            true = [shared[place]["right"] for place in mine]
            rank = f"{spearmanr(said[mine], true).statistic:.2f}" if len(mine) > 3 else "–"
            lines.append(
                f"| {kind} | {len(mine)} | {100 * np.mean([inside[p] for p in mine]):.0f} | {rank} | "
                f"{100 * np.abs(errors[mine]).mean():.0f} |"
            )
    for count, (some, guess) in after.items():
        held = covered(some, guess, f"after{count}")
        off = np.abs(guess - [one[f"after{count}"] for one in some]).mean()
        lines.append(
            f"| after {count} labelled videos | {len(some)} | {100 * np.mean(held):.0f} | – | {100 * off:.0f} |"
        )
    lines += [
        "",
        "| task | kind | right, % | estimate, % | interval | equal parts, % |",
        "|---|---|---|---|---|---|",
    ]
    place = 0
    for name, one in zip(names, every, strict=True):
        if is_uniform(one):
            said_here, between = "equal parts", "–"
        else:
            said_here = f"{100 * said[place]:.0f}"
            between = (
                f"{100 * max(said[place] + low, 0):.0f}–{100 * min(said[place] + high, 1):.0f}"
            )
            place += 1
        lines.append(
            f"| {name} | {one['kind']} | {100 * one['right']:.0f} | {said_here} | {between} | "
            f"{100 * one['uniform_right']:.0f} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
