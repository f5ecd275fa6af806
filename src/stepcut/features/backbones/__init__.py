"""Backbones: networks that turn frames into features, chosen by name, by file, or custom.

OpenVINO runs ONNX files on the CPU, and their metadata (`stepcut.size`, `.mean`, ...) completes
the `FeatureSpec`; torch runs the networks of hubs. No code of a hub is run.
"""

import copyreg
import hashlib
import logging
import pickle
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from stepcut.errors import ExtraNeeded, FeatureError, OptionError, choose, placed, wrong
from stepcut.features.backbones import runtime
from stepcut.features.backbones.networks import (
    IMAGENET_MEAN,
    IMAGENET_SCALE,
    hash_file,
    load_lite0,
    load_resnet50,
    read_weights,
)
from stepcut.features.backbones.runtime import Backbone, Network, Place, Run, choose_place
from stepcut.features.spec import FETCH, LOOKED, FeatureSpec, as_spec
from stepcut.parallel.engine import Engine, import_folders
from stepcut.plugins import check_part, find, is_own, pip_install
from stepcut.settings import Rate

BACKBONES: dict[str, Callable[[FeatureSpec, Place], Network]] = {
    "efficientnet-lite0": load_lite0,
    "resnet50": load_resnet50,
}  # built-in networks; `extract` also accepts "vectors", which reads feature files


def load_backbone(
    backbone: object = "efficientnet-lite0",
    device: str = "auto",
    gpus_elsewhere: bool = False,
    **settings: Any,
) -> Backbone:
    """Load a name, a spec or an object; with `gpus_elsewhere` for GPUs of a cluster."""
    if not isinstance(backbone, str | FeatureSpec):
        return _checked(backbone)
    spec = as_spec(backbone, **settings)
    name = spec.backbone
    if name.endswith((".xml", ".tflite")):
        what = ": OpenVINO and TensorFlow Lite files are no longer read. Export the network as "
        what += ".onnx (for .tflite: python -m tf2onnx.convert --tflite)."
        raise wrong("backbone", name, what, ".onnx")
    load: Callable[[FeatureSpec, Place], Network]
    refused: tuple[str, ...]
    if spec.is_file:
        kind, load, refused = "file", load_file, ("weights", "layer", "family")
    elif name.partition(":")[0] in HUBS:
        kind, load, refused = "hub", load_hub, ("layer", "family", "output")
    elif name in BACKBONES:
        kind, load, refused = "own", BACKBONES[name], SETTINGS
    else:
        return _custom(spec)
    place = choose_place(kind, device, gpus_elsewhere)
    for setting in refused:
        if (value := getattr(spec, setting)) is not None:
            raise wrong(setting, value, f": {name} does not support it. Remove the setting.")
    with placed(setting="backbone", path=name if spec.is_file else None):
        return load(spec, place)


# In another process, a network is loaded again.
copyreg.pickle(Network, lambda network: (load_backbone, (network.spec, network.place.device)))  # type: ignore


def open_backbone(
    backbone: str | FeatureSpec | Backbone,
    fps: Rate | None = None,
    device: str = "auto",
    engine: Engine | None = None,
) -> tuple[Backbone, FeatureSpec]:
    spec = as_spec(backbone, fps=fps)
    if not isinstance(backbone, str | FeatureSpec):
        return load_backbone(backbone), spec
    there = engine is not None and engine.gpu_share(device) > 0
    network = load_backbone(spec, device, gpus_elsewhere=there)
    return network, network.spec if isinstance(network, Network) else spec  # files complete it


def can_travel(backbone: Backbone) -> bool:
    """Return whether a worker can import a backbone: no class of a notebook."""
    module = sys.modules.get(type(backbone).__module__.partition(".")[0])
    places = [*getattr(module, "__path__", []), getattr(module, "__file__", None) or ""]
    if not any(str(Path(place).parent) in import_folders() for place in places):
        return False
    try:
        return bool(pickle.dumps(backbone))
    except Exception:  # a custom backbone may contain anything
        return False


def pack(backbone: Backbone) -> partial[Backbone]:
    """Return a function that opens `backbone` in a worker, once per worker."""
    try:
        return partial(unpack, backbone.fingerprint, pickle.dumps(backbone))
    except Exception as error:  # a custom backbone may contain anything
        what = f"backbone {backbone.name} cannot be sent to workers ({error}). Add a __reduce__ to "
        advice = "its class, or run without engine and workers."
        raise OptionError(what + advice, setting="backbone") from error


@lru_cache(maxsize=1)
def unpack(fingerprint: str, packed: bytes) -> Backbone:
    try:
        backbone: Backbone = pickle.loads(packed)  # from our own driver, never from a file
    except (AttributeError, ImportError) as error:  # defined in a notebook, or not installed here
        what = f"a worker cannot import the class of the backbone ({error})"
        raise FeatureError(f"{what}. Move it to a module that all workers can import.") from error
    if backbone.fingerprint != fingerprint:
        what = f"this worker's backbone is {backbone.fingerprint!r}, the driver's {fingerprint!r}"
        advice = "Install the same packages on all machines, or set the device: --device cpu."
        raise FeatureError(f"{what}. {advice}")
    return backbone


def _custom(spec: FeatureSpec) -> Backbone:
    name = spec.backbone
    if is_own(name) and not spec.trusted:
        what = "is custom code named by a file. If you trust it, use trust=True (--trust)."
        raise wrong("backbone", name, what)
    make: Callable[..., Any] = find("backbone", name, BACKBONES)
    try:
        return _checked(make())
    except TypeError as error:
        what = f"cannot be created without arguments ({error}). Pass the object instead."
        raise wrong("backbone", name, what) from error


def _checked(backbone: object) -> Backbone:
    needed = ("name", "dim", "size", "fingerprint", "extract")
    check_part("backbone", backbone, backbone, needed, BACKBONES)
    own = cast(Backbone, backbone)
    counts = all(isinstance(n, int | np.integer) and n > 0 for n in (own.dim, own.size))
    if not (counts and isinstance(own.name, str) and isinstance(own.fingerprint, str)):
        seen = ", ".join(f"{name}={getattr(own, name)!r}" for name in needed[:4])
        what = f": {seen}; dim and size must be integers above 0, name and fingerprint strings."
        raise wrong("backbone", own, what)
    return own


# ---------- ONNX files

SETTINGS = ("size", "mean", "scale", "colour", "output", "clip_frames", "clip_fps")
Shape = tuple[int | None, ...]  # lengths; one of None may vary


def load_file(spec: FeatureSpec, place: Place) -> Network:
    file = Path(spec.backbone)
    if not file.is_file():
        other = "Put it there, or use another .onnx file, or a name."
        raise OptionError(f"backbone='{file}': no such file. {LOOKED if spec.digest else other}")
    digest, openvino = hash_file(file)[:16], runtime.import_openvino()
    try:
        model = openvino.Core().read_model(file)
    except RuntimeError as error:
        what = f"OpenVINO cannot read it ({str(error).strip().splitlines()[-1]}). Export it again."
        raise OptionError(f"backbone='{file}': {what}") from error
    if len(model.inputs) != 1:
        what = f"{len(model.inputs)} inputs, but a backbone takes frames only"
        raise OptionError(f"{file.name}: {what}.")
    outputs = {
        out.get_any_name() if out.get_names() else f"output {n}": _lengths(out.partial_shape)
        for n, out in enumerate(model.outputs)
    }
    stated = {}
    for name in SETTINGS:
        where = ["framework", f"stepcut.{name}"]  # OpenVINO puts stepcut's metadata there
        if getattr(spec, name) is None and model.has_rt_info(where):
            stated[name] = str(model.get_rt_info(where).astype(str))
    takes, kind = _lengths(model.input(0).partial_shape), model.input(0).element_type
    raw = kind == openvino.Type.u8  # bytes instead of normalised numbers
    full = replace(spec.opened(digest), **stated)  # type: ignore[arg-type]
    full, axes = complete(full, takes, outputs, raw)
    shape = outputs[str(full.output)]
    if not 2 <= len(shape) <= 5:
        what = f"output {full.output} has shape {shape}, not one row per frame."
        raise OptionError(f"{file.name}: {what}")
    last = len(shape) == 3 or (len(shape) == 4 and axes[-1] == len(axes) - 1)
    kept = {name: value for name, value in full.to_json().items() if name in SETTINGS}
    how = " ".join(f"{name}={value}" for name, value in kept.items())
    mark = f"{file.name} {digest} {how} {place.precision}"

    def build() -> Run:
        clip = () if full.clip_frames is None else (full.clip_frames,)
        wanted = (-1 if takes[0] is None else takes[0], *clip, full.size or 0, full.size or 0, 3)
        bgr = full.colour == "bgr"
        frames, x = runtime.frames_to(wanted, axes, full.mean, full.scale, bgr, kind)
        for target in model.input(0).get_target_inputs():
            target.replace_source_output(x.output(0))
        ops = openvino.opset8
        y = model.output(list(outputs).index(str(full.output))).node.input_value(0)
        rank = y.partial_shape.rank.get_length()
        if pooled := {3: [1], 5: [2, 3, 4]}.get(rank):
            y = ops.reduce_mean(y, ops.constant(np.array(pooled, np.int64)), False).output(0)
        elif rank == 4 and axes[-1] == 3:  # channels last, as in TensorFlow
            y = ops.transpose(y, ops.constant(np.array([0, 3, 1, 2], np.int64))).output(0)
        return runtime.run_openvino(frames, y)

    dim = shape[-1] if last else shape[1]
    return Network(full, file.name, dim or 0, full.size or 0, mark, build, place)


def complete(
    spec: FeatureSpec, shape: Shape, outputs: Mapping[str, Shape], raw: bool
) -> tuple[FeatureSpec, tuple[int, ...]]:
    """Complete the `spec` of a file; return it with the axis order of its input of a `shape`."""
    file, clips = Path(spec.backbone).name, len(shape) == 5
    channel = next((at for at in ((2, 1, 4) if clips else (1, 3)) if shape[at : at + 1] == (3,)), 0)
    if len(shape) not in (4, 5) or not channel:
        wanted = "frames (n, 3, H, W) or (n, H, W, 3), or clips (n, t, 3, H, W) or (n, 3, t, H, W)"
        what = f"its input has shape {shape}, but a backbone takes {wanted}. Export it again."
        raise OptionError(f"{file}: {what}")
    frames = list(range(len(shape) - 1))  # (n, [t,] H, W); the channels are inserted below
    axes = (*frames[:channel], len(shape) - 1, *frames[channel:])
    high, wide = (shape[axes.index(axis)] for axis in (len(shape) - 3, len(shape) - 2))
    size = high or wide or spec.size or 224
    if (wide or size) != size or spec.size not in (None, size):
        what = f": {file} takes frames of {wide or size} x {size}; frames are square."
        raise wrong("size", spec.size, what, wide or size)
    length = shape[axes.index(1)] if clips else None
    if clips and (length or spec.clip_frames) is None:
        what = f": {file} takes clips of any length, shape {shape}. Add --clip-frames, such as 16."
        raise wrong("clip_frames", None, what)
    if spec.clip_frames not in (None, length) and not (clips and length is None):
        what = f", but {file} takes {length or 'single'} frames."
        raise wrong("clip_frames", spec.clip_frames, what, length)
    if (spec.mean is None or spec.scale is None) and not raw:
        what = "%s does not state its normalisation, so ImageNet's is used. See --mean and --scale."
        logging.getLogger("stepcut").warning(what, file)
    if spec.output is None and len(outputs) > 1:
        listed = ", ".join(f"{name} {shape}" for name, shape in outputs.items())
        what = f": {file} has several outputs; choose one with --output-name: {listed}."
        raise wrong("output", None, what, list(outputs))
    output = next(iter(outputs)) if spec.output is None else spec.output
    choose("output", output, outputs)
    full = replace(
        spec,
        size=size,
        mean=spec.mean or IMAGENET_MEAN,
        scale=spec.scale or IMAGENET_SCALE,
        colour=spec.colour or "rgb",
        output=output,
        clip_frames=length or spec.clip_frames,
        clip_fps=spec.clip_fps or spec.fps if clips else spec.clip_fps,
    )
    return full, axes


def _lengths(shape: Any) -> Shape:
    return tuple(None if length.is_dynamic else int(length.get_length()) for length in shape)


# ---------- hubs

# a torch module, its function from frames to rows, and fields of its `FeatureSpec`
Found = tuple[Any, Callable[[Any], Any], dict[str, Any]]


def load_hub(spec: FeatureSpec, place: Place) -> Network:
    hub, _, name = spec.backbone.partition(":")
    try:
        module, forward, stated = HUBS[hub](name, spec)
    except ImportError as error:
        package = {"hf": "transformers", "open_clip": "open-clip-torch"}.get(hub, hub)
        what = f"{spec.backbone} needs {package} ({error}). Run: {pip_install(package)}"
        raise ExtraNeeded(what) from error
    except OptionError:
        raise
    except (RuntimeError, OSError, ValueError) as error:  # an unknown name, or no download
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        what = f": {hub} cannot load it ({reason}). Check its name and the connection to the hub"
        allow = "" if _fetches(spec) else ", or allow the download: --weights fetch"
        raise wrong("backbone", spec.backbone, f"{what}{allow}.") from error
    if spec.weights not in (None, FETCH):
        _fill(module, read_weights(str(spec.weights))[0], spec)
    stated["colour"] = "rgb"
    full = replace(spec, **{k: value for k, value in stated.items() if getattr(spec, k) is None})
    module.eval()
    digest = hashlib.sha256()
    for key, value in sorted(module.state_dict().items()):
        array = np.ascontiguousarray(value.detach().float().cpu().numpy())
        digest.update(key.encode() + array.data)
    how = f"{full.size} {full.mean} {full.scale} {full.clip_frames} {full.clip_fps}"
    bgr = full.colour == "bgr"
    mark = f"{spec.backbone} {digest.hexdigest()[:16]} {how} {place.precision}" + " bgr" * bgr

    def build() -> Run:
        module.to(place.device, runtime.torch_dtype(place.device))
        run = runtime.run_torch(forward, full.mean or (), full.scale or (), place.device)
        return (lambda frames: run(frames[..., ::-1])) if bgr else run

    return Network(full, spec.backbone, 0, full.size or 0, mark, build, place)


def _timm(name: str, spec: FeatureSpec) -> Found:
    import timm

    model = timm.create_model(name, pretrained=_may_fetch(spec), num_classes=0)
    data = timm.data.resolve_model_data_config(model)
    size = int(data["input_size"][-1])
    return model, model, {"size": size, "mean": data["mean"], "scale": data["std"]}


def _open_clip(name: str, spec: FeatureSpec) -> Found:
    import open_clip

    fetch, (name, _, tag) = _may_fetch(spec), name.partition("/")
    if fetch and not tag:
        what = ": name the weights too, such as open_clip:ViT-B-32/openai."
        raise wrong("backbone", spec.backbone, what)
    model = open_clip.create_model(name, pretrained=tag if fetch else None)
    visual = model.visual
    size = visual.image_size if isinstance(visual.image_size, int) else visual.image_size[0]
    stated = {"size": int(size), "mean": visual.image_mean, "scale": visual.image_std}
    return model, model.encode_image, stated


def _transformers(name: str, spec: FeatureSpec) -> Found:
    from transformers import AutoModel
    from transformers.image_processing_base import ImageProcessingMixin

    local = {"local_files_only": not _fetches(spec), "trust_remote_code": False}
    model = AutoModel.from_pretrained(name, use_safetensors=True, **local)
    data, _ = ImageProcessingMixin.get_image_processor_dict(name, **local)
    config = getattr(model.config, "vision_config", model.config)

    def forward(x: Any) -> Any:
        answer = getattr(model, "get_image_features", model)(pixel_values=x)
        pooled = getattr(answer, "pooler_output", None)
        return pooled if pooled is not None else getattr(answer, "last_hidden_state", answer)

    mean, scale = data["image_mean"], data["image_std"]
    stated = {"size": int(config.image_size), "mean": mean, "scale": scale}
    if frames := getattr(config, "num_frames", None):
        stated |= {"clip_frames": frames, "clip_fps": spec.fps}
    return model, forward, stated


def _fetches(spec: FeatureSpec) -> bool:
    """Return whether the user, and not a file, allowed a download."""
    return spec.weights == FETCH and spec.trusted


def _may_fetch(spec: FeatureSpec) -> bool:
    if _fetches(spec):
        return True
    if spec.weights in (None, FETCH):
        what = f": backbone={spec.backbone!r} comes without weights. Use a file with --weights, "
        raise wrong("weights", spec.weights, f"{what}or allow the download: --weights fetch.")
    name = spec.backbone.partition(":")[2]
    if ":" in name and not name.startswith("local-dir:"):  # as hf-hub: is
        what = f": backbone={spec.backbone!r} needs its hub even with a weights file. Allow it: "
        raise wrong("weights", spec.weights, f"{what}--weights fetch, or use another name.", FETCH)
    return False


def _fill(module: Any, weights: dict[str, Any], spec: FeatureSpec) -> None:
    import torch

    tensors = {key: torch.from_numpy(value) for key, value in weights.items() if value.ndim > 0}
    try:
        missing = module.load_state_dict(tensors, strict=False).missing_keys
        lost = sorted({name for name, _ in module.named_parameters()} & {*missing})
        reason = f"{len(lost)} parameters are not in the file ({', '.join(lost[:3])})"
    except RuntimeError as error:  # different shapes
        lost, reason = ["shapes"], str(error).splitlines()[-1].strip()
    if lost:
        what = f": they do not fit {spec.backbone}: {reason}. Use its own weights."
        raise wrong("weights", spec.weights, what)


HUBS = {"timm": _timm, "hf": _transformers, "open_clip": _open_clip}
