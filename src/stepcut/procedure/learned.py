"""One learned state of a procedure: what `fit` makes and a revision contains, and its videos."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from stepcut.annotations import Annotations
from stepcut.checking.expectations import Expectations
from stepcut.errors import OptionError, StepcutError
from stepcut.features.features import Features, content_hash
from stepcut.features.spec import VECTORS
from stepcut.files import AnyPath, cache_dir, is_address
from stepcut.methods.hierarchy import Hierarchy
from stepcut.methods.method import Method
from stepcut.methods.quality import Quality
from stepcut.progress import warn_once
from stepcut.settings import as_rate
from stepcut.timeline import Segment, Timeline, clip_segments

LABELS = "labels"


class Config(msgspec.Struct, frozen=True, omit_defaults=True):
    method: str
    rate: str
    settings: dict[str, Any] = {}
    seed: int = 0
    backbone: dict[str, Any] = msgspec.field(default_factory=lambda: {"name": VECTORS})
    shape: list[Annotated[int, msgspec.Meta(ge=1, le=1 << 24)]] = []
    false_alarms: float = 0.0
    fingerprint: str = ""
    title: str = ""
    source: list[str] | None = None
    skipped: dict[str, str] = {}
    versions: dict[str, str] = {}
    suggestions: dict[str, list[str]] = {}
    quality: Quality = Quality()
    hierarchy: dict[str, Any] | None = None


class Digest(msgspec.Struct, frozen=True):
    rows: str | None = None
    video: str | None = None
    """Features may differ slightly between machines."""


@dataclass(frozen=True, kw_only=True)
class Learned:
    steps: list[str]
    timelines: dict[str, Timeline]
    samples: dict[str, int]
    videos: dict[str, str | None]
    rate: Fraction
    config: Config
    annotations: Annotations = field(default_factory=Annotations)
    digests: dict[str, Digest] = field(default_factory=dict)
    """By video; older versions stored none."""
    method: Method | None = None
    expectations: Expectations | None = None
    """With every training video counted as normal."""


# ---------- procedure.json


class SavedVideo(msgspec.Struct, omit_defaults=True):
    path: str | None
    duration: float | None
    samples: Annotated[int, msgspec.Meta(ge=1)]
    segments: list[Segment]
    digest: Digest = Digest()


class Saved(msgspec.Struct, omit_defaults=True):
    steps: list[str]
    videos: dict[str, SavedVideo]
    annotations: dict[str, Any] = {}


def read_learned(config: Config, saved: Saved) -> Learned:
    shown = [config.title, config.suggestions, config.quality, config.hierarchy]
    msgspec.json.encode(shown)  # raises for text that is not Unicode
    if not isinstance(config.backbone.get("name"), str):
        raise ValueError("config.json lacks the name of the backbone")
    if config.hierarchy is not None:
        Hierarchy.from_json(config.hierarchy, saved.steps)
    if not saved.steps or len(set(saved.steps)) != len(saved.steps) or not saved.videos:
        raise ValueError("procedure.json lacks steps or videos")
    timelines = {}
    for name, one in saved.videos.items():
        end = max((s.end for s in one.segments), default=0.0)
        end = end if one.duration is None else one.duration
        inside = clip_segments(one.segments, end, f"the timeline of {name}")
        timelines[name] = Timeline(inside, duration=one.duration, steps=saved.steps, video=name)
        if not math.isfinite(timelines[name].end) or timelines[name].overlapping():
            raise ValueError(f"the timeline of {name}")
    annotations = Annotations.from_json(saved.annotations)
    steps = {step for timeline in timelines.values() for step in timeline.steps}
    if not annotations.videos.keys() <= timelines.keys() or not {*annotations.steps} <= steps:
        raise ValueError("the annotations do not match the videos and steps")
    return Learned(
        steps=saved.steps,
        timelines=timelines,
        samples={name: one.samples for name, one in saved.videos.items()},
        videos={name: one.path for name, one in saved.videos.items()},
        rate=as_rate(config.rate, "rate"),
        config=config,
        annotations=annotations,
        digests={name: one.digest for name, one in saved.videos.items() if one.digest != Digest()},
    )


def saved_of(learned: Learned) -> Any:
    videos = {
        name: SavedVideo(
            learned.videos[name],
            timeline.duration,
            learned.samples[name],
            list(timeline),
            learned.digests.get(name, Digest()),
        )
        for name, timeline in learned.timelines.items()
    }
    return msgspec.to_builtins(Saved(learned.steps, videos, learned.annotations.to_json()))


# ---------- the content of videos


def rows_digest(rows: NDArray[Any]) -> str:
    digest = hashlib.blake2b(f"{rows.dtype} {rows.shape}".encode(), digest_size=16)
    for first in range(0, len(rows), 1024):  # rows may be memory-mapped
        digest.update(np.ascontiguousarray(rows[first : first + 1024]).data)
    return digest.hexdigest()


def video_digest(path: AnyPath | None) -> str | None:
    if path is None or is_address(str(path)) or not Path(str(path)).is_file():
        return None
    try:
        return content_hash(path, cache_dir())
    except (OSError, StepcutError):
        return None


def digest_of(features: Features) -> Digest:
    return Digest(rows_digest(features.rows), video_digest(features.path))


def find_copies(digests: Mapping[str, Digest]) -> set[str]:
    first: dict[str, str] = {}
    copies = {
        name: first[one.rows]
        for name, one in digests.items()
        if one.rows is not None and first.setdefault(one.rows, name) != name
    }
    if copies:
        copy, original = next(iter(copies.items()))
        warn_once(
            f"{len(copies)} of {len(digests)} videos are copies, such as {copy} of {original}. "
            "A check counts each recording once."
        )
    return {*copies}


def has_content(features: Features, learned: Digest) -> bool | None:
    """None if the digests are unknown."""
    if learned.rows is not None and learned.rows == rows_digest(features.rows):
        return True
    now = None if learned.video is None else video_digest(features.path)
    if now is not None:
        return now == learned.video
    return None if learned.rows is None else False


def find_learned(features: Sequence[Features], learned: Learned) -> list[Features]:
    found = {one.name: one for one in features}
    lost = [name for name in learned.samples if name not in found]
    if not lost:
        return [found[name] for name in learned.samples]
    digest = learned.digests.get(lost[0], Digest())
    others = [one for one in features if one.name not in learned.samples]
    same = [one.name for one in others if has_content(one, digest)]
    hint = f" {same[0]} has the content of {lost[0]}: rename it to {lost[0]}." if same else ""
    raise OptionError(
        f"the features of {', '.join(lost[:5])} are missing.{hint} Pass the training videos or "
        "feature files as source=... (--source).",
        setting="source",
        video=lost[0],
    )


def check_unchanged(features: Sequence[Features], learned: Learned) -> None:
    changed = [
        one.name
        for one in features
        if len(one.rows) != learned.samples[one.name]
        or has_content(one, learned.digests.get(one.name, Digest())) is False
    ]
    if changed:
        raise OptionError(
            f"{', '.join(changed[:5])}: the content has changed since learning, so the labels "
            "belong to another recording. Restore the earlier file, pass its path as "
            "source=... (--source), or learn a new procedure: stepcut learn",
            video=changed[0],
        )
