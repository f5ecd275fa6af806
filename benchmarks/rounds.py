"""Measure short actions in repeated cycles: `python benchmarks/rounds.py [--seeds 4]`.

The features are synthetic, two rows per second. Twelve videos have a start, cycles of four actions of about four seconds
each, and an end. Every action has its own prototype and every video an offset; rows have noise and a slow drift. The
default method is compared with equal-length segments, k-means on centred rows smoothed over a second, the default with
the width for steps without repetition, and the default on five of the videos. Then a procedure of sixteen videos checks
new videos, and the guide predicts the next action (reports/check.md).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from sklearn.cluster import KMeans

from stepcut import learn
from stepcut.evaluation import score
from stepcut.methods import METHODS, StepCut
from stepcut.methods.consensus import overlap, pair_steps
from stepcut.methods.stepcut.slow_features import centre
from stepcut.tables import Table
from stepcut.version import __version__

STEPS, RATE, SECONDS, DIM, FEW = 6, 2.0, 4.0, 64, 5


def once_less(walk: list[int]) -> list[int]:
    """The second action is missing in one cycle in the middle."""
    place = len(walk) // 8 * 4 + 2
    return walk[:place] + walk[place + 1 :]


CHANGES: dict[str, Callable[[list[int]], list[int]]] = {
    "normal": lambda walk: walk,
    "a round less": lambda walk: walk[:-5] + walk[-1:],
    "an action less": once_less,
    "a round more": lambda walk: walk[:-1] + walk[1:5] + walk[-1:],
}


def make_rounds(
    rounds: int, noise: float, seed: int, changes: Sequence[str] = ("normal",) * 12
) -> tuple[list[NDArray[np.float32]], list[NDArray[np.int64]]]:
    """Rows of videos that are changed so, and their true labels, from 1."""
    rng = np.random.default_rng(seed)
    looks, rows, true = rng.normal(size=(STEPS, DIM)), [], []
    for change in changes:
        walk = CHANGES[change]([0, *[1, 2, 3, 4] * rounds, 5])
        labels = np.repeat(
            walk, np.maximum(1, RATE * SECONDS * rng.lognormal(0, 0.4, len(walk))).astype(np.int64)
        )
        drift = gaussian_filter1d(rng.normal(size=(len(labels), DIM)), 8, axis=0) * 2.7
        video = (
            looks[labels] + rng.normal(size=DIM) + noise * (rng.normal(size=drift.shape) + drift)
        )
        rows.append(video.astype(np.float32))
        true.append(labels + 1)
    return rows, true


def measure(rounds: int, noise: float, seed: int) -> list[float]:
    """`strict` F1 of equal parts, k-means, the default as if each step came once, the default, and it on few videos."""
    rows, true = make_rounds(rounds, noise, seed)
    smooth = np.concatenate([gaussian_filter1d(centre(video), RATE, axis=0) for video in rows])
    clusters = KMeans(STEPS, n_init=10, random_state=seed).fit(smooth).labels_.astype(np.int64)
    once = float(np.median([len(video) for video in rows])) / (4 * STEPS) / RATE
    cuts = [
        METHODS["uniform"](steps=STEPS).fit(rows).labels_,
        np.split(clusters, np.cumsum([len(video) for video in rows])[:-1]),
        StepCut(steps=STEPS, rate=RATE, seed=seed, seconds=once).fit(rows).labels_,
        StepCut(steps=STEPS, rate=RATE, seed=seed).fit(rows).labels_,
        StepCut(steps=STEPS, rate=RATE, seed=seed).fit(rows[:FEW]).labels_,
    ]
    return [score(cut, true[: len(cut)]).f1 for cut in cuts]


def use(rounds: int, noise: float, seed: int, learned: int = 16, new: int = 8) -> list[float]:
    """Return the share of `new` videos of each change with an alarm, and of right next actions by the guide."""
    kinds = ["normal"] * learned + [kind for kind in CHANGES for _ in range(new)]
    rows, true = make_rounds(rounds, noise, seed, kinds)
    procedure = learn(rows[:learned], steps=STEPS, rate=RATE, seed=seed)
    wrong = [not procedure.check(video).ok for video in rows[learned:]]
    found = np.concatenate(procedure.method.predict(rows[:learned]))
    names = match(found, np.concatenate(true[:learned]) - 1)
    right = []
    for video, labels in zip(
        rows[learned : learned + new], true[learned : learned + new], strict=True
    ):
        guide = procedure.guide()
        states = [guide.push(number / RATE, row) for number, row in enumerate(video)]
        for end in np.flatnonzero(np.diff(labels)):
            following = states[end].next
            right.append(bool(following) and names.get(following[0][0]) == labels[end + 1] - 1)
    return [*np.mean(np.reshape(wrong, (-1, new)), axis=1), float(np.mean(right))]


def match(found: NDArray[np.int64], true: NDArray[np.int64]) -> dict[int, int]:
    """Match discovered steps to true steps, one to one."""
    rows, columns = pair_steps(overlap(found, true, STEPS))
    return dict(zip(rows.tolist(), columns.tolist(), strict=True))


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=4)
    seeds = range(parser.parse_args().seeds)
    columns = [
        "rounds",
        "noise",
        "uniform",
        "k-means",
        "as if each came once",
        "default",
        f"{FEW} videos",
    ]
    title = (
        f"strict F1, K = {STEPS}, synthetic features, seeds 0 to {seeds[-1]}, stepcut {__version__}"
    )
    table = Table(columns, [], title)
    for rounds in (1, 2, 4, 8):
        for noise in (0.5, 1.0, 2.0):
            figures = np.mean([measure(rounds, noise, seed) for seed in seeds], axis=0)
            table.rows.append([rounds, noise, *figures.tolist()])
    print(table.markdown())
    columns = ["rounds", *CHANGES, "next is right"]
    table = Table(
        columns,
        [],
        f"percent called wrong, learned from 16 videos, noise 0.5, seeds 0 to {seeds[-1]}",
    )
    for rounds in (1, 2, 4, 8):
        figures = 100 * np.mean([use(rounds, 0.5, seed) for seed in seeds], axis=0)
        table.rows.append([rounds, *figures.tolist()])
    print("\n" + table.markdown())


if __name__ == "__main__":
    main()
