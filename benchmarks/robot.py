"""Compare embeddings of unlabelled robot videos with the positions of the joints.

    python benchmarks/robot.py embedded/ --states PARQUET_DIR     pip install pyarrow

`embedded/` comes from `benchmarks/maps.py train ... --plan robot`. Every frame is matched with its
nearest neighbour in each other video. `joints`: distance of the joints of matched frames, relative
to random frames. Reference rows match by relative time (uniform baseline) and by the joints
themselves (upper bound). `tau`: Kendall's tau, 1 if matches are in temporal order. `one order`: the
share of videos with the most common order of steps, segmented by ProCut.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from maps import RATE
from shared import arguments, report
from stepcut.methods import METHODS
from stepcut.tables import Table
from stepcut.version import __version__

Videos = dict[str, NDArray[np.float32]]
STEPS = 4


def read_states(folder: Path, lengths: dict[str, int]) -> Videos:
    """Positions of moving joints at every row, in radians from their mean in the video."""
    import pyarrow.parquet as parquet

    found = {}
    for name, count in lengths.items():
        table = parquet.read_table(folder / f"{name}.parquet")
        seconds = table["timestamp"].to_numpy()
        rows = np.searchsorted(seconds, (np.arange(count) + 0.5) / RATE).clip(0, len(seconds) - 1)
        states = np.stack(table["observation.state"].to_numpy())[rows]
        found[name] = states - states.mean(0)
    spread = np.concatenate(list(found.values())).std(0)
    return {name: states[:, spread > 0.1 * spread.max()] for name, states in found.items()}


def judge(embedded: Videos, states: Videos) -> tuple[float, float, float]:
    """`joints`, `tau` and `one order` of one set of embeddings."""
    apart, chance, taus = [], [], []
    for a, u in embedded.items():
        for b, v in embedded.items():
            if a == b:
                continue
            nearest = ((v**2).sum(1)[None] - 2 * u @ v.T).argmin(1)
            every = np.linalg.norm(states[a][:, None] - states[b][None], axis=2)
            apart.append(every[np.arange(len(u)), nearest].mean())
            chance.append(every.mean())
            taus.append(kendalltau(np.arange(len(u)), nearest).statistic)
    labels = METHODS["procut"](steps=STEPS, rate=RATE, seed=0).fit(list(embedded.values())).labels_
    orders = Counter(
        tuple(each[np.flatnonzero(np.diff(each, prepend=-1))].tolist()) for each in labels
    )
    return (
        float(np.sum(apart) / np.sum(chance)),
        float(np.mean(taus)),
        orders.most_common(1)[0][1] / len(labels),
    )


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--states", type=Path, required=True)
    args = parser.parse_args()
    rows: dict[str, Videos] = {}
    for file in [args.folder / "robot-pooled.npz", *sorted(args.folder.glob("robot=*.npz"))]:
        with np.load(file) as kept:
            name = (
                "pooled maps, untrained"
                if "=" not in file.stem
                else ", seed ".join(file.stem.split("=")[1:])
            )
            rows[name] = {video: kept[video].astype(np.float32) for video in kept}
    lengths = {video: len(each) for video, each in next(iter(rows.values())).items()}
    clock = {
        name: np.linspace(0, 1, count, dtype=np.float32)[:, None] for name, count in lengths.items()
    }
    states = read_states(args.states, lengths)
    table = Table(["row", "joints", "tau", f"one order (K = {STEPS})"], [], digits=2)
    table.caption = (
        f"robot: {len(lengths)} videos, {sum(lengths.values())} rows at {RATE} per second, "
        f"stepcut {__version__}"
    )
    for name, embedded in {"uniform": clock, "the joints themselves": states, **rows}.items():
        table.rows.append([name, *judge(embedded, states)])
    print(table.markdown())


if __name__ == "__main__":
    with report(__file__):
        main()
