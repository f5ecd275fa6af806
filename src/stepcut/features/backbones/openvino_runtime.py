"""Run a network on a CPU with OpenVINO, about three times as fast as torch.

Built-in networks are built operation by operation, without OpenVINO's model converter, whose
telemetry client is never loaded.
"""

import platform
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.parallel.engine import count_cores

_TOGETHER = 4
"""Frames per request: enough to keep a core busy, few enough to share a batch among cores."""


class OpenVinoRuntime:
    """A compiled `model`, in half precision where the CPU supports it (ARM), otherwise in single.

    Never in bfloat16, which OpenVINO prefers on x86 with AMX: twice as fast, but its features
    differ too much (cosine .996 on noise, .9999 in half precision) to share procedures between
    machines. Every core works on its own frames (a "stream"), so no core waits for another.
    """

    def __init__(self, model: Any) -> None:
        openvino = import_openvino()
        self.cores = count_cores()
        options = {
            "NUM_STREAMS": self.cores,
            "INFERENCE_NUM_THREADS": self.cores,
            "ENABLE_CPU_PINNING": False,
            "INFERENCE_PRECISION_HINT": precision(),
        }
        fixed = model.input(0).partial_shape[0]
        self.fixed = None if fixed.is_dynamic else int(fixed.get_length())
        compiled = openvino.Core().compile_model(model, "CPU", options)
        self.queue = openvino.AsyncInferQueue(compiled, self.cores)
        self.queue.set_callback(_keep)

    def __call__(self, frames: NDArray[np.uint8]) -> NDArray[np.float16]:
        """Compute rows in half precision from RGB frames (n, size, size, 3) or clips."""
        count = len(frames)
        together = self.fixed or min(_TOGETHER, -(-count // self.cores)) or 1
        if self.fixed and count % together:  # exported with a fixed batch
            rest = together - count % together
            frames = np.concatenate([frames, np.zeros((rest, *frames.shape[1:]), np.uint8)])
        rows: dict[int, NDArray[np.float16]] = {}
        for at in range(0, len(frames), together):
            self.queue.start_async([np.ascontiguousarray(frames[at : at + together])], (rows, at))
        self.queue.wait_all()
        return np.concatenate([rows[at] for at in sorted(rows)])[:count]


def _keep(request: Any, place: tuple[dict[int, NDArray[np.float16]], int]) -> None:
    rows, at = place
    with np.errstate(over="ignore"):  # an overflow is reported when the rows are written
        rows[at] = request.get_output_tensor(0).data.astype(np.float16)


def precision() -> str:
    """Return the precision of this CPU's features."""
    return "f16" if platform.machine().lower() in ("aarch64", "arm64") else "f32"


def import_openvino() -> Any:
    """Import OpenVINO without its telemetry client, which writes an identity to the home folder."""
    modules: dict[str, Any] = sys.modules
    hidden = "openvino" not in modules and "openvino_telemetry" not in modules
    if hidden:
        modules["openvino_telemetry"] = None  # OpenVINO replaces a missing client by a stub
    try:
        import openvino
    finally:
        if hidden:
            del modules["openvino_telemetry"]
    return openvino


def functions() -> SimpleNamespace:
    """Return the torch functions that built-in networks use, as operations of OpenVINO."""
    ops = import_openvino().opset8

    def numbers(*values: int) -> Any:
        return ops.constant(np.array(values, np.int64))

    def conv2d(x: Any, weight: Any, bias: Any, stride: int, padding: int, groups: int = 1) -> Any:
        convolve = ops.group_convolution if groups > 1 else ops.convolution
        kernel = weight.reshape(groups, -1, *weight.shape[1:]) if groups > 1 else weight
        y = convolve(x, ops.constant(kernel), [stride] * 2, [padding] * 2, [padding] * 2, [1, 1])
        return ops.add(y, ops.constant(bias.reshape(1, -1, 1, 1)))

    def pad(x: Any, zeros: tuple[int, int, int, int]) -> Any:
        left, right, above, below = zeros
        return ops.pad(x, [0, 0, above, left], [0, 0, below, right], "constant")

    def max_pool2d(x: Any, size: int, stride: int, padding: int) -> Any:
        both = [padding] * 2
        return ops.max_pool(x, [stride] * 2, [1, 1], both, both, [size] * 2).output(0)

    return SimpleNamespace(
        conv2d=conv2d,
        pad=pad,
        relu=ops.relu,
        clamp=ops.clamp,
        max_pool2d=max_pool2d,
        mean=lambda x, axes: ops.reduce_mean(x, numbers(*axes), False),
        adaptive_avg_pool2d=lambda x, side: ops.adaptive_avg_pool(x, numbers(side, side)),
        flatten=lambda x, start: ops.reshape(x, numbers(*[0] * start, -1), True),
        add=ops.add,  # x + y fails in the first versions of 2025
        mul=lambda x, factor: ops.multiply(x, ops.constant(np.float32(factor))),
        cat=ops.concat,
    )


def frames_to(
    shape: Sequence[int], axes: Sequence[int], mean: object, scale: object, bgr: bool, kind: Any
) -> tuple[Any, Any]:
    """Build the first operations of a network, which prepare uint8 frames; return input and output.

    Frames have the `shape` (n, size, size, 3) or (n, t, size, size, 3), -1 where it may vary. The
    output is (frame / 255 - mean) / scale of type `kind`, with its `axes` in this order, and
    blue first if `bgr`.
    """
    openvino = import_openvino()
    ops = openvino.opset8
    frames = x = ops.parameter(list(shape), openvino.Type.u8, name="frames")
    if bgr:
        channels = ops.constant(np.array([2, 1, 0], np.int64))
        x = ops.gather(x, channels, ops.constant(np.int64(len(shape) - 1)))
    if kind != openvino.Type.u8:
        factor = (1 / (255 * np.array(scale))).astype(np.float32)
        x = ops.subtract(ops.convert(x, "f32"), ops.constant(255 * np.array(mean, np.float32)))
        x = ops.convert(ops.multiply(x, ops.constant(factor)), kind)
    return frames, ops.transpose(x, ops.constant(np.array(axes, np.int64)))
