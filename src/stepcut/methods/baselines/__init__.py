"""Baselines of every table: random, uniform, one cluster, k-means, ASOT."""
