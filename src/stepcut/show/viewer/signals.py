"""Curves for a recording without a video: its channels, or the main directions in which its features vary."""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.features.contract import Features
from stepcut.features.extract import read_source
from stepcut.features.spec import FeatureSpec
from stepcut.procedure.record import Outline

MOST_CHANNELS = 12
"""Features of at most so many numbers are shown as they are."""
CURVES = 4
"""How many principal components are shown otherwise."""
POINTS = 2000
"""The most points of a curve: a screen has no more."""


def read_features(outline: Outline) -> list[Features]:
    """The features that a procedure was learned from, where it says where they lie."""
    source = outline.config.get("source")
    if not source or any(outline.videos.values()):
        return []
    spec = FeatureSpec.from_json(outline.config["backbone"])
    return read_source(source, outline.rate, spec)[0]


def curves_of(features: list[Features]) -> dict[str, dict[str, Any]]:
    """By name of the recording: the names of its curves, each from 0 to 1, and seconds between two points."""
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
    """Every n-th row, at most so many."""
    return rows[:: max(1, -(-len(rows) // most))]
