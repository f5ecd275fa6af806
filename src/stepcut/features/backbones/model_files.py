"""Networks in ONNX files, run by OpenVINO or onnxruntime (CUDA).

The preprocessing is read from the metadata of the file (`metadata_props`):
`stepcut.size`, `stepcut.mean`, `stepcut.scale`, `stepcut.colour`, `stepcut.output`,
`stepcut.clip_frames` and `stepcut.clip_fps`. Fields of the `FeatureSpec` take precedence.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from stepcut.errors import OptionError, choose
from stepcut.features.backbones.backbone import Frames, Network, Place, Rows, precision
from stepcut.features.backbones.openvino_runtime import OpenVinoRuntime, frames_to, import_openvino
from stepcut.features.backbones.resnet50 import IMAGENET_MEAN, IMAGENET_SCALE
from stepcut.features.backbones.weights import hash_file
from stepcut.features.spec import LOOKED, FeatureSpec

SETTINGS = ("size", "mean", "scale", "colour", "output", "clip_frames", "clip_fps")
_log = logging.getLogger("stepcut")


@dataclass(frozen=True)
class Described:
    """What a file states about its network; a length of None may vary."""

    input: tuple[int | None, ...]
    outputs: dict[str, tuple[int | None, ...]]
    metadata: Mapping[str, str]
    raw: bool
    """Whether it takes bytes instead of normalised numbers."""


def load_file(spec: FeatureSpec, place: Place) -> Network:
    """Load the network in the file of a `spec`, built at its first use."""
    device, runtime = place
    file = Path(spec.backbone)
    if not file.is_file():
        other = "Put it there, or use another .onnx file, or a name."
        raise OptionError(f"backbone='{file}': no such file. {LOOKED if spec.digest else other}")
    digest = hash_file(file)[:16]
    spec = spec.opened(digest)
    opened, described = (_open_onnxruntime if runtime == "onnxruntime" else _open_openvino)(
        file, device
    )
    full, axes = complete(spec, described)
    shape = described.outputs[str(full.output)]
    if not 2 <= len(shape) <= 5:
        raise OptionError(
            f"{file.name}: output {full.output} has shape {shape}, not one row per frame."
        )
    dim = (
        shape[-1]
        if len(shape) == 3 or (len(shape) == 4 and axes[-1] == len(axes) - 1)
        else shape[1]
    )
    kept = {name: value for name, value in full.to_json().items() if name in SETTINGS}
    mark = (
        f"{file.name} {digest} {' '.join(f'{k}={v}' for k, v in kept.items())} {precision(place)}"
    )
    return Network(
        full, file.name, dim or 0, full.size or 0, mark, lambda: opened(full, axes), place
    )


def complete(spec: FeatureSpec, described: Described) -> tuple[FeatureSpec, tuple[int, ...]]:
    """Complete the `spec` from its file; return it with the axis order of the network's input.

    Defaults: 224 pixels, the mean and deviation of ImageNet, RGB, the only output.
    """
    stated: dict[str, Any] = {name: described.metadata.get(f"stepcut.{name}") for name in SETTINGS}
    full = replace(
        spec, **{name: value for name, value in stated.items() if getattr(spec, name) is None}
    )
    shape, file = described.input, Path(spec.backbone).name
    usual = (1, 3) if len(shape) == 4 else (2, 1, 4)
    channel = next((axis for axis in usual if shape[axis : axis + 1] == (3,)), None)
    if len(shape) not in (4, 5) or channel is None:
        wanted = "frames (n, 3, H, W) or (n, H, W, 3), or clips (n, t, 3, H, W) or (n, 3, t, H, W)"
        raise OptionError(
            f"{file}: its input has shape {shape}, but a backbone takes {wanted}. Export it again."
        )
    frames = list(range(len(shape) - 1))  # (n, [t,] H, W); the channels are inserted below
    axes = (*frames[:channel], len(shape) - 1, *frames[channel:])
    size, width = (shape[axes.index(axis)] for axis in (len(shape) - 3, len(shape) - 2))
    size, length = (
        size or width or full.size or 224,
        shape[axes.index(1)] if len(shape) == 5 else None,
    )
    if (width or size) != size or full.size not in (None, size):
        raise OptionError(
            f"{file}: takes frames of {width or size} x {size}, size={full.size}; frames are square.",
            setting="size",
            value=full.size,
            allowed=width or size,
        )
    if len(shape) == 5 and (length or full.clip_frames) is None:
        raise OptionError(
            f"{file}: takes clips of any length, shape {shape}. Add --clip-frames, such as 16.",
            setting="clip_frames",
        )
    if full.clip_frames not in (None, length) and (len(shape) == 4 or length is not None):
        raise OptionError(
            f"{file}: clip_frames={full.clip_frames}, but it takes {length or 'single'} frames.",
            setting="clip_frames",
            value=full.clip_frames,
            allowed=length,
        )
    if (full.mean is None or full.scale is None) and not described.raw:
        _log.warning(
            "%s does not state its normalisation, so ImageNet's is used. See --mean and --scale.",
            file,
        )
    if full.output is None and len(described.outputs) > 1:
        outputs = ", ".join(f"{name} {shape}" for name, shape in described.outputs.items())
        raise OptionError(
            f"{file}: several outputs; choose one with --output-name: {outputs}.",
            setting="output",
            allowed=list(described.outputs),
        )
    output = next(iter(described.outputs)) if full.output is None else full.output
    choose("output", output, described.outputs)
    clips: dict[str, Any] = {}
    if len(shape) == 5:
        clips = {"clip_frames": length or full.clip_frames, "clip_fps": full.clip_fps or full.fps}
    mean, scale = full.mean or IMAGENET_MEAN, full.scale or IMAGENET_SCALE
    full = replace(
        full, size=size, mean=mean, scale=scale, colour=full.colour or "rgb", output=output, **clips
    )
    return full, axes


Opened = Callable[[FeatureSpec, tuple[int, ...]], Callable[[Frames], Rows]]


def _open_openvino(file: Path, _device: str) -> tuple[Opened, Described]:
    openvino = import_openvino()
    try:
        model = openvino.Core().read_model(file)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise OptionError(
            f"backbone='{file}': OpenVINO cannot read it ({reason}). Export it again."
        ) from error
    old = _only_input(file, model.inputs)
    names = [
        out.get_any_name() if out.get_names() else f"output {n}"
        for n, out in enumerate(model.outputs)
    ]
    described = Described(
        _lengths(old.partial_shape),
        {
            name: _lengths(output.partial_shape)
            for name, output in zip(names, model.outputs, strict=True)
        },
        _metadata(model),
        old.element_type == openvino.Type.u8,
    )

    def build(spec: FeatureSpec, axes: tuple[int, ...]) -> Callable[[Frames], Rows]:
        count = -1 if described.input[0] is None else described.input[0]
        clip = () if spec.clip_frames is None else (spec.clip_frames,)
        shape = (count, *clip, spec.size or 0, spec.size or 0, 3)
        frames, x = frames_to(
            shape, axes, spec.mean, spec.scale, spec.colour == "bgr", old.element_type
        )
        for target in old.get_target_inputs():
            target.replace_source_output(x.output(0))
        ops, y = openvino.opset8, model.output(names.index(str(spec.output))).node.input_value(0)
        rank = y.partial_shape.rank.get_length()
        pooled = {3: [1], 5: [2, 3, 4]}.get(rank)
        if pooled:
            y = ops.reduce_mean(y, ops.constant(np.array(pooled, np.int64)), False).output(0)
        elif rank == 4 and axes[-1] == 3:  # channels last, as in TensorFlow
            y = ops.transpose(y, ops.constant(np.array([0, 3, 1, 2], np.int64))).output(0)
        return OpenVinoRuntime(openvino.Model([y], [frames], "stepcut"))

    return build, described


def _open_onnxruntime(file: Path, device: str) -> tuple[Opened, Described]:
    import onnxruntime

    wanted = "CUDAExecutionProvider" if device.startswith("cuda") else "CPUExecutionProvider"
    if wanted not in onnxruntime.get_available_providers():
        here = ", ".join(onnxruntime.get_available_providers())
        raise OptionError(
            f"{file.name}, device={device!r}: onnxruntime runs on {here}. Use --device cpu.",
            setting="device",
            value=device,
        )
    try:
        session = onnxruntime.InferenceSession(file, providers=[wanted])
    except Exception as error:  # its errors share no class
        raise OptionError(
            f"backbone='{file}': onnxruntime cannot read it ({error}). Export it again."
        ) from error
    source = _only_input(file, session.get_inputs())
    described = Described(
        tuple(n if isinstance(n, int) else None for n in source.shape),
        {
            out.name: tuple(n if isinstance(n, int) else None for n in out.shape)
            for out in session.get_outputs()
        },
        session.get_modelmeta().custom_metadata_map,
        source.type == "tensor(uint8)",
    )
    kind = {"tensor(float16)": np.float16, "tensor(uint8)": np.uint8}.get(source.type, np.float32)

    def build(spec: FeatureSpec, axes: tuple[int, ...]) -> Callable[[Frames], Rows]:
        def run(frames: Frames) -> Rows:
            x: Any = frames[..., ::-1] if spec.colour == "bgr" else frames
            if kind is not np.uint8:
                x = (x - 255 * np.array(spec.mean, np.float32)) / (
                    255 * np.array(spec.scale, np.float32)
                )
            x = np.ascontiguousarray(x.transpose(axes), kind)
            count = described.input[0] or len(x)
            x = np.concatenate([x, np.zeros((-len(x) % count, *x.shape[1:]), kind)])
            parts = [
                session.run([spec.output], {source.name: x[at : at + count]})[0]
                for at in range(0, len(x), count)
            ]
            y = np.concatenate(parts)[: len(frames)]
            y = y.mean(axis=1) if y.ndim == 3 else y.mean(axis=(2, 3, 4)) if y.ndim == 5 else y
            return np.asarray(y, np.float16)

        return run

    return build, described


def _only_input(file: Path, inputs: Sequence[Any]) -> Any:
    if len(inputs) != 1:
        raise OptionError(f"{file.name}: {len(inputs)} inputs, but a backbone takes frames only.")
    return inputs[0]


def _lengths(shape: Any) -> tuple[int | None, ...]:
    return tuple(None if length.is_dynamic else int(length.get_length()) for length in shape)


def _metadata(model: Any) -> dict[str, str]:
    """Read stepcut's metadata of an ONNX file, which OpenVINO puts below `framework`."""
    places = [["framework", f"stepcut.{name}"] for name in SETTINGS]
    return {
        place[-1]: str(model.get_rt_info(place).astype(str))
        for place in places
        if model.has_rt_info(place)
    }
