"""The paper's embedder on conv4c maps of raw video: every loss, every cut, K, frozen or tuned. See docs/experiments.md.

    python benchmarks/maps.py pack frames/ --set knots VIDEOS_DIR --set toy-plain VIDEOS_DIR ...   frames as JPEG
    python benchmarks/maps.py train frames/ --weights W -o embedded/ [--seconds 500]               on a GPU
    python benchmarks/maps.py cut embedded/ --labels knots GESTURES_DIR --labels toy-plain ANNOTATIONS_DIR ...

Three steps, because a machine with a GPU may have no decoder and no data beside what it is sent. A folder of labels
holds a file per video: lines of first frame, last frame (from 1, at 30 a second) and label in a .txt, or any format
that stepcut reads. Training stops with the plan's last finished run when `--seconds` are over.
"""

from __future__ import annotations

import argparse
import io
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

RATE = 2
NUMBERS = (6, 7, 10, 12, 15)
CUTS = {"HC": "kmeans", "SS": "subset", "PCM": "procut"}
LOSSES: dict[str, dict[str, Any]] = {
    "TCC": {"loss": "tcc"},
    "LAV": {"loss": "lav"},
    "LAV + TCC": {"loss": "lav+tcc"},
    "TC3I": {"loss": "tc3i"},
    "TC3I, weight .1": {"loss": "tc3i", "weight": 0.1},
    "TC3I, window 10 s": {"loss": "tc3i", "window": 10.0},
    "as published": {"loss": "tc3i", "weight": 32.0, "window": 10.0, "gamma_time": "frames", "temperature": 1 / 128},
}
PAPERS = ("TCC", "LAV", "LAV + TCC", "TC3I")


def plan(sets: list[str]) -> list[tuple[str, str, int, bool]]:
    """(set, loss, seed, tuned) in the order of what matters most."""
    toys = [name for name in sets if name not in ("knots", "robot")]
    runs = [("knots", loss, seed, False) for seed in range(5) for loss in PAPERS]
    runs += [("knots", loss, 0, True) for loss in ("TCC", "TC3I")]
    runs += [(name, loss, seed, False) for seed in range(3) for name in toys for loss in PAPERS]
    runs += [("knots", loss, seed, False) for seed in range(2) for loss in LOSSES if loss not in PAPERS]
    runs += [("robot", loss, seed, False) for seed in range(2) for loss in ("TCC", "TC3I")]
    runs += [("knots", loss, 1, True) for loss in ("TCC", "TC3I")]
    return [run for run in runs if run[0] in sets]


def pack(out: Path, sets: list[tuple[str, Path]], quality: int) -> None:
    """Decode every video to JPEG frames of 224 x 224."""
    from PIL import Image

    from stepcut.features.video.sample import sample_frames

    out.mkdir(parents=True, exist_ok=True)
    for name, videos in sets:
        kept: dict[str, Any] = {}
        for path in sorted(videos.iterdir()):
            frames = []
            for _, picture in sample_frames(path, fps=RATE, size=224):
                file = io.BytesIO()
                Image.fromarray(np.asarray(picture)).save(file, "JPEG", quality=quality)
                frames.append(np.frombuffer(file.getvalue(), np.uint8))
            kept[f"{path.stem}/sizes"] = np.array([len(frame) for frame in frames])
            kept[f"{path.stem}/jpeg"] = np.concatenate(frames)
        np.savez(out / f"{name}.npz", **kept)


def unpack(file: Path) -> dict[str, NDArray[np.uint8]]:
    """Video -> frames (T, 224, 224, 3)."""
    from PIL import Image

    packed = np.load(file)
    found = {}
    with ThreadPoolExecutor() as pool:
        for name in sorted({key.rpartition("/")[0] for key in packed}):
            parts = np.split(packed[f"{name}/jpeg"], np.cumsum(packed[f"{name}/sizes"])[:-1])
            pictures = pool.map(lambda part: np.asarray(Image.open(io.BytesIO(part.tobytes())).convert("RGB")), parts)
            found[name] = np.stack(list(pictures))
    return found


def train(
    frames: Path,
    weights: Path,
    out: Path,
    iterations: int,
    tuned_iterations: int,
    seconds: float,
    device: str,
    first: int,
) -> None:
    """Maps of all frames, and embeddings of every run of the plan that time allows."""
    import torch

    from stepcut.features.backbones.resnet50 import resnet50
    from stepcut.features.backbones.weights import read_weights
    from stepcut.methods.cnc.embedder import Embedder
    from stepcut.methods.cnc.tune import TunableBackbone

    start = time.monotonic()
    graph = resnet50(read_weights(weights)[0], layer="conv4c", family="v1")
    backbone = TunableBackbone(graph).to(device).eval()
    pictures = {file.stem: unpack(file) for file in sorted(frames.glob("*.npz"))}
    print(f"{time.monotonic() - start:.0f} s: frames read", flush=True)
    out.mkdir(parents=True, exist_ok=True)
    maps: dict[str, list[NDArray[Any]]] = {}
    for name, videos in pictures.items():
        maps[name] = []
        for each in videos.values():
            with torch.inference_mode(), torch.autocast(device, dtype=torch.float16, enabled=device == "cuda"):
                parts = [backbone(part.to(device)).half().cpu() for part in torch.from_numpy(each).split(256)]
            maps[name].append(torch.cat(parts).numpy())
        pooled = {video: rows.mean((2, 3), dtype=np.float32) for video, rows in zip(videos, maps[name], strict=True)}
        np.savez(out / f"{name}-pooled.npz", **{video: rows.astype(np.float16) for video, rows in pooled.items()})
    print(f"{time.monotonic() - start:.0f} s: maps made", flush=True)
    longest = 0.0
    for number, (name, loss, seed, tuned) in enumerate(plan(list(pictures))):
        if number < first:
            continue
        before = time.monotonic()
        if before - start + longest > seconds:
            break
        settings: dict[str, Any] = {**LOSSES[loss], "rate": RATE, "seed": seed, "device": device}
        given: list[NDArray[Any]] = list(pictures[name].values()) if tuned else maps[name]
        settings["iterations"] = tuned_iterations if tuned else iterations
        if tuned:
            settings |= {"tune_backbone": True, "backbone": TunableBackbone(graph), "chunk": 320}
        embedder = Embedder(**settings).fit(given)
        key = f"{loss}{', tuned' if tuned else ''}/{seed}"
        kept: dict[str, Any] = {}
        for video, rows in zip(pictures[name], embedder.transform(given), strict=True):
            kept[f"{key}/{video}"] = rows.astype(np.float16)
        np.savez(out / f"{name}-{number}.npz", **kept)
        longest = max(longest, time.monotonic() - before) if tuned else time.monotonic() - before
        losses = [row[0] for row in embedder.curve_.values]
        took, now = time.monotonic() - before, time.monotonic() - start
        print(
            f"{now:.0f} s: {name} {key}, {len(losses)} iterations in {took:.1f} s, "
            f"loss {losses[0]:.3f} to {np.mean(losses[-50:]):.3f}",
            flush=True,
        )


def read_labels(folder: Path, lengths: dict[str, int]) -> list[NDArray[np.int64]]:
    """The true step of every row, from 1; 0 is background."""
    from stepcut.formats import read_folder

    number: dict[str, int] = {}
    true = []
    given = None if next(folder.iterdir()).suffix == ".txt" else read_folder(folder)
    for name, count in lengths.items():
        times, labels = (np.arange(count) + 0.5) / RATE, np.zeros(count, np.int64)
        if given is not None:
            spans = [(segment.start, segment.end, segment.step) for segment in given[name]]
        else:
            lines = [line.split() for line in (folder / f"{name}.txt").read_text().splitlines()]
            spans = [((int(first) - 1) / 30, int(last) / 30, step) for first, last, step, *_ in lines]
        for begin, end, step in spans:
            labels[(times >= begin) & (times < end)] = number.setdefault(step, len(number) + 1)
        true.append(labels)
    return true


def cut(folder: Path, name: str, labels: Path, only: str) -> None:
    """Print `strict` F1 of every loss with every cut and K on one set: the mean and deviation over seeds.

    only  rows whose name holds this word
    """
    from stepcut.evaluation import score
    from stepcut.evaluation.compare import baseline
    from stepcut.methods import METHODS
    from stepcut.methods.baselines.smooth import cut_smooth
    from stepcut.methods.segmenters import SEGMENTERS
    from stepcut.tables import Cell, Spread, Table
    from stepcut.version import __version__

    pooled = np.load(folder / f"{name}-pooled.npz")
    rows = [pooled[video].astype(np.float32) for video in pooled]
    true = read_labels(labels, {video: len(each) for video, each in zip(pooled, rows, strict=True)})
    embedded: dict[str, dict[str, list[NDArray[np.float32]]]] = {}  # loss -> seed -> videos
    for file in sorted(folder.glob(f"{name}-[0-9]*.npz"), key=lambda file: int(file.stem.rpartition("-")[2])):
        kept = np.load(file)
        for loss, seed in dict.fromkeys(tuple(key.split("/")[:2]) for key in kept):
            videos = [kept[f"{loss}/{seed}/{video}"].astype(np.float32) for video in pooled]
            embedded.setdefault(loss, {})[seed] = videos

    def learn(method: str, k: int, seed: int) -> Any:
        maker: Any = METHODS[method]
        return maker(steps=k, rate=RATE, seed=seed).fit(rows).labels_

    def segment(loss: str, segmenter: str, k: int, seed: int) -> Any:
        return SEGMENTERS[segmenter](steps=k, rate=RATE, seed=seed).fit_predict(embedded[loss][str(seed)])

    ways: dict[str, tuple[int, Callable[[int, int], Any]]] = {
        "uniform": (1, lambda k, _: baseline("uniform", true, k)),
        "smooth, pooled maps": (2, lambda k, seed: cut_smooth(rows, k, RATE, seed)),
        "stepcut, pooled maps": (2, partial(learn, "stepcut")),
        "cnc, pooled maps": (2, partial(learn, "cnc")),
    }
    for loss, seeds in embedded.items():
        for short, segmenter in CUTS.items():
            ways[f"{loss} + {short}"] = (len(seeds), partial(segment, loss, segmenter))
    table = Table(["row", "seeds", *(f"K = {k}" for k in NUMBERS)], [])
    for row, (count, find) in ways.items():
        if only not in row:
            continue
        cells: list[Cell] = []
        for k in NUMBERS:
            found = [score(find(k, seed), true, clusters=k).f1 for seed in range(count)]
            cells.append(found[0] if count == 1 else Spread(float(np.mean(found)), float(np.std(found))))
        table.rows.append([row, count, *cells])
    table.caption = f"{name}: {len(true)} videos, conv4c maps at {RATE} a second, strict F1, stepcut {__version__}"
    print(table.markdown(), flush=True)


def main() -> None:
    """Run one of the three steps."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["pack", "train", "cut"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--set", nargs=2, action="append", default=[], metavar=("NAME", "DIR"), help="pack: videos")
    parser.add_argument("--quality", type=int, default=75, help="pack: of JPEG")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("-o", "--out", type=Path, default=Path("maps"))
    parser.add_argument("--iterations", type=int, default=3000)
    parser.add_argument("--tuned-iterations", type=int, default=600)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--first", type=int, default=0, help="train: leave out so many runs of the plan, done before")
    parser.add_argument("--labels", nargs=2, action="append", default=[], metavar=("NAME", "DIR"), help="cut: truth")
    parser.add_argument("--only", default="", metavar="WORD", help="cut: rows whose name holds this word")
    args = parser.parse_args()
    if args.step == "pack":
        pack(args.folder, [(name, Path(place)) for name, place in args.set], args.quality)
    elif args.step == "train":
        limits = (args.iterations, args.tuned_iterations, args.seconds)
        train(args.folder, args.weights, args.out, *limits, args.device, args.first)
    else:
        for name, place in args.labels:
            cut(args.folder, name, Path(place), args.only)


if __name__ == "__main__":
    main()
