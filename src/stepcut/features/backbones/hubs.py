"""Networks of timm, transformers (`hf:`) and open_clip, run by torch.

Downloads need `weights="fetch"`. Weights are read as tensors only, and no code of a hub is run.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from stepcut.errors import ExtraNeeded, OptionError, wrong
from stepcut.features.backbones.backbone import Frames, Network, Place, Rows, precision
from stepcut.features.backbones.weights import read_weights
from stepcut.features.spec import FETCH, FeatureSpec
from stepcut.plugins import pip_install

Found = tuple[Any, Callable[[Any], Any], dict[str, Any]]
"""A torch module, its function from frames to rows, and fields of its `FeatureSpec`."""


def load_hub(spec: FeatureSpec, place: Place) -> Network:
    """Load the network of `timm:NAME`, `hf:NAME` or `open_clip:NAME`."""
    hub, _, name = spec.backbone.partition(":")
    try:
        module, forward, stated = HUBS[hub](name, spec)
    except ImportError as error:
        package = {"hf": "transformers", "open_clip": "open-clip-torch"}.get(hub, hub)
        raise ExtraNeeded(
            f"{spec.backbone} needs {package} ({error}). Run: {pip_install(package)}"
        ) from error
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
    mark = f"{spec.backbone} {digest.hexdigest()[:16]} {how} {precision(place)}"
    mark += " bgr" * (full.colour == "bgr")

    def build() -> Callable[[Frames], Rows]:
        from stepcut.features.backbones.torch_runtime import TorchRuntime, dtype_on

        module.to(place.device, dtype_on(place.device))
        run = TorchRuntime(forward, full.mean or (), full.scale or (), place.device)
        return (lambda frames: run(frames[..., ::-1])) if full.colour == "bgr" else run

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

    stated = {
        "size": int(config.image_size),
        "mean": data["image_mean"],
        "scale": data["image_std"],
    }
    if frames := getattr(config, "num_frames", None):
        stated |= {"clip_frames": frames, "clip_fps": spec.fps}
    return model, forward, stated


def _fetches(spec: FeatureSpec) -> bool:
    """Return whether the user, and not a file, allowed a download."""
    return spec.weights == FETCH and spec.trusted


def _may_fetch(spec: FeatureSpec) -> bool:
    """Return whether the user allowed a download; refuse a network without any weights."""
    if _fetches(spec):
        return True
    if spec.weights in (None, FETCH):
        what = f": backbone={spec.backbone!r} comes without weights. Use a file with --weights, "
        raise wrong("weights", spec.weights, f"{what}or allow the download: --weights fetch.")
    name = spec.backbone.partition(":")[2]
    if ":" in name and not name.startswith("local-dir:"):  # as hf-hub: is
        what = (
            f": backbone={spec.backbone!r} needs its hub even with a weights file. Allow it with "
        )
        what += "--weights fetch, or use a name of the package."
        raise wrong("weights", spec.weights, what, FETCH)
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


HUBS: dict[str, Callable[[str, FeatureSpec], Found]] = {
    "timm": _timm,
    "hf": _transformers,
    "open_clip": _open_clip,
}
