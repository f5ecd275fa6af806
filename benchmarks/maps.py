"""The paper's embedder on conv4c maps of raw video: every loss and segmenter, with stepcut's
settings, as published and as released (reports/experiments.md).

    python benchmarks/maps.py pack frames/ --set knots VIDEOS_DIR --set toy-plain VIDEOS_DIR ...
        frames as JPEG
    python benchmarks/maps.py train frames/ --weights W -o embedded/ [--seconds 500]
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
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared import Kept, arguments

RATE = 2
NUMBERS = (7, 10, 15)
ITERATIONS = 3000
"""At most, as a run may converge before; "as released" has its own number."""
LOSSES = {"TCC": "tcc", "LAV": "lav", "LAV + TCC": "lav+tcc", "TC3I": "tc3i"}
PRESETS = {", as published": "published", ", as released": "released"}
CUTS = {"HC": "kmeans", "SS": "subset", "PCM": "procut"}


class Run(NamedTuple):
    """One embedder to train: a loss, and a preset ("" for stepcut's settings)."""

    data: str
    loss: str
    preset: str
    seed: int

    @property
    def file(self) -> str:
        """File of its embeddings."""
        return f"{self.data}={self.loss}{self.preset}={self.seed}.npz"


def plan(sets: list[str], seeds: int) -> list[Run]:
    """All runs, the presets on the knots alone."""
    runs = [Run(data, loss, "", seed) for seed in range(seeds) for data in sets for loss in LOSSES]
    knots = [data for data in sets if data == "knots"]
    return runs + [
        Run(data, loss, preset, seed)
        for seed in range(seeds)
        for data in knots
        for preset in PRESETS
        for loss in LOSSES
    ]


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
    videos = {}
    with ThreadPoolExecutor() as pool:
        for name in sorted({key.rpartition("/")[0] for key in packed}):
            parts = np.split(packed[f"{name}/jpeg"], np.cumsum(packed[f"{name}/sizes"])[:-1])
            pictures = pool.map(
                lambda part: np.asarray(Image.open(io.BytesIO(part.tobytes())).convert("RGB")),
                parts,
            )
            videos[name] = np.stack(list(pictures))
    return videos


def extract(file: Path, backbone: Any, out: Path, device: str) -> None:
    """Store the maps of all frames of one set, and their spatial means by video."""
    import torch

    maps = {}
    for video, frames in unpack(file).items():
        with (
            torch.inference_mode(),
            torch.autocast(device, dtype=torch.float16, enabled=device == "cuda"),
        ):
            parts = [
                backbone(part.to(device)).half().cpu()
                for part in torch.from_numpy(frames).split(256)
            ]
        maps[video] = torch.cat(parts).numpy()
    pooled = {video: rows.mean((2, 3), dtype=np.float32) for video, rows in maps.items()}
    np.savez(
        out / f"{file.stem}-pooled.npz",
        **{video: rows.astype(np.float16) for video, rows in pooled.items()},
    )
    np.save(out / f"{file.stem}-maps.npy", np.concatenate(list(maps.values())))


def train(
    frames: Path, weights: Path, out: Path, seeds: int, seconds: float, device: str, workers: int
) -> None:
    """Extract maps of all frames, and train every run that time allows."""
    import torch

    from stepcut.features.backbones.networks import read_weights, resnet50_graph
    from stepcut.paper.cnc.tune import TunableBackbone

    begun = time.time()
    graph = resnet50_graph(read_weights(weights)[0], layer="conv4c", family="v1")
    backbone = TunableBackbone(graph).to(device).eval()
    out.mkdir(parents=True, exist_ok=True)
    files = sorted(frames.glob("*.npz"))
    for file in files:
        extract(file, backbone, out, device)
    del backbone
    if device == "cuda":
        torch.cuda.empty_cache()
    print(f"{time.time() - begun:.0f} s: maps extracted", flush=True)
    runs = plan([file.stem for file in files], seeds)
    runs = [run for run in runs if not (out / run.file).exists()]
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        work = [pool.submit(train_one, run, out, device, begun + seconds) for run in runs]
        for number, done in enumerate(as_completed(work), 1):
            outcome = done.exception() or done.result()
            print(f"{time.time() - begun:.0f} s, {number} of {len(runs)}: {outcome}", flush=True)
    for stored in out.glob("*-maps.npy"):
        stored.unlink()


def train_one(run: Run, out: Path, device: str, until: float) -> str:
    """Train one embedder, store the embeddings of all videos, and report the loss."""
    import torch

    from stepcut.paper.cnc.embedder import Embedder
    from stepcut.paper.cnc.settings import preset_settings

    begun = time.time()
    if begun > until:
        return f"{run.file}: no time left"
    torch.set_num_threads(2)
    with np.load(out / f"{run.data}-pooled.npz") as pooled:
        lengths = {video: len(pooled[video]) for video in pooled}
    stored = np.load(out / f"{run.data}-maps.npy", mmap_mode="r")
    given = np.split(stored, np.cumsum(list(lengths.values()))[:-1])
    loss, preset = LOSSES[run.loss], PRESETS.get(run.preset, "")
    settings: dict[str, Any] = {"iterations": ITERATIONS}
    if preset:
        chosen = {} if preset == "released" else settings
        settings = {**chosen, **preset_settings(preset, loss, chosen, RATE, NUMBERS[0])[0]}
    embedder = Embedder.of(loss=loss, rate=RATE, seed=run.seed, device=device, **settings)
    embedded = embedder.fit(given).transform(given)
    kept: dict[str, Any] = {
        video: rows.astype(np.float16) for video, rows in zip(lengths, embedded, strict=True)
    }
    np.savez(out / run.file, **kept)
    losses = [row[0] for row in embedder.curve_.values]
    took = f"{len(losses)} iterations in {time.time() - begun:.1f} s"
    return f"{run.file}, {took}, loss {losses[0]:.3f} to {np.mean(losses[-50:]):.3f}"


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


def cut(folder: Path, name: str, labels: Path, kept: Kept, workers: int) -> None:
    """Print `strict` F1 of every loss with every segmenter and K on one set: mean and sample
    deviation over seeds. Presets are cut by the ProCut Module with their own settings."""
    from stepcut.tables import Cell, Spread, Table
    from stepcut.version import __version__

    rows: dict[str, list[int]] = {"uniform": [0]}
    rows |= {f"{way}, pooled maps": [0, 1] for way in ("smooth", "stepcut", "cnc")}
    for file in sorted(folder.glob(f"{name}=*.npz")):
        _, loss, seed = file.stem.split("=")
        for short in ["PCM"] if loss.endswith(tuple(PRESETS)) else CUTS:
            rows.setdefault(f"{loss} + {short}", []).append(int(seed))
    cells = [(row, seed, k) for row, seeds in rows.items() for seed in seeds for k in NUMBERS]
    todo = {
        f"{name}: {row}, {seed}, {k}": (folder, name, labels, row, seed, k)
        for row, seed, k in cells
    }
    kept.fill(figure, todo, workers)
    table = Table(["row", "seeds", *(f"K = {k}" for k in NUMBERS)], [])
    for row, seeds in rows.items():
        found = [
            [kept.known[f"{name}: {row}, {seed}, {k}"]["f1"] for seed in seeds] for k in NUMBERS
        ]
        means: list[Cell] = [Spread.of(each) if len(seeds) > 1 else each[0] for each in found]
        table.rows.append([row, len(seeds), *means])
    table.caption = f"{name}: conv4c maps at {RATE} per second, strict F1, stepcut {__version__}"
    print(table.markdown(), flush=True)


def figure(folder: Path, name: str, labels: Path, row: str, seed: int, k: int) -> dict[str, float]:
    """F1 of one row with one seed and K."""
    from stepcut.evaluation import score
    from stepcut.evaluation.compare import baseline
    from stepcut.methods import METHODS
    from stepcut.methods.baselines import KMeans, smooth_embedding
    from stepcut.paper.cnc.settings import preset_settings

    loss, _, short = row.rpartition(" + ")
    kept = np.load(folder / (f"{name}={loss}={seed}.npz" if loss else f"{name}-pooled.npz"))
    given = [kept[video].astype(np.float32) for video in kept]
    true = read_labels(labels, {video: len(rows) for video, rows in zip(kept, given, strict=True)})
    found: Any
    if loss:
        plain, comma, rest = loss.partition(", as ")
        maker: Any = METHODS[CUTS[short]]
        preset = preset_settings(rest, LOSSES[plain], {}, RATE, k)[1] if comma else {}
        known = {each.name for each in fields(maker)}  # "states" is of another segmenter
        settings = {name: value for name, value in preset.items() if name in known}
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
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--workers", type=int, default=1, help="train, cut: parallel processes")
    parser.add_argument(
        "--labels", nargs=2, action="append", default=[], metavar=("NAME", "DIR"), help="cut: truth"
    )
    args = parser.parse_args()
    if args.step == "pack":
        pack(args.folder, [(name, Path(place)) for name, place in args.set], args.quality)
    elif args.step == "train":
        work = (args.seeds, args.seconds, args.device, args.workers)
        train(args.folder, args.weights, args.out, *work)
    else:
        for name, place in args.labels:
            cut(args.folder, name, Path(place), Kept(args.folder / "cut.jsonl"), args.workers)


if __name__ == "__main__":
    main()
