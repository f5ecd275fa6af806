"""Run a program with OpenVINO, about three times as fast as torch on a CPU.

The graph is built operation by operation from the folded weights, without OpenVINO's model converter, and the client
by which that converter reports usage is kept from being loaded.
"""

from __future__ import annotations

import platform
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.features.backbones.program import Add, Conv, MaxPool, Program
from stepcut.parallel.cores import count_cores

_TOGETHER = 4
"""Frames per request: enough to keep one core busy, few enough to share a batch among the cores."""


class OpenVinoEngine:
    """A program compiled for this CPU, in half precision where it is native (ARM) and in single elsewhere.

    Never in bfloat16, which OpenVINO prefers on x86 with AMX and which is twice as fast there: its features are so far
    from the others (cosine .996 on noise, against .9999 in half precision) that a procedure learned on one machine
    would find the videos of another strange.

    Every core works on frames of its own (a "stream"), so no core waits for another, and the decoder fits in between.
    """

    def __init__(self, program: Program, size: int, threads: int | None = None) -> None:
        openvino = import_openvino()
        cores = threads or count_cores()
        options = {
            "NUM_STREAMS": cores,
            "INFERENCE_NUM_THREADS": cores,
            "ENABLE_CPU_PINNING": False,
            "INFERENCE_PRECISION_HINT": precision(),
        }
        self.compiled = openvino.Core().compile_model(build(program, size), "CPU", options)
        self.queue = openvino.AsyncInferQueue(self.compiled, cores)
        self.queue.set_callback(_keep)
        self.cores = cores

    def __call__(self, frames: NDArray[np.uint8]) -> NDArray[np.float16]:
        """(n, size, size, 3) RGB to the program's result, in half precision."""
        frames = np.ascontiguousarray(frames)
        shape = tuple(self.compiled.output(0).partial_shape.get_max_shape())[1:]
        result = np.empty((len(frames), *shape), np.float16)
        together = min(_TOGETHER, -(-len(frames) // self.cores)) or 1
        for at in range(0, len(frames), together):
            part = slice(at, at + together)
            self.queue.start_async([frames[part]], (result, part))
        self.queue.wait_all()
        return result


def precision() -> str:
    """The precision of this CPU's features."""
    return "f16" if platform.machine().lower() in ("aarch64", "arm64") else "f32"


def _keep(request: Any, place: tuple[NDArray[np.float16], slice]) -> None:
    result, part = place
    result[part] = request.get_output_tensor(0).data


def import_openvino() -> Any:
    """Import OpenVINO without its telemetry client, which writes an identity into the home folder when imported.

    OpenVINO takes a stub of its own where the client is absent, so nothing else of it changes.
    """
    modules: dict[str, Any] = sys.modules
    hidden = "openvino" not in modules and "openvino_telemetry" not in modules
    if hidden:
        modules["openvino_telemetry"] = None
    try:
        import openvino
    finally:
        if hidden:
            del modules["openvino_telemetry"]
    return openvino


def build(program: Program, size: int) -> Any:
    """The program as an OpenVINO model: uint8 (n, size, size, 3) in, float32 out, for any n."""
    openvino = import_openvino()
    ops = openvino.opset8

    def activate(x: Any, name: str) -> Any:
        return ops.clamp(x, 0.0, 6.0) if name == "relu6" else ops.relu(x) if name == "relu" else x

    frames = ops.parameter([-1, size, size, 3], openvino.Type.u8, name="frames")
    x = ops.transpose(ops.convert(frames, "f32"), ops.constant(np.array([0, 3, 1, 2], np.int64)))
    x = ops.subtract(x, ops.constant(np.array(program.mean, np.float32).reshape(1, 3, 1, 1)))
    values = [ops.multiply(x, ops.constant(np.array(program.scale, np.float32).reshape(1, 3, 1, 1)))]
    for node in program.nodes:
        if isinstance(node, Conv):
            before, after = ([p, p] for p in node.padding)
            strides, dilations, weight = [node.stride] * 2, [1, 1], node.weight
            if node.groups > 1:
                weight = weight.reshape(node.groups, -1, *weight.shape[1:])
            convolve = ops.group_convolution if node.groups > 1 else ops.convolution
            y = convolve(values[node.source], ops.constant(weight), strides, before, after, dilations)
            y = activate(ops.add(y, ops.constant(node.bias.reshape(1, -1, 1, 1))), node.activation)
        elif isinstance(node, Add):
            y = activate(ops.add(values[node.left], values[node.right]), node.activation)
        elif isinstance(node, MaxPool):
            before, after = ([p, p] for p in node.padding)
            pooled = ops.max_pool(values[node.source], [node.stride] * 2, [1, 1], before, after, [node.size] * 2)
            y = pooled.output(0)
        else:
            y = ops.reduce_mean(values[node.source], ops.constant(np.array([2, 3], np.int64)), False)
        values.append(y)
    return openvino.Model([values[-1]], [frames], "stepcut")
