"""TW-FINCH and spectral clustering per video, against plain implementations of their formulas."""

import numpy as np
import pytest
from sklearn.cluster import SpectralClustering
from sklearn.metrics import adjusted_rand_score

from stepcut.evaluation import score
from stepcut.methods.baselines import Spectral, TwFinch


def video(seed, steps=4, noise=0.4):
    """Features of segments, and the step of each frame; two segments are of the same step."""
    rng = np.random.default_rng(seed)
    order = [*rng.permutation(steps), int(rng.integers(steps))]
    labels = np.repeat(order, rng.integers(8, 25, len(order)))
    return np.eye(steps, 12)[labels] + noise * rng.normal(size=(len(labels), 12)), labels


def plain_tw_finch(rows, count):
    """Sets of frames that are merged along links to the nearest set: slow and obvious."""
    times = [(n + 1) / len(rows) for n in range(len(rows))]
    groups = [{n} for n in range(len(rows))]

    def distance(a, b):
        x, y = (np.mean([rows[n] for n in group], axis=0) for group in (a, b))
        cosine = x @ y / np.linalg.norm(x) / np.linalg.norm(y)
        return (1 - cosine) * abs(np.mean([times[n] for n in a]) - np.mean([times[n] for n in b]))

    while len(groups) > count:
        apart = [[distance(a, b) if a is not b else np.inf for b in groups] for a in groups]
        links = [(i, int(np.argmin(row))) for i, row in enumerate(apart)]
        joined = join(groups, links)
        if len(joined) < count:
            joined = join(groups, [min(links, key=lambda link: apart[link[0]][link[1]])])
        groups = joined
    labels = np.empty(len(rows), dtype=int)
    for number, group in enumerate(groups):
        labels[list(group)] = number
    return labels


def join(groups, links):
    merged = [set(group) for group in groups]
    for i, j in links:
        a, b = (next(g for g in merged if groups[k] <= g) for k in (i, j))
        if a is not b:
            merged.remove(b)
            a |= b
    return merged


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("count", [2, 4, 7])
def test_tw_finch_is_its_formula(seed, count):
    rows, _ = video(seed)
    labels = TwFinch(steps=count).fit([rows]).labels_[0]
    assert adjusted_rand_score(plain_tw_finch(rows, count), labels) == pytest.approx(1)
    assert len(np.unique(labels)) == count


@pytest.mark.parametrize("seed", range(3))
def test_spectral_is_the_zero_shot_row_of_hiero(seed):
    rows, _ = video(seed)
    directions = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    affinity = np.exp(directions @ directions.T / 0.5)
    theirs = SpectralClustering(4, affinity="precomputed", random_state=0).fit_predict(affinity)
    labels = Spectral(steps=4, window=0).fit([rows]).labels_[0]
    assert adjusted_rand_score(theirs, labels) == pytest.approx(1)


@pytest.mark.parametrize("method", [TwFinch, Spectral])
def test_steps_are_found_in_each_video_and_numbered_in_time(method):
    pairs = [video(seed, noise=0.1) for seed in range(3)]
    labels = method(steps=4).fit([rows for rows, _ in pairs]).labels_
    true = [steps + 1 for _, steps in pairs]
    assert score(labels, true, "segmentation-per-video", clusters=4).mof_all > 85
    for one in labels:
        times = [np.flatnonzero(one == step).mean() for step in np.unique(one)]
        assert times == sorted(times)


def test_spectral_clusters_seconds_not_rows():
    rows, _ = video(0, noise=0.1)
    labels = Spectral(steps=4, rate=10, window=0.5).fit([np.repeat(rows, 5, axis=0)]).labels_[0]
    assert np.array_equal(labels[::5], labels[4::5])
