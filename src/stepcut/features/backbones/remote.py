"""Open a backbone where the work is done: in this process, or in actors of a cluster that hold it for its workers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from stepcut.features.backbones import Backbone, load_backbone
from stepcut.features.spec import FeatureSpec, as_spec
from stepcut.rate import Rate

if TYPE_CHECKING:
    from stepcut.parallel.contract import Engine, Held


def open_backbone(
    backbone: str | FeatureSpec | Backbone, fps: Rate | None = None, device: str = "auto", engine: Engine | None = None
) -> tuple[Backbone, FeatureSpec]:
    """The backbone, and the spec of the features that it makes.

    backbone  a name, a spec, or a backbone
    fps       rows per second; left out, those of the spec
    device    auto, cpu or cuda
    engine    whose workers will use it
    """
    spec = as_spec(backbone, fps=fps)
    if not isinstance(backbone, str | FeatureSpec):
        return load_backbone(backbone), spec
    held = None if engine is None else engine.hold(partial(load_backbone, spec), device)
    return load_backbone(spec, device) if held is None else RemoteBackbone(held), spec


class RemoteBackbone:
    """A backbone that lives in actors: a worker that decodes sends its frames to one of them and waits for the rows.

    Waiting is the backpressure: a worker holds two batches of frames, whatever the length of the video.
    """

    def __init__(self, held: Held) -> None:
        self.held = held
        said = held.read("name", "dim", "size", "fingerprint", "batch", "spec")
        self.name, self.dim, self.size, self.fingerprint, self.batch, self.spec = said

    def extract(self, frames: NDArray[np.uint8]) -> NDArray[Any]:
        """Ask one of the actors, always the same one for a process."""
        rows: NDArray[Any] = self.held.call("extract", frames)
        return rows
