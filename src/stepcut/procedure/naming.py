"""Names as suggestions: words for what each step looks like, in contrast to the others. None is written by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.features.backbones.lite0 import LAYOUT, weights_file
from stepcut.features.backbones.weights import read_weights
from stepcut.features.contract import Features
from stepcut.features.video import sample_frames
from stepcut.methods.contract import Labels

Namer = Callable[[list[NDArray[np.uint8]]], str | Sequence[str]]
"""From pictures (H, W, 3) of one step to words for it, the best first: a user's own image-text model."""

WORDS, PICTURES = 2, 3
"""How many words are offered for a step, and how many pictures of it a namer is shown."""


def words_of_features(features: Sequence[Features], labels: Mapping[str, Labels], count: int) -> dict[int, list[str]]:
    """Words from the ImageNet classes of the default backbone, whose features these are; none for other features.

    features  of every video
    labels    the step of every row of every video, -1 for none
    count     how many steps there are

    The score of a class is linear in the pooled features, so that the mean score of a step is the score of its mean
    row. The words of a step are those whose probability there is highest above their mean over all steps.
    """
    spec = features[0].spec
    if spec is None or spec.backbone != "efficientnet-lite0" or features[0].rows.ndim != 2:
        return {}
    weight, bias = _classifier()
    if spec.layer is not None:  # a layout row begins with the pooled features, divided
        weight = weight / LAYOUT["head"]
    wide = weight.shape[1]
    total, rows = np.zeros((count, wide)), np.zeros(count)
    for one in features:
        numbers = labels[one.name]
        for step in np.unique(numbers[numbers >= 0]):
            mine = numbers == step
            total[step] += np.asarray(one.rows[mine, :wide], dtype=np.float64).sum(axis=0)
            rows[step] += mine.sum()
    seen = np.flatnonzero(rows)
    if len(seen) < 2:
        return {}
    logits = (total[seen] / rows[seen, None]) @ weight.T + bias
    share = np.exp(logits - logits.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    above = share - share.mean(axis=0)
    return {int(step): [_names()[k] for k in np.argsort(-row)[:WORDS]] for step, row in zip(seen, above, strict=True)}


def words_of_namer(
    namer: Namer, videos: Mapping[str, str | None], labels: Mapping[str, Labels], count: int, rate: float
) -> dict[int, list[str]]:
    """Words from a user's own model, which sees some pictures of each step; words that most steps share are left out.

    namer   from a list of pictures to words
    videos  where each video lies
    labels  the step of every row of every video, -1 for none
    count   how many steps there are
    rate    rows per second
    """
    found: dict[int, list[str]] = {}
    for step in range(count):
        shown = [_picture(path, numbers, step, rate) for name, numbers in labels.items() if (path := videos[name])]
        pictures = [picture for picture in shown if picture is not None][:PICTURES]
        if pictures:
            said = namer(pictures)
            found[step] = [said] if isinstance(said, str) else [str(word) for word in said]
    words = [word for mine in found.values() for word in set(mine)]
    common = {word for word in words if words.count(word) > max(1, len(found) / 2)}
    return {step: [word for word in mine if word not in common][:WORDS] for step, mine in found.items()}


def _picture(path: str, labels: Labels, step: int, rate: float) -> NDArray[np.uint8] | None:
    """The frame in the middle of what a video shows of a step; None where it shows nothing of it."""
    where = np.flatnonzero(labels == step)
    if not len(where) or not Path(path).is_file():
        return None
    return frame_at(path, (float(where[len(where) // 2]) + 0.5) / rate)


def frame_at(path: str | Path, time: float) -> NDArray[np.uint8] | None:
    """The frame (H, W, 3) that the video at `path` shows at a `time`, in seconds; None beyond its end."""
    samples = sample_frames(path, fps=10, start=time, end=time + 0.1)
    frame = next(samples, None)
    samples.close()
    return None if frame is None else frame[1]


@lru_cache(maxsize=1)
def _classifier() -> tuple[NDArray[Any], NDArray[Any]]:
    """The last layer of the default backbone for things, not animals, which are the first 398 classes."""
    arrays = read_weights(weights_file())[0]
    things = slice(-len(_names()), None)
    return np.asarray(arrays["_fc.weight"][things], np.float64), np.asarray(arrays["_fc.bias"][things], np.float64)


@lru_cache(maxsize=1)
def _names() -> list[str]:
    """The last 602 classes of ImageNet, in their order."""
    text = (resources.files("stepcut.procedure") / "imagenet.txt").read_text(encoding="utf-8")
    return [" ".join(name.split()) for name in text.split(",")]
