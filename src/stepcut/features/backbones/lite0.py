"""EfficientNet-Lite0, the default backbone: 1280 numbers per frame, weights in a pip package."""

from collections.abc import Callable, Mapping
from typing import Any

from stepcut.errors import OptionError
from stepcut.features.backbones.backbone import (
    Convs,
    Frames,
    Graph,
    Network,
    Place,
    Rows,
    fold,
    precision,
    run_graph,
)
from stepcut.features.backbones.weights import (
    find_weights,
    hash_file,
    package_weights,
    read_weights,
    weights_file,
)
from stepcut.features.spec import FeatureSpec

SIZE = 224
DIM = 1280
EPS = 1e-3

STAGES = [(1, 1), (2, 2), (2, 2), (2, 3), (1, 3), (2, 4), (1, 1)]
"""Stride and number of blocks per stage; kernels and widths come from the weights."""
LAYOUT = {"head": 1 / 8, "cells": 1 / 64}
"""Factors of the parts of a layout row: inverse standard deviations, rounded to powers of two.

Measured inside the knot-tying videos: 7.7 (head) and 65 (cells). Both parts get equal weight.
"""
LAYOUT_DIM = DIM + 9 * 192
_NORMS = {"_expand_conv": "_bn0", "_depthwise_conv": "_bn1", "_project_conv": "_bn2"}


def load(spec: FeatureSpec, place: Place) -> Network:
    if spec.layer not in (None, "layout") or spec.family is not None:
        chosen = f"layer={spec.layer!r}, family={spec.family!r}"
        raise OptionError(
            f"{chosen}: efficientnet-lite0 only supports layer='layout'. Use resnet50.",
            setting="layer",
            value=spec.layer,
            allowed="layout",
        )
    file = weights_file() if spec.weights is None else find_weights(spec.weights)
    digest = hash_file(file)[:16]
    spec = spec if spec.weights is None else spec.opened(digest)
    mark = f"efficientnet-lite0 {digest} {precision(place)}"
    dim, mark = (
        (DIM, mark) if spec.layer is None else (LAYOUT_DIM, f"{mark} {spec.layer} {LAYOUT_DIM}")
    )

    def build() -> Callable[[Frames], Rows]:
        arrays = package_weights() if spec.weights is None else read_weights(file)[0]
        return run_graph(lite0(arrays, spec.layer), SIZE, place)

    return Network(spec, spec.backbone, dim, SIZE, mark, build, place)


def lite0(weights: Mapping[str, Any], layer: str | None = None) -> Graph:
    """Return the network up to the pooled features; `layer="layout"` adds earlier ones."""
    try:
        convs = {
            "stem": fold(weights, "_conv_stem", "_bn0", EPS),
            "head": fold(weights, "_conv_head", "_bn1", EPS),
        }
        for number in range(sum(repeats for _, repeats in STAGES)):
            for part, norm in _NORMS.items():
                block = f"_blocks.{number}"
                if number > 0 or part != "_expand_conv":
                    convs[f"{number}{part}"] = fold(
                        weights, f"{block}.{part}", f"{block}.{norm}", EPS
                    )
    except KeyError as error:
        raise OptionError(
            f"the weights contain no {error}: they do not belong to an EfficientNet-Lite0.",
            setting="weights",
        ) from error
    options = {} if layer is None else {"layer": layer}
    return Graph("efficientnet-lite0", forward, convs, (127 / 255,) * 3, (128 / 255,) * 3, options)


def forward(functions: Any, x: Any, convs: Convs, layer: str | None = None) -> Any:
    """Compute (n, 1280) from normalised frames (n, 3, 224, 224).

    A layout row adds 3 x 3 cells of the last stage but one (192 channels), which keep positions.
    """

    def conv(x: Any, name: str, stride: int = 1, linear: bool = False) -> Any:
        weight, bias = convs[name]
        zeros = max(weight.shape[-1] - stride, 0)
        if zeros % 2:  # TensorFlow's "same" padding: an unpaired zero follows the picture
            x = functions.pad(x, (0, 1, 0, 1))
        groups = weight.shape[0] if weight.shape[1] == 1 else 1
        y = functions.conv2d(x, weight, bias, stride, zeros // 2, groups=groups)
        return y if linear else functions.clamp(y, 0, 6)

    x, number = conv(x, "stem", 2), 0
    cells = x
    for first_stride, repeats in STAGES:
        for repeat in range(repeats):
            before = x
            if number > 0:
                x = conv(x, f"{number}_expand_conv")
            x = conv(x, f"{number}_depthwise_conv", first_stride if repeat == 0 else 1)
            x = conv(x, f"{number}_project_conv", linear=True)
            if repeat > 0:
                x = functions.add(before, x)
            cells = x if number == 14 else cells
            number += 1
    head = functions.mean(conv(x, "head"), (2, 3))
    if layer is None:
        return head
    parts = {"head": head, "cells": functions.flatten(functions.adaptive_avg_pool2d(cells, 3), 1)}
    return functions.cat([functions.mul(parts[name], scale) for name, scale in LAYOUT.items()], 1)
