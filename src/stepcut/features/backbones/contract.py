"""What a backbone is: a network that turns frames, or clips of frames, into rows of features."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import OptionError
from stepcut.features.spec import FeatureSpec

Frames = NDArray[np.uint8]
Rows = NDArray[Any]
Convs = Mapping[str, tuple[Any, Any]]
"""Weight and bias of every convolution of a network, by name: arrays, or tensors."""
Place = tuple[str, str, int | None]
"""Where a network runs: device, runtime, and CPU threads (None: all cores)."""


@runtime_checkable
class Backbone(Protocol):
    """What stepcut asks of a backbone; any object with these four names and one verb will do.

    It may also say `batch` (frames that it takes at a time, 32 where it does not say), `clip_frames` and `clip_fps`:
    then it is given clips, `clip_frames` frames that lie 1 / `clip_fps` seconds apart, centred on the time of the row.
    """

    name: str
    dim: int
    """Length of a feature vector, or channels of a feature map."""
    size: int
    """Side of the square frames it takes."""
    fingerprint: str
    """Changes whenever its features would: stored features are found again by it."""

    def extract(self, frames: Frames) -> Rows:
        """RGB `frames` (n, size, size, 3), or clips (n, clip_frames, size, size, 3), to (n, dim) or (n, dim, h, w)."""


class Network:
    """A backbone that stepcut runs, built at its first use: a run that finds all features stored builds none.

    `spec` says how its features are made, `build` makes what computes them at a `place`; `name`, `dim`, `size` and
    `fingerprint` are those of `Backbone`.
    """

    load: Callable[..., Backbone]
    """What made it: in another process it is made again by the same call."""

    def __init__(
        self,
        spec: FeatureSpec,
        name: str,
        dim: int,
        size: int,
        fingerprint: str,
        build: Callable[[], Callable[[Frames], Rows]],
        place: Place,
    ) -> None:
        self.spec, self.name, self.dim, self.size, self.fingerprint = spec, name, dim, size, fingerprint
        self.device, self.runtime, self.threads = place
        self.clip_frames, self.clip_fps = spec.clip_frames or 1, spec.clip_fps
        self.batch = max(1, (128 if self.device.startswith("cuda") else 16) // self.clip_frames)
        self._build = build
        self._run: Callable[[Frames], Rows] | None = None

    def __repr__(self) -> str:
        clips = f"clips of {self.clip_frames} " if self.clip_frames > 1 else ""
        where = f"{self.runtime} on {self.device}"
        return f"<Backbone {self.name}, {self.dim} numbers from {clips}{self.size} x {self.size}, {where}>"

    def __reduce__(self) -> tuple[object, ...]:
        return self.load, (self.spec, self.device, self.runtime, self.threads)

    def extract(self, frames: Frames) -> Rows:
        """The features in half precision of `frames`, (n, size, size, 3) RGB, or clips of them."""
        shape = (*((self.clip_frames,) if self.clip_frames > 1 else ()), self.size, self.size, 3)
        if frames.shape[1:] != shape or frames.dtype != np.uint8:
            raise OptionError(
                f"frames of shape {frames.shape} and type {frames.dtype} do not fit {self.name}; give uint8 "
                f"(n, {', '.join(map(str, shape))}), for example from sample_frames(path, size={self.size})."
            )
        run = self._run or self._build()
        self._run = run
        return run(frames)
