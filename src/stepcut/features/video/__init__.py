"""Video files: find them, look at them, sample their frames at true times."""

from __future__ import annotations

from stepcut.features.video.find import find_videos, name_videos
from stepcut.features.video.probe import VideoInfo, key_times, probe
from stepcut.features.video.sample import Samples, sample_frames

__all__ = ["Samples", "VideoInfo", "find_videos", "key_times", "name_videos", "probe", "sample_frames"]
