"""Networks of timm, transformers (`hf:`) and open_clip, run by torch.

Downloads need `weights="fetch"`. Weights are read as tensors only, and no code of a hub is run.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from stepcut.errors import ExtraNeeded, OptionError
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
    except (RuntimeError, OSError) as error:  # an unknown name, or the download failed
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        what = f"{hub} cannot load it ({reason}). Check its name and the connection to the hub."
        raise _refused(spec, what) from error
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


def _refused(spec: FeatureSpec, what: str) -> OptionError:
    message = f"backbone={spec.backbone!r}: {what}"
    return OptionError(message, setting="backbone", value=spec.backbone)


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
        raise _refused(spec, "name the weights too, such as open_clip:ViT-B-32/openai.")
    model = open_clip.create_model(name, pretrained=tag if fetch else None)
    visual = model.visual
    size = visual.image_size if isinstance(visual.image_size, int) else visual.image_size[0]
    stated = {"size": int(size), "mean": visual.image_mean, "scale": visual.image_std}
    return model, model.encode_image, stated


def _transformers(name: str, spec: FeatureSpec) -> Found:
    from transformers import AutoModel
    from transformers.image_processing_base import ImageProcessingMixin

    local = {
        "local_files_only": spec.weights != FETCH or not spec.trusted,
        "trust_remote_code": False,
    }
    try:
        model = AutoModel.from_pretrained(name, use_safetensors=True, **local)
        data, _ = ImageProcessingMixin.get_image_processor_dict(name, **local)
    except (OSError, ValueError) as error:
        what = f"not on this machine as safetensors ({str(error).strip().splitlines()[0]})"
        raise _refused(spec, f"{what}. Allow the download: --weights fetch.") from error
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


def _may_fetch(spec: FeatureSpec) -> bool:
    """Return whether the user allowed a download; refuse a network without any weights."""
    if spec.weights is None or (spec.weights == FETCH and not spec.trusted):
        what = f"backbone={spec.backbone!r} comes without weights (weights={spec.weights!r})"
        raise OptionError(
            f"{what}. Use a file with --weights, or allow the download: --weights fetch.",
            setting="weights",
            value=spec.weights,
        )
    name = spec.backbone.partition(":")[2]
    if spec.weights != FETCH and ":" in name and not name.startswith("local-dir:"):  # as hf-hub: is
        what = f"backbone={spec.backbone!r} needs its hub even with a weights file"
        raise OptionError(
            f"{what}. Allow it with --weights fetch, or use a name of the package.",
            setting="weights",
            value=spec.weights,
            allowed=FETCH,
        )
    return spec.weights == FETCH


def _fill(module: Any, weights: dict[str, Any], spec: FeatureSpec) -> None:
    import torch

    tensors = {key: torch.from_numpy(value) for key, value in weights.items() if value.ndim > 0}
    try:
        missing = module.load_state_dict(tensors, strict=False).missing_keys
        lost = sorted({name for name, _ in module.named_parameters()} & {*missing})
        shown = ", ".join(lost[:3])
        reason = f"{len(lost)} parameters are not in the file ({shown})" if lost else ""
    except RuntimeError as error:  # different shapes
        reason = str(error).splitlines()[-1].strip()
    if reason:
        raise OptionError(
            f"weights={spec.weights!r} do not fit {spec.backbone}: {reason}. Use its own weights.",
            setting="weights",
            value=spec.weights,
        )


HUBS: dict[str, Callable[[str, FeatureSpec], Found]] = {
    "timm": _timm,
    "hf": _transformers,
    "open_clip": _open_clip,
}
