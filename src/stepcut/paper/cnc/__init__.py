"""Correspond and Cut, the paper whole: losses, soft-DTW, embedder, training, fuzzy c-means, graph
cut, ProCut."""
