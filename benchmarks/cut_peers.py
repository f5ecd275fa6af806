"""One peer of the cut, run in whatever Python has it: `python cut_peers.py PEER CLOCK INPUT.npz OUTPUT.npy`.

For every line that comes in, it works once and answers with a line of JSON: the seconds it took and the peak memory
of its process. What it found lies in OUTPUT.npy. It needs numpy and the peer, and nothing of stepcut.
"""

import json
import resource
import sys
import time

import numpy as np


def pymaxflow(unary, weight, **_):
    """Alpha-expansion on the chain, taken as a grid of one dimension."""
    import maxflow.fastmin

    steps = unary.shape[1]
    potts = float(weight) * (1 - np.eye(steps))
    return lambda: maxflow.fastmin.aexpansion_grid(unary.astype(np.float64), potts)


def gco(unary, links, weights, **_):
    """Alpha-expansion on any graph, by the code of its authors."""
    import gco as package

    potts = 1 - np.eye(unary.shape[1])
    return lambda: package.cut_general_graph(links, weights, unary.astype(np.float64), potts, algorithm="expansion")


def scikit_fuzzy(x, shares, m, turns, **_):
    """Fuzzy c-means from given memberships; the centres."""
    import skfuzzy

    k = shares.shape[1]
    columns = np.ascontiguousarray(x.T)
    return lambda: skfuzzy.cmeans(columns, k, float(m), error=0, maxiter=int(turns), init=shares.T.copy())[0]


def fuzzy_c_means(x, shares, m, turns, **_):
    """The package of that name; it makes the same memberships from the seed itself."""
    from fcmeans import FCM

    def work():
        model = FCM(n_clusters=shares.shape[1], m=float(m), max_iter=int(turns), error=1e-9, random_state=0)
        model.fit(x)
        return model.centers

    return work


PEERS = {"PyMaxflow": pymaxflow, "gco-wrapper": gco, "scikit-fuzzy": scikit_fuzzy, "fuzzy-c-means": fuzzy_c_means}
MODULES = {"PyMaxflow": "maxflow", "gco-wrapper": "gco", "scikit-fuzzy": "skfuzzy", "fuzzy-c-means": "fcmeans"}


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def main(peer: str, clock: str, given: str, found: str) -> None:
    with np.load(given, allow_pickle=False) as arrays:
        work = PEERS[peer](**dict(arrays))
    for _ in sys.stdin:
        start = CLOCKS[clock]()
        answer = work()
        seconds = CLOCKS[clock]() - start
        np.save(found, np.asarray(answer))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"seconds": seconds, "peak_mb": peak}), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--can":
        __import__(MODULES[sys.argv[2]])
    else:
        main(*sys.argv[1:])
