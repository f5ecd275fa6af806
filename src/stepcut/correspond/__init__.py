"""Correspond: learn an embedding in which the same step of different videos lies close together."""
