"""Curves of a recording without a video: its channels, or principal components of its features."""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.features.extract import read_source
from stepcut.features.features import Features
from stepcut.features.spec import FeatureSpec
from stepcut.procedure.learned import Digest, has_content
from stepcut.procedure.procedure import Procedure

MOST_CHANNELS = 12
"""Features with at most this many dimensions are shown as channels."""
CURVES = 4
"""Number of principal components otherwise."""
POINTS = 2000
"""Maximum points per curve."""


def read_features(outline: Procedure) -> list[Features]:
    """Read the features that a procedure was learned from, if their source is known."""
    source = outline.config.source
    if not source or any(outline.videos.values()):
        return []
    spec = FeatureSpec.from_json(outline.config.backbone)
    return read_source(source, outline.rate, spec)[0]


def changed_features(outline: Procedure) -> list[str]:
    """Return the names of feature files whose content has changed since learning."""
    return [
        one.name
        for one in read_features(outline)
        if has_content(one, outline.learned.digests.get(one.name, Digest())) is False
    ]


def curves_of(features: list[Features]) -> dict[str, dict[str, Any]]:
    """Names of curves, values from 0 to 1 and seconds between points, by recording."""
    flat = {one.name: one.rows.reshape(len(one.rows), -1).astype(np.float64) for one in features}
    together = np.concatenate(list(flat.values()))
    few = together.shape[1] <= MOST_CHANNELS
    names = [f"channel {number + 1}" for number in range(together.shape[1])]
    if not few:
        centre = together.mean(axis=0)
        _, _, ways = np.linalg.svd(_thin(together - centre, 5000), full_matrices=False)
        flat = {name: (rows - centre) @ ways[:CURVES].T for name, rows in flat.items()}
        together = np.concatenate(list(flat.values()))
        names = [f"component {number + 1}" for number in range(together.shape[1])]
    low, high = np.percentile(together, [1, 99], axis=0)
    span = np.where(high > low, high - low, 1.0)
    rates: dict[str, Fraction] = {one.name: one.rate for one in features}
    return {
        name: {
            "names": names,
            "every": max(1, -(-len(rows) // POINTS)) / float(rates[name]),
            "curves": np.round(np.clip((_thin(rows, POINTS) - low) / span, 0, 1), 3).T.tolist(),
        }
        for name, rows in flat.items()
    }


def _thin(rows: NDArray[np.float64], most: int) -> NDArray[np.float64]:
    """Every n-th row, at most `most` rows."""
    return rows[:: max(1, -(-len(rows) // most))]
