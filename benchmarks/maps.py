"""The paper's embedder on conv4c maps of raw video: every loss, segmenter and K, frozen or tuned
(reports/experiments.md).

    python benchmarks/maps.py pack frames/ --set knots VIDEOS_DIR --set toy-plain VIDEOS_DIR ...
        frames as JPEG
    python benchmarks/maps.py train frames/ --weights W -o embedded/ [--plan tuning] [--seconds 500]
        on a GPU
    python benchmarks/maps.py cut embedded/ --labels knots GESTURES_DIR --labels toy-plain
        ANNOTATIONS_DIR ...

There are three stages, because a GPU machine may have no decoder and no data. A folder of labels
contains one file per video: a .txt with lines of first frame, last frame (from 1, at 30 fps) and
label, or any format that stepcut reads. After `--seconds` no further run starts; runs that are in
`embedded/` are not repeated.
"""

from __future__ import annotations

import io
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared import arguments

RATE = 2
NUMBERS = (6, 7, 10, 12, 15)
FULL = 3000
"""Iterations of a run, unless its name states them."""
TC3I = {"loss": "tc3i"}
LOSSES: dict[str, dict[str, Any]] = {
    "TCC": {"loss": "tcc"},
    "LAV": {"loss": "lav"},
    "LAV + TCC": {"loss": "lav+tcc"},
    "TC3I": TC3I,
    "TC3I, weight .1": {**TC3I, "weight": 0.1},
    "TC3I, weight 32": {**TC3I, "weight": 32.0},
    "TC3I, window 10 s": {**TC3I, "window": 10.0},
    "TC3I, gamma in frames": {**TC3I, "gamma_time": "frames"},
    "TC3I, no temperature": {**TC3I, "temperature": 1 / 128},
    "as published": {
        **TC3I,
        "weight": 32.0,
        "window": 10.0,
        "gamma_time": "frames",
        "temperature": 1 / 128,
    },
}
CUTS = {"HC": "kmeans", "SS": "subset", "PCM": "procut"}
PAPERS = tuple(LOSSES)[:4]
READINGS = tuple(LOSSES)[4:]
BOTH = ("TCC", "TC3I")
PLANS = ("losses", "tuning", "readings", "robot")


class Run(NamedTuple):
    """One embedder to train."""

    data: str
    loss: str
    seed: int
    iterations: int = FULL
    tuned: bool = False

    @property
    def key(self) -> str:
        """Name of its row, and the seed."""
        count = f", {self.iterations} iterations" if self.iterations != FULL else ""
        return f"{self.loss}{', tuned' if self.tuned else ''}{count}/{self.seed}"

    @property
    def file(self) -> str:
        """File of its embeddings."""
        return f"{self.data}={self.key.replace('/', '=')}.npz"


def plan(name: str, sets: list[str]) -> list[Run]:
    """The runs of one plan on the available sets, most important first."""
    if name == "losses":
        runs = [Run("knots", loss, seed) for seed in range(5) for loss in PAPERS]
        runs += [
            Run(toy, loss, seed)
            for seed in range(5)
            for toy in sets
            if toy.startswith("toy")
            for loss in PAPERS
        ]
    elif name == "tuning":
        kinds = ((1000, True), (250, True), (250, False), (1000, False))
        runs = [
            Run("knots", loss, seed, *kind) for seed in range(5) for kind in kinds for loss in BOTH
        ]
    elif name == "readings":
        runs = [Run("knots", loss, seed, 1000) for seed in range(5) for loss in READINGS]
        runs += [
            Run("toy-plain", loss, seed, 1000) for seed in range(5) for loss in (*BOTH, *READINGS)
        ]
    else:
        runs = [Run("robot", loss, seed, 1000) for seed in range(2) for loss in BOTH]
    return [run for run in runs if run.data in sets]


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
            pictures = pool.map(
                lambda part: np.asarray(Image.open(io.BytesIO(part.tobytes())).convert("RGB")),
                parts,
            )
            found[name] = np.stack(list(pictures))
    return found


def train(
    frames: Path,
    weights: Path,
    out: Path,
    plans: list[str],
    seconds: float,
    device: str,
    workers: int,
) -> None:
    """Extract maps of all frames, and train every run that time allows."""
    import torch

    from stepcut.paper.cnc.tune import TunableBackbone

    begun = time.time()
    backbone = TunableBackbone(read_backbone(weights)).to(device).eval()
    pictures = {file.stem: unpack(file) for file in sorted(frames.glob("*.npz"))}
    out.mkdir(parents=True, exist_ok=True)
    for name, videos in pictures.items():
        maps = {}
        for video, each in videos.items():
            with (
                torch.inference_mode(),
                torch.autocast(device, dtype=torch.float16, enabled=device == "cuda"),
            ):
                parts = [
                    backbone(part.to(device)).half().cpu()
                    for part in torch.from_numpy(each).split(256)
                ]
            maps[video] = torch.cat(parts).numpy()
        pooled = {
            video: rows.mean((2, 3), dtype=np.float32).astype(np.float16)
            for video, rows in maps.items()
        }
        np.savez(out / f"{name}-pooled.npz", **pooled)
        np.save(out / f"{name}-maps.npy", np.concatenate(list(maps.values())))
        np.save(out / f"{name}-frames.npy", np.concatenate(list(videos.values())))
    del backbone, maps, pictures
    if device == "cuda":
        torch.cuda.empty_cache()
    print(f"{time.time() - begun:.0f} s: maps extracted", flush=True)
    sets = sorted(file.stem.removesuffix("-pooled") for file in out.glob("*-pooled.npz"))
    runs = [run for name in plans for run in plan(name, sets) if not (out / run.file).exists()]
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        work = [pool.submit(train_one, run, weights, out, device, begun + seconds) for run in runs]
        for number, done in enumerate(as_completed(work)):
            print(
                f"{time.time() - begun:.0f} s, {number + 1} of {len(runs)}: {done.exception() or done.result()}",
                flush=True,
            )
    for file in [*out.glob("*-maps.npy"), *out.glob("*-frames.npy")]:
        file.unlink()


def read_backbone(weights: Path) -> Any:
    from stepcut.features.backbones.networks import resnet50_graph
    from stepcut.features.backbones.weights import read_weights

    return resnet50_graph(read_weights(weights)[0], layer="conv4c", family="v1")


def train_one(run: Run, weights: Path, out: Path, device: str, until: float) -> str:
    """Train one embedder, store the embeddings of all videos, and report the loss."""
    import torch

    from stepcut.paper.cnc.embedder import Embedder
    from stepcut.paper.cnc.tune import TunableBackbone

    begun = time.time()
    if begun > until:
        return f"{run.data} {run.key}: no time left"
    torch.set_num_threads(2)
    with np.load(out / f"{run.data}-pooled.npz") as pooled:
        lengths = {video: len(pooled[video]) for video in pooled}
    stored = np.load(out / f"{run.data}-{'frames' if run.tuned else 'maps'}.npy", mmap_mode="r")
    given = np.split(stored, np.cumsum(list(lengths.values()))[:-1])
    settings = {
        **LOSSES[run.loss],
        "rate": RATE,
        "seed": run.seed,
        "device": device,
        "iterations": run.iterations,
    }
    if run.tuned:
        settings |= {
            "tune_backbone": True,
            "backbone": TunableBackbone(read_backbone(weights)),
            "chunk": 160,
        }
    embedder = Embedder.of(**settings).fit(given)
    embedded = embedder.transform(given)
    kept: dict[str, Any] = {
        video: rows.astype(np.float16) for video, rows in zip(lengths, embedded, strict=True)
    }
    np.savez(out / run.file, **kept)
    losses = [row[0] for row in embedder.curve_.values]
    del embedder
    if device == "cuda":
        torch.cuda.empty_cache()
    took, last = time.time() - begun, np.mean(losses[-50:])
    return f"{run.data} {run.key}, {len(losses)} iterations in {took:.1f} s, loss {losses[0]:.3f} to {last:.3f}"


def read_labels(folder: Path, lengths: dict[str, int]) -> list[NDArray[np.int64]]:
    """Annotated step of every row, from 1; 0 is background."""
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
            spans = [
                ((int(first) - 1) / 30, int(last) / 30, step) for first, last, step, *_ in lines
            ]
        for begin, end, step in spans:
            labels[(times >= begin) & (times < end)] = number.setdefault(step, len(number) + 1)
        true.append(labels)
    return true


def cut(folder: Path, name: str, labels: Path, only: list[str], workers: int) -> None:
    """Print `strict` F1 of every loss with every segmenter and K on one set: mean and deviation
    over seeds.

    only  rows whose name contains one of these words
    """
    from stepcut.tables import Cell, Spread, Table
    from stepcut.version import __version__

    rows: dict[str, list[int]] = {"uniform": [0]}
    rows |= {f"{way}, pooled maps": [0, 1] for way in ("smooth", "stepcut", "cnc")}
    for file in sorted(folder.glob(f"{name}=*.npz")):
        _, loss, seed = file.stem.split("=")
        for short in (*CUTS, "published") if loss.startswith("as published") else CUTS:
            rows.setdefault(f"{loss} + {short}", []).append(int(seed))
    rows = {
        row: seeds for row, seeds in rows.items() if not only or any(word in row for word in only)
    }
    cells = [(row, seed, k) for row, seeds in rows.items() for seed in seeds for k in NUMBERS]
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        figures = dict(
            zip(cells, pool.map(partial(figure, folder, name, labels), cells), strict=True)
        )
    table = Table(["row", "seeds", *(f"K = {k}" for k in NUMBERS)], [])
    for row, seeds in rows.items():
        found = np.array([[figures[row, seed, k] for k in NUMBERS] for seed in seeds])
        means: list[Cell] = [
            Spread(*each)
            for each in zip(found.mean(0).tolist(), found.std(0).tolist(), strict=True)
        ]
        table.rows.append([row, len(seeds), *(means if len(seeds) > 1 else found[0].tolist())])
    table.caption = f"{name}: conv4c maps at {RATE} per second, strict F1, stepcut {__version__}"
    print(table.markdown(), flush=True)


def figure(folder: Path, name: str, labels: Path, cell: tuple[str, int, int]) -> float:
    """F1 of one row with one seed and K."""
    from stepcut.evaluation import score
    from stepcut.evaluation.compare import baseline
    from stepcut.methods import METHODS
    from stepcut.methods.baselines.kmeans import KMeans, smooth_embedding
    from stepcut.paper.cnc.method import AS_PUBLISHED

    row, seed, k = cell
    loss, _, short = row.rpartition(" + ")
    kept = np.load(folder / (f"{name}={loss}={seed}.npz" if loss else f"{name}-pooled.npz"))
    given = [kept[video].astype(np.float32) for video in kept]
    true = read_labels(labels, {video: len(rows) for video, rows in zip(kept, given, strict=True)})
    found: Any
    if loss:
        segmenter, settings = (
            ("procut", AS_PUBLISHED["cut"]) if short == "published" else (CUTS[short], {})
        )
        maker: Any = METHODS[segmenter]
        found = maker(steps=k, rate=RATE, seed=seed, **settings).fit(given).labels_
    elif row == "uniform":
        found = baseline("uniform", true, k)
    elif row.startswith("smooth"):
        found = KMeans(k, RATE, seed, normalise=False).fit(smooth_embedding(given, RATE)).labels_
    else:
        method: Any = METHODS[row.split(",")[0]]
        found = method(steps=k, rate=RATE, seed=seed).fit(given).labels_
    return score(found, true, clusters=k).f1


def main() -> None:
    """Run one of the three stages."""
    parser = arguments(__doc__)
    parser.add_argument("step", choices=["pack", "train", "cut"])
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--set", nargs=2, action="append", default=[], metavar=("NAME", "DIR"), help="pack: videos"
    )
    parser.add_argument("--quality", type=int, default=75, help="pack: of JPEG")
    parser.add_argument("--weights", type=Path)
    parser.add_argument("-o", "--out", type=Path, default=Path("maps"))
    parser.add_argument(
        "--plan", nargs="+", choices=PLANS, default=list(PLANS), help="train: which runs"
    )
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--workers", type=int, default=1, help="train, cut: parallel processes")
    parser.add_argument(
        "--labels", nargs=2, action="append", default=[], metavar=("NAME", "DIR"), help="cut: truth"
    )
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="WORD",
        help="cut: rows whose name contains this word",
    )
    args = parser.parse_args()
    if args.step == "pack":
        pack(args.folder, [(name, Path(place)) for name, place in args.set], args.quality)
    elif args.step == "train":
        train(
            args.folder, args.weights, args.out, args.plan, args.seconds, args.device, args.workers
        )
    else:
        for name, place in args.labels:
            cut(args.folder, name, Path(place), args.only, args.workers)


if __name__ == "__main__":
    main()
