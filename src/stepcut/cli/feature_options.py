"""How features are made of videos: the options of every command that does so, in one place."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from stepcut.features.spec import DEFAULT, as_spec

if TYPE_CHECKING:
    from stepcut.features.spec import FeatureSpec

SPEC = {name: name for name in ("backbone", "fps", "weights", "layer", "family", "mean", "scale", "colour", "times")}
SPEC |= {"size": "input_size", "output": "output_name", "clip_frames": "clip_frames", "clip_fps": "clip_fps"}
"""The settings of a `FeatureSpec`, and the options that say them."""


def add_features(parser: argparse.ArgumentParser) -> None:
    """Which backbone makes how many rows per second, where, and where they are kept; what is not said is None."""
    group = parser.add_argument_group("how features are made of videos")
    group.add_argument(
        "--backbone",
        help="efficientnet-lite0 (default); resnet50, the paper's, which needs --weights; an .onnx, .xml or .tflite; "
        "timm:NAME, hf:NAME or open_clip:NAME; package.module:Class",
    )
    group.add_argument("--fps", help="rows of features per second, such as 2 (default) or 30000/1001")
    group.add_argument(
        "--times",
        help="exact (default): each row shows the frame of its time; near: up to half a row older, which decodes less",
    )
    group.add_argument(
        "--fast", dest="times", action="store_const", const="fast", help="for long archives: up to two rows older"
    )
    group.add_argument(
        "--weights", metavar="FILE", help="a .safetensors, .pth or .pt file; fetch allows a download from a hub"
    )
    group.add_argument(
        "--layer", help="efficientnet-lite0: layout, which also says where in the picture; resnet50: conv2a to conv5c"
    )
    group.add_argument(
        "--family", help="resnet50: v1.5 (torchvision) or v1 (Keras, Caffe), where the weights do not say it"
    )
    what = "of a model file that does not say it itself: "
    group.add_argument("--input-size", metavar="N", help=what + "the side of its frames (default 224)")
    group.add_argument("--mean", metavar="R,G,B", help=what + "subtracted from frames of 0 to 1 (default: ImageNet's)")
    group.add_argument("--scale", metavar="R,G,B", help=what + "then they are divided by it (default: ImageNet's)")
    group.add_argument("--colour", help=what + "rgb (default) or bgr")
    group.add_argument(
        "--output-name", metavar="NAME", help="which output of a model file is kept, where it has several"
    )
    group.add_argument("--clip-frames", metavar="N", help=what + "frames of a clip, where it takes clips")
    group.add_argument("--clip-fps", metavar="RATE", help="frames per second inside a clip (default: --fps)")
    add_device(group)
    group.add_argument(
        "--cache", metavar="DIR", help="where features are kept (default: STEPCUT_CACHE, or the user's cache folder)"
    )


def add_device(parser: argparse._ActionsContainer) -> None:
    """Where the backbone runs: the machine's business, and never a procedure's."""
    parser.add_argument("--device", default="auto", help="where the backbone runs: auto (default), cpu or cuda")


def add_trust(parser: argparse._ActionsContainer) -> None:
    """A procedure is data; code that it names is run on the user's word alone."""
    parser.add_argument("--trust", action="store_true", help="import the method or backbone that the procedure names")


def said(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Those of these options that were given."""
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def spec_of(args: argparse.Namespace, like: FeatureSpec | None = None) -> FeatureSpec:
    """The spec that the options ask for; those that were not given are as in `like`."""
    given = {name: getattr(args, option) for name, option in SPEC.items()}
    name = given.pop("backbone")
    return as_spec(name if name is not None else like or DEFAULT, **given)
