"""How videos are seen: the options of every command that turns videos into features, in one place."""

from __future__ import annotations

import argparse
from typing import Any

BACKBONE = ("backbone", "weights", "layer", "family", "device")
"""What a backbone is loaded with; `fps` and `cache` say the rest."""


def add_seeing(parser: argparse.ArgumentParser) -> None:
    """Which backbone sees how many frames, where, and where its features are kept; what is not said is None."""
    group = parser.add_argument_group("how videos are seen")
    group.add_argument(
        "--backbone", help="efficientnet-lite0 (default), or resnet50, the paper's, which needs --weights"
    )
    group.add_argument("--fps", help="frames seen per second, such as 2 (default) or 30000/1001")
    group.add_argument("--weights", metavar="FILE", help="weights of the backbone: a .safetensors, .pth or .pt file")
    group.add_argument("--layer", help="resnet50: the layer whose maps are kept, conv2a to conv5c (default conv4c)")
    group.add_argument(
        "--family", help="resnet50: v1.5 (torchvision) or v1 (Keras, Caffe), where the weights do not say it"
    )
    group.add_argument("--device", help="auto (default), cpu or cuda")
    group.add_argument(
        "--cache", metavar="DIR", help="where features are kept (default: STEPCUT_CACHE, or the user's cache folder)"
    )


def said(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Those of these options that were given."""
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}
