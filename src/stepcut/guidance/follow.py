"""Follow a source with a guide: a video, a camera, an address or a pipe."""

from collections import deque
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from stepcut.features.backbones.runtime import Backbone
from stepcut.features.extract import clip_length, frames_per_row, make_clips
from stepcut.features.video.live import Picture, Sample, open_samples
from stepcut.guidance.guide import Alert, Guide, State


def follow_pictures(
    guide: Guide,
    source: str,
    rate: Fraction,
    backbone: Backbone,
    realtime: bool = False,
    **waits: Any,
) -> Iterator[State]:
    """Follow a `source` and yield a state per sample; see `open_samples`.

    `rate` and `backbone` are those of the procedure. With a clip model, states are half a clip
    late.
    """
    length, per_row = clip_length(backbone), frames_per_row(backbone, rate)
    waiting: deque[Sample] = deque()  # until their clips are complete
    notes: list[str] = []

    def pictures(samples: Iterator[Sample]) -> Iterator[Picture]:
        for number, sample in enumerate(samples):
            waiting.extend([sample] if number % per_row == 0 else [])
            notes.extend(sample.notes)
            yield sample.picture

    with open_samples(source, rate * per_row, backbone.size, realtime, **waits) as samples:
        for clip in make_clips(pictures(samples), length, per_row):
            sample, alerts = waiting.popleft(), [Alert("source", note) for note in notes]
            notes.clear()
            row = backbone.extract(clip if length == 1 else clip[None])[0]
            yield guide.push(sample.time, row, sample.skipped, alerts)
