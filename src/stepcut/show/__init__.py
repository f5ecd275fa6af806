"""Show a procedure: plots, clips, and an HTML report."""
