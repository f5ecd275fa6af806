"""A procedure: learn it, keep it as a folder, correct it, use it."""
