"""The paper's embedder on conv4c maps of the knot-tying videos: every loss and segmenter, with
stepcut's settings, as published and as released (reports/experiments.md).

    python benchmarks/maps.py train VIDEOS_DIR --weights W -o embedded/    on a GPU
    python benchmarks/maps.py cut embedded/ --labels GESTURES_DIR

What is in `embedded/` is not repeated.
"""

from __future__ import annotations

import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from shared import Kept, arguments, gestures

RATE = 2
NUMBERS = (7, 10, 15)
ITERATIONS = 3000
"""At most, as a run may converge before; "as released" has its own number."""
LOSSES = {"TCC": "tcc", "LAV": "lav", "LAV + TCC": "lav+tcc", "TC3I": "tc3i"}
PRESETS = {"": "", ", as published": "published", ", as released": "released"}
CUTS = {"HC": "kmeans", "SS": "subset", "PCM": "procut"}


class Run(NamedTuple):
    """One embedder to train."""

    loss: str
    preset: str
    seed: int

    @property
    def file(self) -> str:
        return f"knots={self.loss}{self.preset}={self.seed}.npz"


def extract(videos: Path, weights: Path, out: Path, device: str) -> None:
    """Store the maps of all frames, and their spatial means by video."""
    import torch

    from stepcut.features.backbones.networks import read_weights, resnet50_graph
    from stepcut.features.video.sample import sample_frames
    from stepcut.paper.cnc.tune import TunableBackbone

    graph = resnet50_graph(read_weights(weights)[0], layer="conv4c", family="v1")
    backbone = TunableBackbone(graph).to(device).eval()
    half = torch.autocast(device, dtype=torch.float16, enabled=device == "cuda")
    maps = {}
    for video in sorted(videos.iterdir()):
        pictures = np.stack([frame for _, frame in sample_frames(video, fps=RATE, size=224)])
        with torch.inference_mode(), half:
            batches = torch.from_numpy(pictures).split(256)
            parts = [backbone(batch.to(device)).half().cpu() for batch in batches]
        maps[video.stem] = torch.cat(parts).numpy()
    means = {video: rows.mean((2, 3), dtype=np.float32) for video, rows in maps.items()}
    kept: dict[str, Any] = {video: rows.astype(np.float16) for video, rows in means.items()}
    np.savez(out / "knots-pooled.npz", **kept)
    np.save(out / "maps.npy", np.concatenate(list(maps.values())))


def train(videos: Path, weights: Path, out: Path, seeds: int, device: str, workers: int) -> None:
    """Extract maps of all frames, and train every run."""
    begun = time.time()
    out.mkdir(parents=True, exist_ok=True)
    extract(videos, weights, out, device)
    print(f"{time.time() - begun:.0f} s: maps extracted", flush=True)
    runs = [
        Run(loss, preset, seed) for seed in range(seeds) for preset in PRESETS for loss in LOSSES
    ]
    runs = [run for run in runs if not (out / run.file).exists()]
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        work = [pool.submit(train_one, run, out, device) for run in runs]
        for number, done in enumerate(as_completed(work), 1):
            outcome = done.exception() or done.result()
            print(f"{time.time() - begun:.0f} s, {number} of {len(runs)}: {outcome}", flush=True)
    (out / "maps.npy").unlink()


def train_one(run: Run, out: Path, device: str) -> str:
    """Train one embedder, store the embeddings of all videos, and report the loss."""
    import torch

    from stepcut.paper.cnc.embedder import Embedder
    from stepcut.paper.cnc.settings import preset_settings

    begun = time.time()
    torch.set_num_threads(2)
    with np.load(out / "knots-pooled.npz") as pooled:
        lengths = {video: len(pooled[video]) for video in pooled}
    stored = np.load(out / "maps.npy", mmap_mode="r")
    given = np.split(stored, np.cumsum(list(lengths.values()))[:-1])
    loss, preset = LOSSES[run.loss], PRESETS[run.preset]
    settings: dict[str, Any] = {} if preset == "released" else {"iterations": ITERATIONS}
    if preset:
        settings |= preset_settings(preset, loss, settings, RATE, NUMBERS[0])[0]
    embedder = Embedder.of(loss=loss, rate=RATE, seed=run.seed, device=device, **settings)
    embedded = embedder.fit(given).transform(given)
    kept: dict[str, Any] = {
        video: rows.astype(np.float16) for video, rows in zip(lengths, embedded, strict=True)
    }
    np.savez(out / run.file, **kept)
    losses = [row[0] for row in embedder.curve_.values]
    took = f"{len(losses)} iterations in {time.time() - begun:.1f} s"
    return f"{run.file}, {took}, loss {losses[0]:.3f} to {np.mean(losses[-50:]):.3f}"


def cut(folder: Path, labels: Path, workers: int) -> None:
    """Print `strict` F1 of every loss with every segmenter and K: mean and sample deviation over
    seeds. Presets are cut by the ProCut Module with their own settings."""
    from stepcut.tables import Cell, Spread, Table
    from stepcut.version import __version__

    rows: dict[str, list[int]] = {"uniform": [0]}
    rows |= {f"{way}, pooled maps": [0, 1] for way in ("smooth", "stepcut", "cnc")}
    for file in sorted(folder.glob("knots=*.npz")):
        _, loss, seed = file.stem.split("=")
        for short in CUTS if ", as " not in loss else ["PCM"]:
            rows.setdefault(f"{loss} + {short}", []).append(int(seed))
    kept = Kept(folder / "cut.jsonl")
    cells = [(row, seed, k) for row, seeds in rows.items() for seed in seeds for k in NUMBERS]
    kept.fill(
        figure, {f"knots: {r}, {s}, {k}": (folder, labels, r, s, k) for r, s, k in cells}, workers
    )
    table = Table(["row", "seeds", *(f"K = {k}" for k in NUMBERS)], [])
    for row, seeds in rows.items():
        found = [[kept.known[f"knots: {row}, {s}, {k}"]["f1"] for s in seeds] for k in NUMBERS]
        means: list[Cell] = [Spread.of(each) if len(seeds) > 1 else each[0] for each in found]
        table.rows.append([row, len(seeds), *means])
    table.caption = f"conv4c maps at {RATE} per second, strict F1, stepcut {__version__}"
    print(table.markdown(), flush=True)


def figure(folder: Path, labels: Path, row: str, seed: int, k: int) -> dict[str, float]:
    """F1 of one row with one seed and K."""
    from stepcut.evaluation import score
    from stepcut.evaluation.compare import baseline
    from stepcut.methods import METHODS
    from stepcut.methods.baselines import KMeans, smooth_embedding
    from stepcut.paper.cnc.settings import preset_settings

    loss, _, short = row.rpartition(" + ")
    kept = np.load(folder / (f"knots={loss}={seed}.npz" if loss else "knots-pooled.npz"))
    given = [kept[video].astype(np.float32) for video in kept]
    true = [  # in the middle of each row
        gestures(labels / f"{video}.txt", 2 * len(kept[video]), 2 * RATE)[1::2] for video in kept
    ]
    found: Any
    if loss:
        plain, _, preset = loss.partition(", as ")
        maker: Any = METHODS[CUTS[short]]
        chosen = preset_settings(preset, LOSSES[plain], {}, RATE, k)[1] if preset else {}
        known = {each.name for each in fields(maker)}  # "states" is of another segmenter
        settings = {name: value for name, value in chosen.items() if name in known}
        found = maker(steps=k, rate=RATE, seed=seed, **settings).fit(given).labels_
    elif row == "uniform":
        found = baseline("uniform", true, k)
    elif row.startswith("smooth"):
        found = KMeans(k, RATE, seed, normalise=False).fit(smooth_embedding(given, RATE)).labels_
    else:
        method: Any = METHODS[row.split(",")[0]]
        found = method(steps=k, rate=RATE, seed=seed).fit(given).labels_
    return {"f1": score(found, true, clusters=k).f1}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("step", choices=["train", "cut"])
    parser.add_argument("given", type=Path)
    parser.add_argument("-o", "--out", type=Path, default=Path("maps"))
    parser.add_argument("--weights", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--workers", type=int, default=1, help="parallel processes")
    parser.add_argument("--labels", type=Path)
    args = parser.parse_args()
    if args.step == "train":
        train(args.given, args.weights, args.out, args.seeds, args.device, args.workers)
    else:
        cut(args.given, args.labels, args.workers)


if __name__ == "__main__":
    main()
