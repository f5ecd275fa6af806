"""Checking: what a new video misses, repeats, does out of order, and what in it matches no step."""
