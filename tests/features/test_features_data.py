"""Real videos and real weights, where ../shared/data is present."""

from itertools import islice
from pathlib import Path

import av
import numpy as np
import pytest
from resnet_weights import load_on

from stepcut.features.backbones import load_backbone
from stepcut.features.extract import extract
from stepcut.features.find import find_videos
from stepcut.features.video.container import probe
from stepcut.features.video.sample import sample_frames

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
BOTTLE = DATA / "g1_bottle" / "videos"
WEIGHTS = DATA / "weights" / "resnet50_v1_imagenet_conv4c.safetensors"

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not BOTTLE.is_dir(), reason=f"no real videos: {BOTTLE} is absent"),
]


def test_all_real_videos_are_found_and_probed_and_samples_are_every_fifteenth_frame():
    videos = find_videos(BOTTLE)
    assert len(videos) == 12
    for video in videos:
        info = probe(video)
        assert (info.width, info.height, info.rate) == (640, 480, 30)
        assert info.frames == round(info.duration * 30)
    with av.open(str(videos[0])) as container:
        frames = list(islice(container.decode(video=0), 0, None, 15))
    for (_, sample), frame in zip(sample_frames(videos[0], 2), frames, strict=True):
        assert np.abs(sample.astype(int) - frame.to_ndarray(format="rgb24")).mean() < 3


def test_default_features_of_real_videos(tmp_path):
    """A frame is nearest to its neighbours in time, and the engine agrees with plain torch."""
    videos = find_videos(BOTTLE)[:2]
    features, failures = extract(videos, cache=tmp_path, device="cpu")
    assert failures == []
    rows = features[0].rows.astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    alike = rows @ rows.T
    near = np.mean([alike[i, i + 1] for i in range(len(rows) - 1)])
    assert near > alike.mean() + 0.05
    frames = np.stack([picture for _, picture in sample_frames(videos[0], 2, 224)])[:16]
    plain = load_on("torch").extract(frames).astype(np.float32)
    plain /= np.linalg.norm(plain, axis=1, keepdims=True)
    assert (rows[:16] * plain).sum(axis=1).min() > 0.999


def test_the_papers_backbone_with_real_weights(tmp_path):
    backbone = load_backbone("resnet50", device="cpu", weights=WEIGHTS)
    assert "conv4c v1 " in backbone.fingerprint
    features, _ = extract(find_videos(BOTTLE)[4:5], backbone, fps=1, cache=tmp_path)
    rows = features[0].rows
    assert rows.shape[1:] == (1024, 14, 14)
    assert np.isfinite(rows).all()
    assert 0.1 < (rows > 0).mean() < 0.9  # alive, neither silent nor saturated
