"""The ECCV 2022 paper and research on it: its method, its data sets, its experiments."""
