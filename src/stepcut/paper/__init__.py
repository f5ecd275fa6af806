"""The ECCV 2022 paper and research on it: its method, data sets and experiments."""
