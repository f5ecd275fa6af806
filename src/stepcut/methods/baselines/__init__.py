"""Baselines and peers: random, uniform, one cluster, k-means, ASOT, TW-FINCH, spectral clustering."""
