"""Guidance: follow somebody frame by frame, from a video, a camera or a stream: which step now,
what comes next."""
