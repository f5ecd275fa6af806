"""Convert the published HiERO features of EgoProceL (`.pt`) to feature files.

HiERO (ICCV 2025) publishes features of EgoProceL by two backbones: a tensor (rows, d) per video in
`<backbone>/<part>/<video>.pt`, one row per 16 frames.
"""

from fractions import Fraction
from pathlib import Path

from stepcut.errors import DataError, ExtraNeeded
from stepcut.features.features import save_rows
from stepcut.paper.datasets.dataset import Loaded
from stepcut.plugins import needs
from stepcut.rate import Rate, as_rate

STRIDE = 16
"""Frames per row."""


def convert(root: Path, loaded: Loaded, fps: Rate | None = None) -> list[Path]:
    """Convert `features/<backbone>/**/<video>.pt` below `root` to `.safetensors` files.

    The rate is `fps` / 16; without `fps`, the number of rows divided by the length of the video.

    Parameters
    ----------
    root
        The folder of the data set.
    loaded
        The data set, for the lengths of the videos. Files that cannot be converted are added to its
        problems.
    fps
        Frames per second of all videos.

    Returns
    -------
    list of Path
        The new files, `features/<backbone>/<video>.safetensors`.

    Raises
    ------
    DataError
        There is no such file.
    ExtraNeeded
        torch, which reads them, is not installed.
    """
    files = sorted(root.glob("features/*/**/[!.]*.pt"))
    if not files:
        raise DataError(
            f"{root}: no .pt file below features/<backbone>/. Unpack HiERO's archives there; "
            "'stepcut data info egoprocel' has their addresses.",
            path=root,
        )
    lengths = {video.name: video.duration for task in loaded.tasks for video in task}
    made = []
    for file in files:
        backbone = root / "features" / file.relative_to(root / "features").parts[0]
        target = backbone / f"{file.stem}.safetensors"
        try:
            _convert_file(file, target, lengths.get(file.stem), fps)
        except (ExtraNeeded, OSError):
            raise
        except Exception as error:  # torch documents no error for a damaged file
            loaded.problems.append(f"{file}: cannot be converted ({error}). Download it again.")
        else:
            made.append(target)
    return made


def _convert_file(file: Path, target: Path, length: float | None, fps: Rate | None) -> None:
    with needs("cnc"):
        import torch
    # weights_only: tensors are read, code in the file is not run.
    rows = torch.load(file, map_location="cpu", weights_only=True)
    if not isinstance(rows, torch.Tensor) or rows.ndim != 2:
        raise ValueError("it does not contain one tensor of rows")
    if fps is not None:
        rate = as_rate(fps, "rate", 1_000_000) / STRIDE
    elif length:
        rate = Fraction(len(rows) / length).limit_denominator(1000)
    else:
        raise ValueError("the length of its video is unknown; set --rate to its frames per second")
    save_rows(target, rows.numpy().astype("float32"), {"name": file.stem, "rate": str(rate)})
