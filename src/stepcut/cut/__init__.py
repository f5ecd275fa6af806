"""Cut: from embeddings to steps. Segmenters that share one contract (see contract.py); choose one by its name."""

from stepcut.cut.asot import Asot
from stepcut.cut.baselines import OneCluster, Random, Uniform
from stepcut.cut.contract import Segmenter
from stepcut.cut.kmeans import KMeans
from stepcut.cut.procut import ProCut
from stepcut.cut.subset import Subset

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
