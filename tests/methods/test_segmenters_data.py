"""Segmentation of real features."""

import numpy as np
import pytest

from stepcut.methods.baselines import Uniform
from stepcut.paper.cnc.procut import ProCut, chain, energy, expand


@pytest.mark.data
def test_real_videos_are_segmented_exactly_and_not_uniformly(shared_data):
    features = shared_data / "captaincook4d" / "features" / "omnivore"
    videos = [np.load(path, allow_pickle=False) for path in sorted(features.glob("12_*.npy"))[:5]]
    videos = [(video - video.mean(axis=0)).astype(np.float16) for video in videos]
    segmenter = ProCut(steps=9).fit(videos)
    labels, every, *_ = zip(*map(segmenter.read, videos), strict=True)
    clock = Uniform(steps=9).fit(videos).labels_
    assert np.mean(np.concatenate(labels) == np.concatenate(clock)) < 0.6
    for shares, video in zip(every, labels, strict=True):
        links = np.stack([np.arange(len(video) - 1), np.arange(1, len(video))], axis=1)
        unary = 1 - shares
        exact = energy(unary, links, segmenter.smoothness, chain(unary, segmenter.smoothness))
        assert exact == pytest.approx(energy(unary, links, segmenter.smoothness, video))
        assert (
            exact
            <= energy(
                unary, links, segmenter.smoothness, expand(unary, links, segmenter.smoothness)
            )
            + 1e-6
        )
