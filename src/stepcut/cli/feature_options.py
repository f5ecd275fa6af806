"""How features are made of videos: the options of every command that does so, in one place."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepcut.features.spec import FeatureSpec

SPEC = ("backbone", "fps", "weights", "layer", "family")
"""The options that are settings of a `FeatureSpec`."""


def add_features(parser: argparse.ArgumentParser) -> None:
    """Which backbone makes how many rows per second, where, and where they are kept; what is not said is None."""
    group = parser.add_argument_group("how features are made of videos")
    group.add_argument(
        "--backbone", help="efficientnet-lite0 (default), or resnet50, the paper's, which needs --weights"
    )
    group.add_argument("--fps", help="rows of features per second, such as 2 (default) or 30000/1001")
    group.add_argument("--weights", metavar="FILE", help="weights of the backbone: a .safetensors, .pth or .pt file")
    group.add_argument("--layer", help="resnet50: the layer whose maps are kept, conv2a to conv5c (default conv4c)")
    group.add_argument(
        "--family", help="resnet50: v1.5 (torchvision) or v1 (Keras, Caffe), where the weights do not say it"
    )
    add_device(group)
    group.add_argument(
        "--cache", metavar="DIR", help="where features are kept (default: STEPCUT_CACHE, or the user's cache folder)"
    )


def add_device(parser: argparse._ActionsContainer) -> None:
    """Where the backbone runs: the machine's business, and never a procedure's."""
    parser.add_argument("--device", default="auto", help="where the backbone runs: auto (default), cpu or cuda")


def said(args: argparse.Namespace, *names: str) -> dict[str, Any]:
    """Those of these options that were given."""
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def spec_of(args: argparse.Namespace, like: FeatureSpec | None = None) -> FeatureSpec:
    """The spec that the options ask for; those that were not given are as in `like`."""
    from stepcut.features.spec import DEFAULT, as_spec

    given = said(args, *SPEC)
    name = given.pop("backbone", None)
    return as_spec(name if name is not None else like or DEFAULT, **given)
