"""Networks in ONNX files, which OpenVINO runs on the CPU.

The preprocessing is read from the metadata of the file (`metadata_props`): `stepcut.size`, `.mean`,
`.scale`, `.colour`, `.output`, `.clip_frames` and `.clip_fps`. Fields of the `FeatureSpec` take
precedence.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from stepcut.errors import OptionError, choose, wrong
from stepcut.features.backbones.backbone import Frames, Network, Place, Rows, precision
from stepcut.features.backbones.networks import IMAGENET_MEAN, IMAGENET_SCALE
from stepcut.features.backbones.openvino_runtime import OpenVinoRuntime, frames_to, import_openvino
from stepcut.features.backbones.weights import hash_file
from stepcut.features.spec import LOOKED, FeatureSpec

SETTINGS = ("size", "mean", "scale", "colour", "output", "clip_frames", "clip_fps")
Shape = tuple[int | None, ...]
"""Lengths; one of None may vary."""


def load_file(spec: FeatureSpec, place: Place) -> Network:
    """Load the network in the file of a `spec`, built at its first use."""
    file = Path(spec.backbone)
    if not file.is_file():
        other = "Put it there, or use another .onnx file, or a name."
        raise OptionError(f"backbone='{file}': no such file. {LOOKED if spec.digest else other}")
    digest = hash_file(file)[:16]
    openvino = import_openvino()
    try:
        model = openvino.Core().read_model(file)
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[-1]
        raise OptionError(
            f"backbone='{file}': OpenVINO cannot read it ({reason}). Export it again."
        ) from error
    if len(model.inputs) != 1:
        what = f"{len(model.inputs)} inputs, but a backbone takes frames only"
        raise OptionError(f"{file.name}: {what}.")
    outputs = {
        out.get_any_name() if out.get_names() else f"output {n}": _lengths(out.partial_shape)
        for n, out in enumerate(model.outputs)
    }
    takes, kind = _lengths(model.input(0).partial_shape), model.input(0).element_type
    raw = kind == openvino.Type.u8  # bytes instead of normalised numbers
    full, axes = complete(spec.opened(digest), takes, outputs, _metadata(model), raw)
    shape = outputs[str(full.output)]
    if not 2 <= len(shape) <= 5:
        raise OptionError(
            f"{file.name}: output {full.output} has shape {shape}, not one row per frame."
        )
    last = len(shape) == 3 or (len(shape) == 4 and axes[-1] == len(axes) - 1)
    kept = {name: value for name, value in full.to_json().items() if name in SETTINGS}
    how = " ".join(f"{name}={value}" for name, value in kept.items())
    mark = f"{file.name} {digest} {how} {precision(place)}"

    def build() -> Callable[[Frames], Rows]:
        clip = () if full.clip_frames is None else (full.clip_frames,)
        wanted = (-1 if takes[0] is None else takes[0], *clip, full.size or 0, full.size or 0, 3)
        frames, x = frames_to(wanted, axes, full.mean, full.scale, full.colour == "bgr", kind)
        for target in model.input(0).get_target_inputs():
            target.replace_source_output(x.output(0))
        ops = openvino.opset8
        y = model.output(list(outputs).index(str(full.output))).node.input_value(0)
        rank = y.partial_shape.rank.get_length()
        if pooled := {3: [1], 5: [2, 3, 4]}.get(rank):
            y = ops.reduce_mean(y, ops.constant(np.array(pooled, np.int64)), False).output(0)
        elif rank == 4 and axes[-1] == 3:  # channels last, as in TensorFlow
            y = ops.transpose(y, ops.constant(np.array([0, 3, 1, 2], np.int64))).output(0)
        return OpenVinoRuntime(openvino.Model([y], [frames], "stepcut"))

    dim = shape[-1] if last else shape[1]
    return Network(full, file.name, dim or 0, full.size or 0, mark, build, place)


def complete(
    spec: FeatureSpec,
    shape: Shape,
    outputs: Mapping[str, Shape],
    metadata: Mapping[str, str],
    raw: bool,
) -> tuple[FeatureSpec, tuple[int, ...]]:
    """Complete the `spec` from its file; return it with the axis order of the network's input.

    `shape` is that of the input, `raw` whether it takes bytes. Defaults: 224 pixels, the mean and
    deviation of ImageNet, RGB, the only output.
    """
    missing = {n: metadata.get(f"stepcut.{n}") for n in SETTINGS if getattr(spec, n) is None}
    full, file = replace(spec, **missing), Path(spec.backbone).name  # type: ignore[arg-type]
    clips = len(shape) == 5
    channel = next((at for at in ((2, 1, 4) if clips else (1, 3)) if shape[at : at + 1] == (3,)), 0)
    if len(shape) not in (4, 5) or not channel:
        wanted = "frames (n, 3, H, W) or (n, H, W, 3), or clips (n, t, 3, H, W) or (n, 3, t, H, W)"
        raise OptionError(
            f"{file}: its input has shape {shape}, but a backbone takes {wanted}. Export it again."
        )
    frames = list(range(len(shape) - 1))  # (n, [t,] H, W); the channels are inserted below
    axes = (*frames[:channel], len(shape) - 1, *frames[channel:])
    high, wide = (shape[axes.index(axis)] for axis in (len(shape) - 3, len(shape) - 2))
    size = high or wide or full.size or 224
    if (wide or size) != size or full.size not in (None, size):
        what = f": {file} takes frames of {wide or size} x {size}; frames are square."
        raise wrong("size", full.size, what, wide or size)
    length = shape[axes.index(1)] if clips else None
    if clips and (length or full.clip_frames) is None:
        what = f": {file} takes clips of any length, shape {shape}. Add --clip-frames, such as 16."
        raise wrong("clip_frames", None, what)
    if full.clip_frames not in (None, length) and not (clips and length is None):
        what = f", but {file} takes {length or 'single'} frames."
        raise wrong("clip_frames", full.clip_frames, what, length)
    if (full.mean is None or full.scale is None) and not raw:
        what = "%s does not state its normalisation, so ImageNet's is used. See --mean and --scale."
        logging.getLogger("stepcut").warning(what, file)
    if full.output is None and len(outputs) > 1:
        listed = ", ".join(f"{name} {shape}" for name, shape in outputs.items())
        what = f": {file} has several outputs; choose one with --output-name: {listed}."
        raise wrong("output", None, what, list(outputs))
    output = next(iter(outputs)) if full.output is None else full.output
    choose("output", output, outputs)
    full = replace(
        full,
        size=size,
        mean=full.mean or IMAGENET_MEAN,
        scale=full.scale or IMAGENET_SCALE,
        colour=full.colour or "rgb",
        output=output,
        clip_frames=length or full.clip_frames,
        clip_fps=full.clip_fps or full.fps if clips else full.clip_fps,
    )
    return full, axes


def _lengths(shape: Any) -> Shape:
    return tuple(None if length.is_dynamic else int(length.get_length()) for length in shape)


def _metadata(model: Any) -> dict[str, str]:
    """Read stepcut's metadata of an ONNX file, which OpenVINO puts below `framework`."""
    places = [["framework", f"stepcut.{name}"] for name in SETTINGS]
    there = [place for place in places if model.has_rt_info(place)]
    return {place[-1]: str(model.get_rt_info(place).astype(str)) for place in there}
