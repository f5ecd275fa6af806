"""Arithmetic that all methods share: distances, principal axes, rows of length 1, maps as vectors."""

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Real = TypeVar("Real", bound=np.floating[Any])

FUZZIFIER = 1.1
"""The default `m` of fuzzy memberships. The usual 2 makes all centres coincide in many dimensions."""
TINY = 1e-30
"""Squared distances below this count as this: the frame lies on the centre."""
EXACT = 2048
"""Rows of more numbers than this have their principal directions found by iteration."""
SPARE, PASSES = 32, 6
"""Columns that the iteration has beyond those wanted, and how often it goes over the rows."""


def squared_distances(rows: NDArray[Real], centres: NDArray[Real]) -> NDArray[Real]:
    """|x - c|^2 = |x|^2 - 2 x.c + |c|^2 for every row (T, d) and centre (K, d): (T, K), never below 0."""
    squared = (rows**2).sum(axis=1)[:, None] - 2 * rows @ centres.T + (centres**2).sum(axis=1)
    return np.asarray(np.maximum(squared, 0))


def fuzzy_shares(apart: NDArray[Real], m: float) -> NDArray[Real]:
    """Memberships of fuzzy c-means, d^(-1/(m-1)) over their sum, from squared distances d (k, T): columns sum to 1.

    As a softmax of -log d / (m - 1), since with m near 1 the powers overflow.
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
    """The sum over `videos` (T, d) of the mean row of each of `count` steps, (K, d), and how many show it, (K,): every
    video counts once in a step that it shows. `labels` (T,), -1 for none."""
    sums, shown = np.zeros((count, videos[0].shape[1])), np.zeros(count)
    for rows, cut in zip(videos, labels, strict=True):
        for step in np.unique(cut[cut >= 0]):
            sums[step] += rows[cut == step].mean(axis=0)
            shown[step] += 1
    return sums, shown


def scatter(videos: Sequence[Floats]) -> Floats:
    """Mean outer product of all rows of centred videos (T, d): (d, d); of no rows, zeros."""
    total = sum((rows.T @ rows for rows in videos), np.zeros((videos[0].shape[1],) * 2))
    return np.asarray(total / max(sum(len(rows) for rows in videos), 1))


def strongest_directions(videos: Sequence[Floats], count: int) -> tuple[Floats, Floats]:
    """The principal directions of all rows of centred videos (T, d), as columns (d, count), and their variances.

    Up to `EXACT` numbers a row they are those of the scatter matrix, whose eigenvectors take d^3 operations. Beyond, by
    subspace iteration, which takes d (Halko, Martinsson and Tropp 2011): `PASSES` times,  B <- orth( sum X' X B ),
    from a random B of a few columns more than are wanted.
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
    """The `count` strongest directions of a scatter matrix (d, d), as columns (d, count), and their variances."""
    strength, axes = np.linalg.eigh(scattered)  # from weak to strong
    return fix_signs(axes[:, ::-1][:, :count]), strength[::-1][:count]


def fix_signs(axes: Floats) -> Floats:
    """The largest entry of every axis (column) is positive: the same on every machine."""
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)
    return axes * np.where(largest < 0, -1.0, 1.0)


def unit(rows: NDArray[Any]) -> NDArray[np.float32]:
    """Every row scaled to length 1, on its own, as float32; a row of zeros stays."""
    wide = rows.astype(np.float32)
    length = np.sqrt(np.einsum("td,td->t", wide, wide))[:, None]
    wide /= np.where(length > 0, length, 1)
    return wide


def as_vectors(rows: NDArray[Any]) -> NDArray[np.float32]:
    """One vector per frame: maps (T, C, h, w) become their mean over places, (T, C)."""
    vectors = np.asarray(rows, dtype=np.float32)
    return vectors if vectors.ndim == 2 else vectors.mean(axis=tuple(range(2, vectors.ndim)))


def normalised_times(frames: int) -> NDArray[np.float64]:
    """The middle of each frame in [0, 1], where 1 is the end of the video."""
    return (np.arange(frames) + 0.5) / frames


def equal_parts(frames: int, count: int) -> NDArray[np.int64]:
    """A video of so many `frames` in `count` parts of equal length."""
    return np.arange(frames) * count // max(frames, 1)


def one_hot(labels: NDArray[np.integer[Any]], steps: int) -> NDArray[np.float32]:
    """All of a frame's share to its label: (T, steps)."""
    return np.asarray(np.eye(steps, dtype=np.float32)[labels])
