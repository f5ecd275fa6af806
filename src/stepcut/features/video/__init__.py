"""Video files: probe them and sample their frames at true times."""
