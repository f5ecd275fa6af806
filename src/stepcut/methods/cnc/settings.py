"""Settings of the paper's method by group, as one writes them: cut.smoothness, train.iterations, loss.weight."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from stepcut.errors import OptionError, unknown
from stepcut.methods.segmenters import SEGMENTERS


def group_settings(settings: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The settings of the embedder, and those of the segmenter, from `{"group.name": value}`.

    `cut.` are settings of segmenters, `loss.` of the loss, `train.` (or no group) all others of the embedder. An
    unknown one is answered with the nearest name.
    """
    from stepcut.methods.cnc.embedder import LOSS_SETTINGS, Embedder

    trained = [each.name for each in fields(Embedder) if each.name not in ("loss", "rate", "seed", "backbone")]
    cuts = {name for kind in SEGMENTERS.values() for name in inspect.signature(kind).parameters}
    names = [
        *(f"cut.{name}" for name in sorted(cuts - {"steps", "rate", "seed"})),
        *(f"{'loss' if name in LOSS_SETTINGS else 'train'}.{name}" for name in trained),
    ]
    train: dict[str, Any] = {}
    cut: dict[str, Any] = {}
    for key, value in settings.items():
        group, dot, name = key.rpartition(".")
        if name == "steps" and group in ("", "train"):
            raise OptionError(f"{key}={value!r}: training has iterations; write train.iterations={value!r}.")
        if (key not in names) if dot else (name not in trained):
            raise OptionError(unknown("setting", key, names if dot else trained))
        (cut if group == "cut" else train)[name] = value
    return train, cut
