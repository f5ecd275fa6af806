"""Train end to end from frames, including the backbone, and report time and memory per iteration.

    python benchmarks/tune.py decode VIDEOS... -o frames.npz [--rate 2]     where PyAV is installed
    python benchmarks/tune.py train frames.npz --weights resnet50.safetensors [--iterations 100]
        [--device cuda]

`decode` writes RGB frames of 224 x 224 at `rate` per second; `train` needs only torch and
safetensors.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import torch

from shared import arguments, report
from stepcut.files.atomic import whole_file
from stepcut.paper.cnc.embedder import Embedder
from stepcut.paper.cnc.tune import TunableBackbone


def decode(videos: list[Path], out: Path, rate: float) -> None:
    from stepcut.features.video.sample import sample_frames

    frames = {}
    for video in videos:
        frames[video.stem] = np.stack(
            [picture for _, picture in sample_frames(video, fps=rate, size=224)]
        )
        print(f"{video.name}: {len(frames[video.stem])} frames")
    with whole_file(out) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(file, rate=np.array(rate), **frames)


def train(file: Path, weights: Path, layer: str, iterations: int, device: str, chunk: int) -> None:
    from stepcut.features.backbones.networks import family_of, read_weights, resnet50_graph

    with np.load(file, allow_pickle=False) as stored:
        rate = float(stored["rate"])
        frames = [stored[name] for name in stored.files if name != "rate"]
    arrays, metadata = read_weights(weights)
    backbone = TunableBackbone(resnet50_graph(arrays, layer, family_of(arrays, metadata)))
    count = sum(len(rows) for rows in frames)
    print(f"{len(frames)} videos, {count} frames, {layer}, {device}, torch {torch.__version__}")
    stamps: list[float] = []
    embedder = Embedder.of(
        rate=rate,
        tune_backbone=True,
        backbone=backbone,
        chunk=chunk,
        iterations=iterations,
        patience=10 * iterations,
        device=device,
    )
    embedder.fit(
        frames, progress=lambda event: stamps.append(time.perf_counter()) if event.values else None
    )
    losses = np.array([row[0] for row in embedder.curve_.values])
    first, last = (
        losses[: max(1, iterations // 10)].mean(),
        losses[-max(1, iterations // 10) :].mean(),
    )
    print(f"loss {first:.3f} in the first tenth, {last:.3f} in the last")
    moved = (
        embedder.network_.state_dict()["backbone.weights.0"].cpu()
        - backbone.state_dict()["weights.0"]
    )
    print(
        f"the first convolution of the backbone moved by {float(moved.abs().mean()):.2e} on average"
    )
    if len(stamps) > 1:
        read = iterations / len(stamps)
        print(f"{(stamps[-1] - stamps[0]) / (len(stamps) - 1) / read * 1000:.0f} ms per iteration")
    if device == "cuda":
        print(f"peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB with chunk={chunk}")
    print(f"embeddings {[rows.shape for rows in embedder.transform(frames[:2])]}")


def main() -> None:
    parser = arguments(__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    decoding = verbs.add_parser("decode")
    decoding.add_argument("videos", nargs="+", type=Path)
    decoding.add_argument("-o", "--out", type=Path, required=True)
    decoding.add_argument("--rate", type=float, default=2.0)
    training = verbs.add_parser("train")
    training.add_argument("file", type=Path)
    training.add_argument("--weights", type=Path, required=True)
    training.add_argument("--layer", default="conv4c")
    training.add_argument("--iterations", type=int, default=100)
    training.add_argument("--chunk", type=int, default=64)
    training.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    args = parser.parse_args()
    if args.verb == "decode":
        decode(args.videos, args.out, args.rate)
    else:
        train(args.file, args.weights, args.layer, args.iterations, args.device, args.chunk)


if __name__ == "__main__":
    with report(__file__):
        main()
