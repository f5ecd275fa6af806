"""Corrections of a procedure, stored separately from the learned files."""
