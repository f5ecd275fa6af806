"""Compare the two feature layers of the default backbone on knot tying (fixed scene) and toy
kitchens.

    python benchmarks/eyes.py ../shared/data/knot_tying [--layers pooled,layout] [--fast] [--motion]
    python benchmarks/eyes.py --kitchens FOLDER         renders six kitchens into it

Strict F1 of the default method with the annotated number of steps: without labels, the mean of four
seeds; with one, three and five labelled videos (three draws, seed 0), of the unlabelled videos. For
the knots also the accuracy of a linear classifier with labels: ridge regression on standardized
columns, each part of the row with equal weight, penalty equal to the mean variance, all trials of
one person held out. `--motion` appends the difference of the rows half a second before and after,
for the classifier only.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from results_toy import KITCHENS, see
from shared import GESTURES, arguments, gestures, report
from stepcut.evaluation import score
from stepcut.features.backbones.lite0 import DIM
from stepcut.features.extract import extract
from stepcut.features.spec import FeatureSpec
from stepcut.methods import StepCut
from stepcut.version import __version__

RATE = 2
SEEDS, LABELLED, DRAWS = range(4), (1, 3, 5), 3
Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("data", type=Path, nargs="?", help="folder with videos/ and gestures/")
    parser.add_argument("--kitchens", type=Path, help="folder for toy kitchens")
    parser.add_argument("--layers", default="pooled,layout")
    parser.add_argument("--fast", action="store_true", help="also sample fast")
    parser.add_argument("--motion", action="store_true")
    parser.add_argument("--no-default", action="store_true", help="for the classifier only")
    args = parser.parse_args()
    print(
        f"stepcut {__version__}, {RATE} rows per second, K = 6; F1 without labels, then with {LABELLED}",
        flush=True,
    )
    for layer in args.layers.split(","):
        for fast in (False, True)[: 1 + args.fast]:
            times = "fast" if fast else "exact"
            spec = FeatureSpec(layer=None if layer == "pooled" else layer, fast=fast)
            if args.data is not None:
                features, _ = extract(args.data / "videos", spec)
                rows = [np.asarray(one.rows, np.float64) for one in features]
                true = [
                    gestures(args.data / "gestures" / f"{one.name}.txt", len(one.rows), RATE)
                    for one in features
                ]
                people = [one.name.split("_")[2] for one in features]
                print(
                    f"{layer:<8} {times:<6} knots, linear {linear(rows, true, people, [DIM], args.motion):.1f}"
                )
                if not args.no_default:
                    print(f"{layer:<8} {times:<6} knots   ", *shown(taught(rows, true)), flush=True)
            if args.kitchens is not None:
                each = [(kind, seed, plan) for kind, plan in KITCHENS.items() for seed in (4, 5)]
                found = [taught(*see(args.kitchens, *one, spec)) for one in each]
                print(f"{layer:<8} {times:<6} kitchens", *shown(np.mean(found, axis=0)), flush=True)
    return 0


def shown(figures: Sequence[float]) -> list[str]:
    return [f"{figure:.1f}" for figure in figures]


def taught(rows: Sequence[Floats], true: Sequence[Labels]) -> list[float]:
    """Strict F1 without labels, then of the unlabelled videos once some are labelled."""
    plain = [StepCut(steps=6, rate=RATE, seed=seed).fit(rows) for seed in SEEDS]
    found = [float(np.mean([score(one.labels_, true, "strict").f1 for one in plain]))]
    for count in LABELLED:
        scores = []
        for draw in range(DRAWS):
            known = set(np.random.default_rng(draw).permutation(len(rows))[:count].tolist())
            method = StepCut(steps=6, rate=RATE, seed=0)
            method.start_from(plain[0])
            method.fit(
                rows, labels=[cut - 1 if place in known else None for place, cut in enumerate(true)]
            )
            others = [place for place in range(len(rows)) if place not in known]
            scores.append(
                score([method.labels_[n] for n in others], [true[n] for n in others], "strict").f1
            )
        found.append(float(np.mean(scores)))
    return found


def linear(
    rows: list[Floats], true: list[Labels], people: list[str], parts: list[int], motion: bool
) -> float:
    """Accuracy in percent of labelled rows; each person is held out.

    With A = (X X' + n)^-1, the residuals of rows g held out together are (A_gg)^-1 (A Y)_g.
    """
    pieces = [
        np.concatenate([video[:, at] for video in rows]) for at in cut(rows[0].shape[1], parts)
    ]
    if motion:
        moved = [
            np.concatenate([video[1:], video[-1:]]) - np.concatenate([video[:1], video[:-1]])
            for video in rows
        ]
        pieces += [
            np.concatenate([video[:, at] for video in moved]) for at in cut(rows[0].shape[1], parts)
        ]
    y = np.concatenate(true)
    who = np.repeat(people, [len(video) for video in rows])[y > 0]
    x = np.concatenate([standard(piece[y > 0]) for piece in pieces], axis=1)
    y = y[y > 0]
    mean = np.bincount(y - 1, minlength=len(GESTURES)) / len(y)
    target = np.eye(len(GESTURES))[y - 1] - mean
    gram = x @ x.T
    inverse = np.linalg.inv(gram * len(gram) / np.trace(gram) + np.eye(len(gram)))
    fitted, right = inverse @ target, 0
    for person in set(who):
        of = np.flatnonzero(who == person)
        left = target[of] - np.linalg.solve(inverse[np.ix_(of, of)], fitted[of])
        right += int(((left + mean).argmax(axis=1) == y[of] - 1).sum())
    return 100 * right / len(y)


def cut(dim: int, parts: list[int]) -> list[slice]:
    borders = [0, *(part for part in parts if part < dim), dim]
    return [slice(a, b) for a, b in pairwise(borders)]


def standard(piece: Floats) -> Floats:
    spread = piece.std(axis=0)
    return (piece - piece.mean(axis=0)) / np.where(spread > 0, spread, 1) / np.sqrt(piece.shape[1])


if __name__ == "__main__":
    with report(__file__):
        sys.exit(main())
