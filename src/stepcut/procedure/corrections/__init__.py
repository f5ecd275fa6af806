"""Corrections: what a person changed in a procedure, kept beside what was learned and never over
it."""
