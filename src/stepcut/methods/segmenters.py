"""Segmenters by name: from embeddings to steps. All keep the contract of `segmenter.py`."""

from stepcut.methods.baselines.asot import Asot
from stepcut.methods.baselines.kmeans import KMeans, Subset
from stepcut.methods.baselines.trivial import OneCluster, Random, Uniform
from stepcut.methods.cnc.procut import ProCut
from stepcut.methods.segmenter import Segmenter

SEGMENTERS: dict[str, type[Segmenter]] = {
    "procut": ProCut,
    "kmeans": KMeans,
    "subset": Subset,
    "asot": Asot,
    "random": Random,
    "uniform": Uniform,
    "one-cluster": OneCluster,
}

__all__ = ["SEGMENTERS", "Asot", "KMeans", "OneCluster", "ProCut", "Random", "Segmenter", "Subset", "Uniform"]
