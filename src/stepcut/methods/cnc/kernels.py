"""The one function beneath `tcc`, `cidm` and `tc3i`: values and gradient together, by the fastest way of the machine.

Compiled loops on a CPU (`_losses_cpu`), kernels of our own on CUDA (`_losses_cuda`), and torch (`_losses_torch`) where
numba or Triton is absent or a batch is too large for a kernel. All three are tested against one oracle.
Gradients of gradients are not supported.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from stepcut.errors import OptionError

VARIANCE_FLOOR = 1e-6
"""The smallest variance of a landing place in `tcc`: a thousandth of the video, squared."""


class Settings(NamedTuple):
    """What is measured: the loss is `cycle` times `tcc` and `contrast` times `cidm`; None leaves a term out."""

    cycle: float | None = None
    temperature: float = 0.1
    variance_weight: float = 0.001
    variance_floor: float = VARIANCE_FLOOR
    contrast: float | None = None
    window: float = 10.0
    margin: float = 2.0

    def scale(self, dim: int) -> float:
        """What squared distances in so many dimensions are multiplied by before a softmax."""
        return 1.0 / (dim * self.temperature)


class Way(Protocol):
    """One way to compute the loss."""

    def __call__(
        self, u: Tensor, t: Tensor, seconds: Tensor | None, real: Tensor | None, settings: Settings
    ) -> tuple[Tensor, Tensor, Tensor]:
        """For frames u (B, T, d) with times t (B, T), durations (B,) in seconds where `cidm` is asked for, and a mask
        (B, T) or None: the loss, a scalar; `tcc` and `cidm` by themselves, (2,); the gradient (B, T, d) of the loss.

        Padded frames hold 0, and have gradient 0.
        """


def measure(
    u: Tensor, t: Tensor, seconds: Tensor | None, real: Tensor | None, settings: Settings
) -> tuple[Tensor, Tensor]:
    """The loss, with its gradient, and `tcc` and `cidm` by themselves (2,), which carry none; see `Way`."""
    function: type[torch.autograd.Function] = _Measured
    loss, parts = function.apply(u, t, seconds, real, settings)
    return loss, parts


def apply(function: type[torch.autograd.Function], *given: object) -> Tensor:
    """`Function.apply` of a function with one answer, which torch gives no type."""
    value: Tensor = function.apply(*given)
    return value


class _Measured(torch.autograd.Function):
    """The gradient comes with the value: what it needs is still at hand then."""

    @staticmethod
    def forward(
        ctx: Any, u: Tensor, t: Tensor, seconds: Tensor | None, real: Tensor | None, settings: Settings
    ) -> tuple[Tensor, Tensor]:
        loss, parts, ctx.gradient = choose_way(u)(u, t, seconds, real, settings)
        ctx.mark_non_differentiable(parts)
        return loss, parts

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _parts: Tensor) -> tuple[Tensor, None, None, None, None]:
        refuse_second_gradients()
        return ctx.gradient * grad, None, None, None, None


def choose_way(u: Tensor) -> Way:
    """The fastest way for these frames."""
    if u.is_cpu and numba_is_here():
        from stepcut.methods.cnc import _losses_cpu

        return _losses_cpu.measure
    if u.dtype == torch.float32 and _fits_a_kernel(*u.shape) and triton_is_here(u.device):
        from stepcut.methods.cnc import _losses_cuda

        return _losses_cuda.measure
    from stepcut.methods.cnc import _losses_torch

    return _losses_torch.measure


def _fits_a_kernel(videos: int, frames: int, dim: int) -> bool:
    """Whether two videos find room in one multiprocessor, and the shares of all pairs in little memory."""
    return videos <= 16 and frames <= 64 and dim <= 128


def refuse_second_gradients() -> None:
    """What torch's `once_differentiable` is for, at once and without its cost in every step."""
    if torch.is_grad_enabled():
        raise OptionError(
            "create_graph=True was given to the backward pass of a loss whose gradient has no gradient of its own. "
            "Leave it out; losses.tcc, cidm and soft_dtw can be differentiated once."
        )


@functools.cache
def numba_is_here() -> bool:
    """Whether the compiled kernels can be used."""
    return importlib.util.find_spec("numba") is not None


@functools.cache
def triton_is_here(device: torch.device) -> bool:
    """Whether kernels can be made for a device: Triton comes with torch for CUDA, calls a C compiler, and wants a GPU
    of 2020 or later."""
    if device.type != "cuda" or torch.version.cuda is None or torch.cuda.get_device_capability(device) < (8, 0):
        return False
    compiler = os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")
    return compiler is not None and importlib.util.find_spec("triton") is not None
