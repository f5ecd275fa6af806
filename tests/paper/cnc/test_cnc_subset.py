"""Subset selection: the number of candidate states."""

import numpy as np

from stepcut.paper.cnc.procut import Subset


def test_the_default_is_ten_states_per_step():
    rng = np.random.default_rng(0)
    videos = [rng.normal(size=(60, 4)).astype(np.float32) for _ in range(2)]
    plain, ten, five = (
        Subset(steps=3, states=states).fit(videos).state() for states in (None, 30, 15)
    )
    assert all(np.array_equal(plain[key], ten[key]) for key in plain)
    assert any(not np.array_equal(plain[key], five[key]) for key in plain)
