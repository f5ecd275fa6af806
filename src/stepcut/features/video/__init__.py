"""Video files: look at them, sample their frames at true times."""

from __future__ import annotations

from stepcut.features.video.probe import VideoInfo, key_times, probe
from stepcut.features.video.sample import Samples, sample_frames

__all__ = ["Samples", "VideoInfo", "key_times", "probe", "sample_frames"]
