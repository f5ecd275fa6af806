"""The table of docs/results.md on short actions that come again and again: `python benchmarks/rounds.py [--seeds 4]`.

Made features, two rows a second: twelve videos of a start, rounds of four actions of about four seconds each, and an
end; every action has a look of its own, every video an offset, rows have noise and a slow drift. Beside the default
stand equal parts, k-means on the centred rows smoothed over a second, and the default with the width that would suit
steps that come once each.
"""

from __future__ import annotations

import argparse

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from sklearn.cluster import KMeans

from stepcut.evaluation import score
from stepcut.methods import StepCut
from stepcut.methods.default.restarts import choose_sigma
from stepcut.methods.default.slow_features import centre
from stepcut.methods.segmenters import SEGMENTERS
from stepcut.tables import Table
from stepcut.version import __version__

STEPS, RATE, SECONDS, DIM = 6, 2.0, 4.0, 64


def make_rounds(rounds: int, noise: float, seed: int) -> tuple[list[NDArray[np.float32]], list[NDArray[np.int64]]]:
    """Rows of twelve videos and their true labels, from 1."""
    rng = np.random.default_rng(seed)
    looks, rows, true = rng.normal(size=(STEPS, DIM)), [], []
    for _ in range(12):
        walk = [0, *[1, 2, 3, 4] * rounds, 5]
        labels = np.repeat(walk, np.maximum(1, RATE * SECONDS * rng.lognormal(0, 0.4, len(walk))).astype(np.int64))
        drift = gaussian_filter1d(rng.normal(size=(len(labels), DIM)), 8, axis=0) * 2.7
        video = looks[labels] + rng.normal(size=DIM) + noise * (rng.normal(size=drift.shape) + drift)
        rows.append(video.astype(np.float32))
        true.append(labels + 1)
    return rows, true


def measure(rounds: int, noise: float, seed: int) -> list[float]:
    """`strict` F1 of equal parts, k-means, the default as if each step came once, and the default."""
    rows, true = make_rounds(rounds, noise, seed)
    smooth = np.concatenate([gaussian_filter1d(centre(video), RATE, axis=0) for video in rows])
    clusters = KMeans(STEPS, n_init=10, random_state=seed).fit_predict(smooth).astype(np.int64)
    once = choose_sigma([centre(video) for video in rows], STEPS, 0.7) / RATE
    cuts = [
        SEGMENTERS["uniform"](steps=STEPS).fit_predict(rows),
        np.split(clusters, np.cumsum([len(video) for video in rows])[:-1]),
        StepCut(steps=STEPS, rate=RATE, seed=seed, seconds=once).fit(rows).labels_,
        StepCut(steps=STEPS, rate=RATE, seed=seed).fit(rows).labels_,
    ]
    return [score(cut, true).f1 for cut in cuts]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=4)
    seeds = range(parser.parse_args().seeds)
    columns = ["rounds", "noise", "uniform", "k-means", "as if each came once", "default"]
    title = f"strict F1, K = {STEPS}, made features, seeds 0 to {seeds[-1]}, stepcut {__version__}"
    table = Table(columns, [], title)
    for rounds in (1, 2, 4, 8):
        for noise in (0.5, 1.0, 2.0):
            figures = np.mean([measure(rounds, noise, seed) for seed in seeds], axis=0)
            table.rows.append([rounds, noise, *figures.tolist()])
    print(table.markdown())


if __name__ == "__main__":
    main()
