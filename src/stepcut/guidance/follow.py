"""Follow a source with a guide: pictures or feature rows in, states out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from stepcut.guidance.guide import Alert, State
from stepcut.guidance.sources import open_shots

if TYPE_CHECKING:
    from fractions import Fraction

    from stepcut.features.backbones import Backbone
    from stepcut.guidance.guide import Guide
    from stepcut.methods.contract import Array


def follow_rows(guide: Guide, rows: Iterable[Array]) -> Iterator[State]:
    """Follow the feature rows of a video; gives a state per row.

    guide   from `proc.guide()`
    rows    (T, d), `guide.rate` of them a second
    """
    for number, row in enumerate(rows):
        yield guide.push(number / guide.rate, row)


def follow_pictures(
    guide: Guide, source: str, rate: Fraction, backbone: Backbone, realtime: bool = False, **waits: float
) -> Iterator[State]:
    """Follow a video file, a camera or an address; gives a state per sample.

    guide      from `proc.guide()`
    source     a video file, `camera`, `camera:1`, or an address such as `rtsp://...`
    rate       samples per second, those of the procedure
    backbone   the network that the procedure was learned with
    realtime   play a file at its own pace and skip what the machine is too slow for
    waits      `patience` and `stall` of a live source, in seconds
    """
    with open_shots(source, rate, backbone.size, realtime, **waits) as shots:
        for shot in shots:
            alerts = [Alert("source", note) for note in shot.notes]
            yield guide.push(shot.time, backbone.extract(shot.picture[None])[0], shot.skipped, alerts)
