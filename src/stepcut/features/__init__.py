"""Features of videos, one row per sampled time. This package does not know about steps."""
