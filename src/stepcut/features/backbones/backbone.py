"""The contract of backbones, which turn frames or clips into rows of features."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import wrong
from stepcut.features.backbones import openvino_runtime as ov
from stepcut.features.spec import FeatureSpec

Frames = NDArray[np.uint8]
Rows = NDArray[Any]


class Place(NamedTuple):
    """Where a network runs."""

    device: str
    runtime: str
    """"openvino" or "torch"."""


@runtime_checkable
class Backbone(Protocol):
    """The contract of a backbone: four attributes and one method.

    Optional attributes: `batch` (frames per call, 32 by default), `clip_frames` and `clip_fps`.
    With these, it gets clips of `clip_frames` frames, 1 / `clip_fps` seconds apart and centred on
    the time of the row.
    """

    name: str
    size: int
    """Side of the square input frames in pixels."""
    fingerprint: str
    """Changes whenever the features change; part of the name of cached features."""

    @property
    def dim(self) -> int:
        """Length of a feature vector, or channels of a feature map."""

    def extract(self, frames: Frames) -> Rows:
        """Compute rows (n, dim) or (n, dim, h, w) from uint8 RGB frames.

        `frames` are (n, size, size, 3), or clips (n, clip_frames, size, size, 3).
        """


@dataclass(eq=False, repr=False)
class Network:
    """A backbone that stepcut runs. It is built at its first use, so cached features need none."""

    spec: FeatureSpec
    name: str
    stated_dim: int
    """0 if no file states it: then it is measured on a black frame."""
    size: int
    fingerprint: str
    build: Callable[[], Callable[[Frames], Rows]]
    """Returns the function that computes rows at the `place`."""
    place: Place

    def __post_init__(self) -> None:
        self.device = self.place.device
        self.clip_frames, self.clip_fps = self.spec.clip_frames or 1, self.spec.clip_fps
        self.batch = max(1, (128 if self.device.startswith("cuda") else 16) // self.clip_frames)
        clip = (self.clip_frames,) if self.clip_frames > 1 else ()
        self.shape = (*clip, self.size, self.size, 3)

    def __repr__(self) -> str:
        frames = " x ".join(map(str, self.shape[:-1]))
        where = f"{self.place.runtime} on {self.device}"
        return f"<Backbone {self.name}, {self.dim} numbers from {frames}, {where}>"

    @cached_property
    def dim(self) -> int:
        measured = self.stated_dim or self.extract(np.zeros((1, *self.shape), np.uint8)).shape[1]
        return int(measured)

    @cached_property
    def _run(self) -> Callable[[Frames], Rows]:
        return self.build()

    def extract(self, frames: Frames) -> Rows:
        """Compute the features of RGB `frames` (n, size, size, 3), or clips, in half precision."""
        if frames.shape[1:] != self.shape or frames.dtype != np.uint8:
            what = f"does not fit {self.name}. Use uint8 (n, {', '.join(map(str, self.shape))})."
            raise wrong("frames", f"{frames.dtype} {frames.shape}", what, self.shape)
        return self._run(frames)


def precision(place: Place) -> str:
    """Return the part of a fingerprint that describes the numerical precision at a `place`."""
    if place.runtime == "openvino":
        return f"openvino-{ov.precision()}"
    return f"torch-{place.device.split(':')[0]}"
