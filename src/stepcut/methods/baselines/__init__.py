"""The rows that every table has: random, uniform, one cluster, k-means, subset selection, smooth, ASOT."""
