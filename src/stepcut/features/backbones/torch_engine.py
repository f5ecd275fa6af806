"""Run a program with torch: float32 on a CPU, half precision on CUDA, channels last on both."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from stepcut.features.backbones.program import Add, Conv, MaxPool, Mean, Program

CUDA_BATCH = 128
"""Frames that go through a GPU at a time."""


class TorchEngine:
    """A program with its weights on one device."""

    def __init__(self, program: Program, device: str = "cpu", threads: int | None = None) -> None:
        if threads is not None:
            torch.set_num_threads(threads)
        self.device = torch.device(device)
        self.dtype = torch.float16 if self.device.type == "cuda" else torch.float32
        self.precision = "f16" if self.dtype is torch.float16 else "f32"
        self.nodes = program.nodes
        self.mean = self._tensor(np.array(program.mean, np.float32)).view(1, 3, 1, 1)
        self.scale = self._tensor(np.array(program.scale, np.float32)).view(1, 3, 1, 1)
        self.weights = {
            number: (
                self._tensor(node.weight).to(memory_format=torch.channels_last),
                self._tensor(node.bias),
            )
            for number, node in enumerate(self.nodes)
            if isinstance(node, Conv)
        }

        # cuDNN plans every convolution anew, for seconds, for each thread and each batch size that it meets. So on a
        # GPU one thread does all the work, in batches of one size.
        self.thread = ThreadPoolExecutor(1, "stepcut-cuda") if self.device.type == "cuda" else None

    def __call__(self, frames: NDArray[np.uint8]) -> NDArray[np.float16]:
        """(n, H, W, 3) RGB to the program's result, in half precision."""
        if self.thread is None:
            return self._forward(frames)
        return self.thread.submit(self._in_full_batches, frames).result()

    def _in_full_batches(self, frames: NDArray[np.uint8]) -> NDArray[np.float16]:
        """The same, `CUDA_BATCH` frames at a time; the last batch is filled up with black ones."""
        rows = []
        for first in range(0, len(frames), CUDA_BATCH):
            part = frames[first : first + CUDA_BATCH]
            full = np.zeros((CUDA_BATCH, *frames.shape[1:]), np.uint8)
            full[: len(part)] = part
            rows.append(self._forward(full)[: len(part)])
        return np.concatenate(rows)

    def _forward(self, frames: NDArray[np.uint8]) -> NDArray[np.float16]:
        with torch.inference_mode():
            x = torch.from_numpy(np.ascontiguousarray(frames)).to(self.device)
            # (n, H, W, 3) seen as (n, 3, H, W) is "channels last" already: no copy.
            x = (x.permute(0, 3, 1, 2).to(self.dtype) - self.mean) * self.scale
            result: NDArray[np.float16] = self._run(x).to(torch.float16).cpu().numpy()
        return result

    def _run(self, x: torch.Tensor) -> torch.Tensor:
        last_use = {s: n for n, node in enumerate(self.nodes, start=1) for s in sources(node)}
        values = {0: x}
        for number, node in enumerate(self.nodes, start=1):
            values[number] = self._node(number - 1, node, values)
            for source in sources(node):  # let go of what no later node reads
                if last_use[source] == number:
                    values.pop(source, None)
        return values[len(self.nodes)]

    def _node(self, number: int, node: Any, values: dict[int, torch.Tensor]) -> torch.Tensor:
        if isinstance(node, Conv):
            x, padding = values[node.source], node.padding[0]
            if node.padding[0] != node.padding[1]:
                x, padding = F.pad(x, node.padding * 2), 0
            weight, bias = self.weights[number]
            return activate(F.conv2d(x, weight, bias, node.stride, padding, groups=node.groups), node.activation)
        if isinstance(node, Add):
            return activate(values[node.left] + values[node.right], node.activation)
        if isinstance(node, MaxPool):
            x = F.pad(values[node.source], node.padding * 2, value=-torch.inf)
            return F.max_pool2d(x, node.size, node.stride)
        return values[node.source].mean(dim=(2, 3))

    def _tensor(self, array: NDArray[np.float32]) -> torch.Tensor:
        return torch.from_numpy(array).to(self.device, self.dtype)


def sources(node: Conv | Add | MaxPool | Mean) -> tuple[int, ...]:
    """The nodes that a node reads."""
    return (node.left, node.right) if isinstance(node, Add) else (node.source,)


def activate(x: torch.Tensor, name: str) -> torch.Tensor:
    """relu6(x) = min(max(x, 0), 6)."""
    if name == "relu6":
        return x.clamp_(0, 6)
    return x.relu_() if name == "relu" else x
