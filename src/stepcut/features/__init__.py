"""From video files to features, one row per sampled time. Knows nothing of steps."""
