"""Test a crop around the hands: knots seen whole, by the crop, and by both.

    python benchmarks/palm.py ../shared/data/knot_tying palm_detection_full.tflite [--others VIDEOS]

The detector is a file of the pip package mediapipe (0.10.14, mediapipe/modules/palm_detection). The
crop is the most likely palm, 2.6 times as wide as its box as in mediapipe, and at least a third of
the frame; 2 rows per second. The accuracy is that of the linear classifier of `eyes.py`; `found` is
the share of frames with a likely palm.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import av
import numpy as np
from numpy.typing import NDArray

from eyes import RATE, linear
from shared import arguments, gestures, report
from stepcut.features.backbones import load_backbone
from stepcut.features.backbones.openvino_runtime import import_openvino
from stepcut.features.extract import extract

SIDE, WIDER, LEAST = 192, 2.6, 1 / 3
FULL = 448
"""Side of the frames that crops are taken from."""


class Palm:
    """The default network on the crop, as a backbone for `extract`."""

    name, size, batch = "lite0-palm", FULL, 16

    def __init__(self, detector: Path) -> None:
        core = import_openvino().Core()
        self.find = core.compile_model(core.read_model(str(detector)), "CPU")
        self.see = load_backbone()
        self.dim, self.fingerprint = 2 * self.see.dim + 1, f"palm of {self.see.fingerprint}"
        grids = [(SIDE // 8, 2), (SIDE // 16, 6)]
        self.anchors = np.concatenate(
            [np.repeat(_centres(cells), each, axis=0) for cells, each in grids]
        )

    def extract(self, frames: NDArray[np.uint8]) -> NDArray[Any]:
        """Whole frame (n, d), crop (n, d) and palm probability (n, 1), concatenated."""
        crops, sure = zip(*map(self._crop, frames), strict=True)
        whole = self.see.extract(np.stack([_scaled(frame, self.see.size) for frame in frames]))
        cropped = self.see.extract(np.stack([_scaled(crop, self.see.size) for crop in crops]))
        return np.column_stack([whole, cropped, np.array(sure, dtype=np.float16)])

    def _crop(self, frame: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], float]:
        """The crop around the most likely palm, and its probability."""
        answer = self.find(_scaled(frame, SIDE)[None].astype(np.float32) / 255)
        boxes, scores = sorted(
            (part[0] for part in answer.values()), key=lambda part: -part.shape[-1]
        )
        best = int(scores.argmax())
        x, y = self.anchors[best] + boxes[best, :2] / SIDE
        half = max(WIDER * float(boxes[best, 2:4].max()) / SIDE, LEAST) / 2
        half = min(half, 0.5)
        left, top = (round(FULL * min(max(at - half, 0.0), 1 - 2 * half)) for at in (x, y))
        side = round(2 * half * FULL)
        return frame[top : top + side, left : left + side], float(
            1 / (1 + np.exp(-scores[best, 0]))
        )


def _centres(cells: int) -> NDArray[np.float64]:
    line = (np.arange(cells) + 0.5) / cells
    return np.stack(np.meshgrid(line, line), axis=-1).reshape(-1, 2)


def _scaled(picture: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
    return frame.reformat(side, side, interpolation="AREA").to_ndarray()


def main() -> int:
    """Print the accuracies, and the share of frames with a palm."""
    parser = arguments(__doc__)
    parser.add_argument("data", type=Path, help="folder with videos/ and gestures/")
    parser.add_argument("detector", type=Path)
    parser.add_argument(
        "--others", type=Path, nargs="*", default=[], help="further videos to search for palms"
    )
    args = parser.parse_args()
    palm = Palm(args.detector)
    features, _ = extract(args.data / "videos", backbone=palm)
    rows = [np.asarray(one.rows, np.float64) for one in features]
    true = [
        gestures(args.data / "gestures" / f"{one.name}.txt", len(one.rows), RATE)
        for one in features
    ]
    people = [one.name.split("_")[2] for one in features]
    dim = palm.see.dim
    for name, part in (
        ("whole", slice(0, dim)),
        ("crop", slice(dim, 2 * dim)),
        ("both", slice(0, 2 * dim)),
    ):
        print(
            f"{name:<6} {linear([video[:, part] for video in rows], true, people, [dim], motion=False):.1f}"
        )
    print(
        f"found in {100 * np.mean(np.concatenate([video[:, -1] for video in rows]) > 0.5):.0f} % of frames"
    )
    for folder in args.others:
        seen, _ = extract(folder, backbone=palm)
        found = np.concatenate([np.asarray(one.rows)[:, -1] for one in seen]) > 0.5
        print(f"{folder.name}: found in {100 * found.mean():.0f} % of frames")
    return 0


if __name__ == "__main__":
    with report(__file__):
        sys.exit(main())
