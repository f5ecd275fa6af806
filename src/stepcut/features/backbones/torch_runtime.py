"""Run a network with torch: float32 on a CPU, half precision on CUDA, channels last on both."""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

CUDA_BATCH = 128
"""Frames per batch on a GPU."""


class TorchRuntime:
    """A network on one `device`.

    `forward` takes frames (n, 3, H, W) or clips (n, t, 3, H, W) as (frame / 255 - mean) / scale.
    """

    def __init__(
        self,
        forward: Callable[[Tensor], Tensor],
        mean: Sequence[float],
        scale: Sequence[float],
        device: str = "cpu",
    ) -> None:
        self.forward, self.device, self.dtype = forward, torch.device(device), dtype_on(device)
        self.mean, self.scale = (
            torch.tensor([255 * n for n in three], device=device) for three in (mean, scale)
        )
        # cuDNN plans every convolution for seconds, per thread and per batch size. So on a GPU one
        # thread does all the work, in batches of one size.
        self.thread = ThreadPoolExecutor(1, "stepcut-cuda") if self.device.type == "cuda" else None

    def __call__(self, frames: NDArray[np.uint8]) -> NDArray[np.float16]:
        """Compute rows in half precision from RGB frames (n, H, W, 3) or clips (n, t, H, W, 3)."""
        if self.thread is None:
            return self._rows(frames)
        count = max(1, CUDA_BATCH // (frames.shape[1] if frames.ndim == 5 else 1))
        full = np.zeros((-(-len(frames) // count) * count, *frames.shape[1:]), np.uint8)
        full[: len(frames)] = frames  # the last batch is padded with black frames
        parts = np.split(full, len(full) // count)
        return np.concatenate(list(self.thread.map(self._rows, parts)))[: len(frames)]

    def _rows(self, frames: NDArray[np.uint8]) -> NDArray[np.float16]:
        with torch.inference_mode():
            x = torch.from_numpy(np.ascontiguousarray(frames)).to(self.device)
            # (n, H, W, 3) viewed as (n, 3, H, W) is already "channels last", without a copy.
            x = ((x - self.mean) / self.scale).to(self.dtype).movedim(-1, -3)
            y = self.forward(x)
            y = y.mean(dim=1) if y.ndim == 3 else y.mean(dim=(2, 3, 4)) if y.ndim == 5 else y
            result: NDArray[np.float16] = y.to(torch.float16).cpu().numpy()
        return result


def dtype_on(device: str) -> torch.dtype:
    """Return the precision on a `device`: half on CUDA, single elsewhere."""
    return torch.float16 if device.startswith("cuda") else torch.float32


FUNCTIONS = SimpleNamespace(
    **{**vars(torch), "pad": F.pad, "adaptive_avg_pool2d": F.adaptive_avg_pool2d}
)
"""The functions that built-in networks use."""


def as_tensors(
    convs: Mapping[str, tuple[NDArray[np.float32], NDArray[np.float32]]], device: str
) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the weights and biases `convs` as tensors on a `device`, channels last."""

    def tensor(array: NDArray[np.float32]) -> Tensor:
        return torch.from_numpy(array).to(device, dtype_on(device))

    return {
        name: (tensor(weight).to(memory_format=torch.channels_last), tensor(bias))
        for name, (weight, bias) in convs.items()
    }
