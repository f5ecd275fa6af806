"""Open a backbone where the work is done: in this process, or in actors of a cluster that hold it for its workers."""

from __future__ import annotations

from functools import partial

from stepcut.features.backbones import load_backbone
from stepcut.features.backbones.contract import Backbone, Frames, Rows
from stepcut.features.spec import FeatureSpec, as_spec
from stepcut.parallel.contract import Engine, Held
from stepcut.rate import Rate


def open_backbone(
    backbone: str | FeatureSpec | Backbone, fps: Rate | None = None, device: str = "auto", engine: Engine | None = None
) -> tuple[Backbone, FeatureSpec]:
    """The backbone, and the spec of the features that it makes.

    backbone  a name, a spec, or a backbone
    fps       rows per second; left out, those of the spec
    device    auto, cpu or cuda
    engine    whose workers will use it
    """
    network: Backbone
    if isinstance(backbone, str | FeatureSpec):
        wanted = as_spec(backbone, fps=fps)
        held = None if engine is None else engine.hold(partial(load_backbone, wanted), device)
        network = load_backbone(wanted, device) if held is None else HeldBackbone(held)
        own = getattr(network, "spec", None)  # a model file says more than was asked for
        return network, own if isinstance(own, FeatureSpec) else wanted
    network = load_backbone(backbone)
    return network, as_spec(network, fps=fps)


class HeldBackbone:
    """A backbone, `held` for several that use it one at a time: threads here, or workers that send frames to an actor.

    Waiting for the rows is the backpressure: a worker holds two batches of frames, whatever the length of the video.
    """

    def __init__(self, held: Held) -> None:
        self.held = held
        self.name, self.dim, self.size, self.fingerprint = held.read("name", "dim", "size", "fingerprint")
        self.batch, self.clip_frames, self.clip_fps, self.spec = held.read("batch", "clip_frames", "clip_fps", "spec")

    def extract(self, frames: Frames) -> Rows:
        """The features of `frames`, by the holder that this process always asks."""
        rows: Rows = self.held.call("extract", frames)
        return rows
