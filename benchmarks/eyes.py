"""What the embedded backbone sees of short gestures in one unchanging scene: the knot-tying videos, 36 trials.

    python benchmarks/eyes.py ../shared/data/knot_tying [--layers plain,layout] [--times exact,near,fast] [--motion]

Accuracy of a linear classifier with labels (ridge regression on standardised columns, each part of the row with equal
weight, penalty equal to the mean variance, all trials of one person left out at a time), and strict F1 of the default
method with the true number of steps and seed 0. `--motion`: the difference of the rows half a second after and before
is appended, for the classifier alone.
"""

from __future__ import annotations

import argparse
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stepcut.evaluation import score
from stepcut.features.extract import extract
from stepcut.features.spec import FeatureSpec
from stepcut.methods import StepCut
from stepcut.version import __version__

GESTURES = ["G1", "G11", "G12", "G13", "G14", "G15"]
FILMED = 30
Floats = NDArray[np.float64]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a folder with videos/ and gestures/")
    parser.add_argument("--layers", default="plain,layout")
    parser.add_argument("--times", default="exact")
    parser.add_argument("--motion", action="store_true")
    parser.add_argument("--no-default", action="store_true", help="the classifier alone")
    args = parser.parse_args()
    print(f"stepcut {__version__}, knot tying, 2 rows a second, K = 6, seed 0")
    for layer in args.layers.split(","):
        for times in args.times.split(","):
            spec = FeatureSpec(layer=None if layer == "plain" else layer, times=times)
            features, _ = extract(args.data / "videos", spec)
            rows = [np.asarray(one.rows, np.float64) for one in features]
            true = [gestures(args.data / "gestures" / f"{one.name}.txt", len(one.rows)) for one in features]
            people = [one.name.split("_")[2] for one in features]
            parts = [1280] if layer == "plain" else [1280, 1952]
            accuracy = linear(rows, true, people, parts, args.motion)
            words = f"{layer:<8} {times:<6} {'with motion ' if args.motion else ''}linear {accuracy:.1f}"
            if not args.no_default:
                found = StepCut(steps=6, rate=2.0, seed=0).fit(rows).labels_
                words += f"  default, strict F1 {score(found, true, protocol='strict').f1:.1f}"
            print(words, flush=True)
    return 0


def gestures(file: Path, count: int) -> NDArray[np.int64]:
    """The gesture of each row, from 1; 0 is none. A line: first frame, last frame (from 1), gesture."""
    labels = np.zeros(count, np.int64)
    times = np.arange(count) / 2
    for line in file.read_text().splitlines():
        first, last, name = line.split()[:3]
        labels[(times >= (int(first) - 1) / FILMED) & (times < int(last) / FILMED)] = GESTURES.index(name) + 1
    return labels


def linear(
    rows: list[Floats], true: list[NDArray[np.int64]], people: list[str], parts: list[int], motion: bool
) -> float:
    """Percent of labelled rows named rightly, each person by a classifier that never met them.

    With A = (X X' + n)^-1, the residuals of rows g left out together are (A_gg)^-1 (A Y)_g.
    """
    pieces = [np.concatenate([video[:, at] for video in rows]) for at in cut(rows[0].shape[1], parts)]
    if motion:
        moved = [np.concatenate([video[1:], video[-1:]]) - np.concatenate([video[:1], video[:-1]]) for video in rows]
        pieces += [np.concatenate([video[:, at] for video in moved]) for at in cut(rows[0].shape[1], parts)]
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
    sys.exit(main())
