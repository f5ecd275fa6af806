"""Guidance: follow a video, camera or stream frame by frame; the current step and the next ones."""
