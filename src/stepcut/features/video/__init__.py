"""Video files: look at them, sample their frames at true times."""
