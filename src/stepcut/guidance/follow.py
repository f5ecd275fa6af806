"""Follow a source with a procedure: pictures or given features in, states out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from stepcut.guidance.guide import Alert, State
from stepcut.guidance.sources import is_live, open_shots

if TYPE_CHECKING:
    from stepcut.features.backbones import Backbone
    from stepcut.procedure.procedure import Procedure

FEATURES = (".npy", ".npz", ".safetensors")


def follow(
    procedure: Procedure,
    source: str,
    callback: Callable[[State], None] | None = None,
    realtime: bool = False,
    backbone: Backbone | None = None,
    **waits: float,
) -> Iterator[State]:
    """Follow a video file, a feature file, a camera or an address with a procedure; gives a state per sample.

    callback    called with every state as well
    realtime    play a file at its own pace and skip what the machine is too slow for
    backbone    the network that sees, if it is at hand already; else the one that the procedure was learned with
    waits       `patience` and `stall` of a live source, in seconds
    """
    guide = procedure.guide()
    guide.callback = callback
    if not is_live(source) and Path(source).suffix.lower() in FEATURES:
        features = procedure.features(source)
        for number, row in enumerate(features.rows):
            yield guide.push(number / float(procedure.rate), row)
        return
    eye = backbone or eye_of(procedure)
    with open_shots(source, procedure.rate, eye.size, realtime, **waits) as shots:
        for shot in shots:
            alerts = [Alert("source", note) for note in shot.notes]
            yield guide.push(shot.time, eye.extract(shot.picture[None])[0], shot.skipped, alerts)


def eye_of(procedure: Procedure) -> Backbone:
    """The network that a procedure was learned with."""
    from stepcut.features.backbones import load_backbone
    from stepcut.features.read import recipe_of

    return load_backbone(**recipe_of(procedure.config.get("backbone", {"name": "vectors"})))
