"""From video files to features, one row per sampled time. Knows nothing of steps."""

from __future__ import annotations
