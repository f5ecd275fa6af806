"""The paper's embedder on conv4c maps of raw video: every loss, then every cut. The table of docs/experiments.md.

    python benchmarks/maps.py pack VIDEOS_DIR frames.npz                      here: frames at 2 a second, as JPEG
    python benchmarks/maps.py train frames.npz --weights W -o DIR             on a GPU: maps, embeddings of every loss
    python benchmarks/maps.py cut DIR --gestures LABELS_DIR [-k 6 7]          here: cuts and scores

Three steps, because a machine with a GPU may have no decoder and no data beside what it is sent. LABELS_DIR holds, per
video, lines of first frame, last frame (from 1, at 30 a second) and label.
"""

from __future__ import annotations

import argparse
import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

RATE = 2
LOSSES: dict[str, dict[str, Any]] = {
    "tcc": {"loss": "tcc"},
    "lav": {"loss": "lav"},
    "lav+tcc": {"loss": "lav+tcc"},
    "tc3i": {"loss": "tc3i"},
    "tc3i, weight .1": {"loss": "tc3i", "weight": 0.1},
    "tc3i, weight 32": {"loss": "tc3i", "weight": 32.0},
    "tc3i, window 10 s": {"loss": "tc3i", "window": 10.0},
    "as published": {
        "loss": "tc3i",
        "weight": 32.0,
        "window": 10.0,
        "gamma_time": "frames",
        "temperature": 1 / 128,
    },
}


def pack(videos: Path, out: Path) -> None:
    """Decode every video to JPEG frames of 224 x 224."""
    from PIL import Image

    from stepcut.features.video.sample import sample_frames

    kept: dict[str, Any] = {}
    for path in sorted(videos.iterdir()):
        frames = []
        for _, picture in sample_frames(path, fps=RATE, size=224):
            file = io.BytesIO()
            Image.fromarray(np.asarray(picture)).save(file, "JPEG", quality=85)
            frames.append(np.frombuffer(file.getvalue(), np.uint8))
        kept[f"{path.stem}/sizes"] = np.array([len(frame) for frame in frames])
        kept[f"{path.stem}/jpeg"] = np.concatenate(frames)
    np.savez(out, **kept)


def train(frames: Path, weights: Path, out: Path, seeds: int, iterations: int, device: str) -> None:
    """Maps of all frames, and embeddings of every loss and seed."""
    from PIL import Image

    from stepcut.features.backbones import load_backbone
    from stepcut.features.spec import FeatureSpec
    from stepcut.methods.cnc.embedder import Embedder

    spec = FeatureSpec("resnet50", weights=str(weights), layer="conv4c", family="v1")
    backbone = load_backbone(spec, device=device)
    packed = np.load(frames)
    names = sorted({key.rpartition("/")[0] for key in packed})
    maps = []
    with ThreadPoolExecutor() as pool:
        for name in names:
            parts = np.split(packed[f"{name}/jpeg"], np.cumsum(packed[f"{name}/sizes"])[:-1])
            pictures = pool.map(lambda part: np.asarray(Image.open(io.BytesIO(part.tobytes())).convert("RGB")), parts)
            maps.append(backbone.extract(np.stack(list(pictures))))
    out.mkdir(parents=True, exist_ok=True)
    pooled = {name: each.astype(np.float32).mean((2, 3)) for name, each in zip(names, maps, strict=True)}
    np.savez(out / "pooled.npz", **{name: rows.astype(np.float16) for name, rows in pooled.items()})
    for seed in range(seeds):
        kept = {}
        for loss, settings in LOSSES.items():
            embedder = Embedder(rate=RATE, seed=seed, iterations=iterations, device=device, **settings).fit(maps)
            print(loss, "seed", seed, len(embedder.curve_.values), "iterations", embedder.curve_.values[-1], flush=True)
            for name, rows in zip(names, embedder.transform(maps), strict=True):
                kept[f"{loss}/{name}"] = rows.astype(np.float16)
        np.savez(out / f"seed{seed}.npz", **kept)


def cut(folder: Path, gestures: Path, numbers: list[int]) -> None:
    """Print `strict` F1 of every loss with every cut, a figure per seed."""
    from stepcut.evaluation import score
    from stepcut.evaluation.compare import baseline
    from stepcut.methods.baselines.smooth import cut_smooth
    from stepcut.methods.segmenters import SEGMENTERS

    pooled = np.load(folder / "pooled.npz")
    names, number, true = list(pooled), {}, []
    for name in names:
        times, labels = (np.arange(len(pooled[name])) + 0.5) / RATE, np.zeros(len(pooled[name]), np.int64)
        for line in (gestures / f"{name}.txt").read_text().splitlines():
            first, last, gesture = line.split()[:3]
            inside = (times >= (int(first) - 1) / 30) & (times < int(last) / 30)
            labels[inside] = number.setdefault(gesture, len(number) + 1)
        true.append(labels)
    vectors = [pooled[name].astype(np.float32) for name in names]
    files = [np.load(file) for file in sorted(folder.glob("seed*.npz"))]
    for k in numbers:
        print(f"K = {k}: uniform {score(baseline('uniform', true, k), true, clusters=k).f1:.1f}")
        print("smooth", *(f"{score(cut_smooth(vectors, k, RATE, s), true).f1:.1f}" for s in range(len(files))))
        for loss in LOSSES:
            for cut_name in ("kmeans", "subset", "procut"):
                figures = []
                for seed, file in enumerate(files):
                    if f"{loss}/{names[0]}" in file:
                        rows = [file[f"{loss}/{name}"].astype(np.float32) for name in names]
                        found = SEGMENTERS[cut_name](steps=k, rate=RATE, seed=seed).fit_predict(rows)
                        figures.append(score(found, true).f1)
                print(f"{loss} + {cut_name}", *(f"{figure:.1f}" for figure in figures), flush=True)


def main() -> None:
    """Run one of the three steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["pack", "train", "cut"])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path, nargs="?", help="pack: the file of frames")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("-o", "--out", type=Path, default=Path("maps"))
    parser.add_argument("--gestures", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=3000)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("-k", type=int, nargs="+", default=[6, 7])
    args = parser.parse_args()
    if args.step == "pack":
        pack(args.source, args.target)
    elif args.step == "train":
        train(args.source, args.weights, args.out, args.seeds, args.iterations, args.device)
    else:
        cut(args.source, args.gestures, args.k)


if __name__ == "__main__":
    main()
