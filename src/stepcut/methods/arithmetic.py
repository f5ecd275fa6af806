"""Arithmetic shared by all methods: distances, principal axes, unit rows, maps as vectors."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Real = TypeVar("Real", bound=np.floating[Any])
Item = TypeVar("Item")
Made = TypeVar("Made")

# `m` of fuzzy memberships; the usual 2 makes all centres coincide in many dimensions
FUZZIFIER = 1.1
TINY = 1e-30  # smallest squared distance: the frame lies on the centre
EXACT = 2048  # up to this dimension, principal directions are exact; beyond, found by iteration
SPARE, PASSES = 32, 6


class Computed(Sequence[Made], Generic[Item, Made]):
    """A sequence of `make(item)`, computed at every access, so that it needs no memory."""

    def __init__(self, make: Callable[[Item], Made], items: Sequence[Item]) -> None:
        self.make, self.items = make, items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place: Any) -> Any:
        return self.make(self.items[place])


def squared_distances(rows: NDArray[Real], centres: NDArray[Real]) -> NDArray[Real]:
    """|x - c|^2 = |x|^2 - 2 x.c + |c|^2 for rows (T, d) and centres (K, d): (T, K), at least 0."""
    squared = (rows**2).sum(axis=1)[:, None] - 2 * rows @ centres.T + (centres**2).sum(axis=1)
    return np.asarray(np.maximum(squared, 0))


def fuzzy_shares(apart: NDArray[Real], m: float) -> NDArray[Real]:
    """Fuzzy c-means: d^(-1/(m-1)) over their sum, from squared distances d (k, T).

    A softmax of -log d / (m - 1): with m near 1, the powers overflow.
    """
    logs = np.log(np.maximum(apart, apart.dtype.type(TINY)))
    logs -= logs.min(axis=0)
    logs *= -1 / (m - 1)
    shares = np.exp(logs, out=logs)
    shares /= shares.sum(axis=0)
    return np.asarray(shares)


def step_sums(
    videos: Sequence[NDArray[Any]], labels: Sequence[NDArray[np.int64]], count: int
) -> tuple[Floats, Floats]:
    """Sum over `videos` (T, d) of the mean row of each step, (K, d), and its videos, (K,)."""
    sums, shown = np.zeros((count, videos[0].shape[1])), np.zeros(count)
    for rows, numbers in zip(videos, labels, strict=True):
        for step in np.unique(numbers[numbers >= 0]):
            sums[step] += rows[numbers == step].mean(axis=0)
            shown[step] += 1
    return sums, shown


def scatter(videos: Iterable[Floats]) -> Floats:
    """Mean outer product of all rows of centred videos (T, d): (d, d); zeros without rows."""
    total, count = np.zeros(()), 0
    for rows in videos:
        total = total + rows.T @ rows
        count += len(rows)
    return np.asarray(total / max(count, 1))


def strongest_directions(videos: Sequence[Floats], count: int) -> tuple[Floats, Floats]:
    """Principal directions of all rows of centred videos (T, d), (d, count), and their variances.

    Beyond `EXACT` dimensions by subspace iteration (Halko, Martinsson and Tropp 2011), linear in
    d: `PASSES` times, B <- orth( sum X' X B ), from a random B with `SPARE` additional columns.
    """
    dim = videos[0].shape[1]
    if dim <= EXACT:
        return principal_axes(scatter(videos), count)
    basis = np.random.default_rng(0).normal(size=(dim, min(count + SPARE, dim)))
    for _ in range(PASSES):
        basis, _ = np.linalg.qr(sum(rows.T @ (rows @ basis) for rows in videos))
    axes, strength = principal_axes(scatter([rows @ basis for rows in videos]), count)
    return fix_signs(basis @ axes), strength


def principal_axes(scattered: Floats, count: int) -> tuple[Floats, Floats]:
    strength, axes = np.linalg.eigh(scattered)  # from weak to strong
    return fix_signs(axes[:, ::-1][:, :count]), strength[::-1][:count]


def fix_signs(axes: Floats) -> Floats:
    """Make the largest entry of every axis (column) positive: the same on every machine."""
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)
    return axes * np.where(largest < 0, -1.0, 1.0)


def unit(rows: NDArray[Any]) -> NDArray[np.float32]:
    wide = rows.astype(np.float32)
    length = np.sqrt(np.einsum("td,td->t", wide, wide))[:, None]
    wide /= np.where(length > 0, length, 1)
    return wide


def as_vectors(rows: NDArray[Any]) -> NDArray[np.float32]:
    """One vector per frame: the spatial mean of maps (T, C, h, w), (T, C)."""
    vectors = np.asarray(rows, dtype=np.float32)
    return vectors if vectors.ndim == 2 else vectors.mean(axis=tuple(range(2, vectors.ndim)))


def best_pairs(gain: NDArray[Any], least: float = 0.0) -> list[tuple[int, int]]:
    """One-to-one (row, column) of the highest total `gain`, without those up to `least`."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(gain, maximize=True)
    pairs = zip(rows.tolist(), columns.tolist(), strict=True)
    return [(row, column) for row, column in pairs if gain[row, column] > least]


def normalised_times(frames: int) -> NDArray[np.float64]:
    """The middle of each frame in [0, 1], where 1 is the end of the video."""
    return (np.arange(frames) + 0.5) / frames


def equal_parts(frames: int, count: int) -> NDArray[np.int64]:
    return np.arange(frames) * count // max(frames, 1)


def one_hot(labels: NDArray[np.integer[Any]], steps: int) -> NDArray[np.float32]:
    """Labels as probabilities, (T, steps); all steps share those of -1, background."""
    rows = np.concatenate([np.eye(steps), np.full((1, steps), 1 / steps)])
    return np.asarray(rows.astype(np.float32)[labels])
