"""The taught model: what labels teach, beside what was found without them, which counts as one labelled video."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stepcut.methods.contract import Array, Labels
from stepcut.methods.default.discriminant import Discriminant, honest
from stepcut.methods.default.found import Found, strongest
from stepcut.methods.default.online import Causal

Floats = NDArray[np.float64]

LABELS, FIRST, COUNT, SURE = "taught.", "first.", "labelled_videos", "surest"
"""How the parts are named in a method's `state`."""


@dataclass(frozen=True)
class Taught:
    """p = (n p_labels + p_found) / (n + 1),  n the number of labelled videos.

    With one label the two have an equal say, so that one video in a kitchen of its own does not undo what all others
    show; with ten, what was found hardly counts.
    """

    labels: Discriminant
    first: Found
    """The steps found without labels, in the numbers of the labels."""
    labelled: float
    surest: float
    """What memberships are multiplied by. They are calibrated by leaving labelled videos out in turn; where there is
    one alone, this is the share of its rows that were found right without it, and 1 otherwise."""

    def predict(self, rows: Floats) -> Labels:
        """The step of every row of one centred video (T, d), -1 for background."""
        return cut_mixture(self.labels.posterior(rows), self.first.memberships(rows), self.labelled)

    def memberships(self, rows: Floats) -> Floats:
        """(T, K), rows sum to 1: how sure it is that each row shows each step."""
        return self.sure(self.labels.posterior(rows), self.first.memberships(rows))

    def sure(self, labels: Floats, found: Floats) -> Floats:
        """Memberships (T, K) from the posterior of what labels teach (T, S) and the memberships found without."""
        return self.temper(mix(honest(labels, self.labels.doubt), found, self.labelled))

    def temper(self, shares: Floats) -> Floats:
        """Memberships (T, K), no surer than `surest`."""
        return np.asarray(self.surest * shares + (1 - self.surest) / shares.shape[1])

    def online(self, mean: Floats, length: float) -> TaughtOnline:
        """Memberships row by row; `mean` (d,) and `length` in rows are those of the videos learned from."""
        return TaughtOnline(self, self.labels.online(mean, length), self.first.online(mean, length))

    def state(self) -> dict[str, Array]:
        """As arrays, for a method's `state`."""
        return {
            **self.labels.state(LABELS),
            **self.first.state(FIRST),
            COUNT: np.array(self.labelled),
            SURE: np.array(self.surest),
        }

    @classmethod
    def restore(cls, state: Mapping[str, Array], background: float) -> Taught | None:
        """The model that a method's `state` holds, None where it was not taught."""
        if COUNT not in state:
            return None
        first = Found.restore(state, background, FIRST)
        return cls(Discriminant.restore(state, LABELS), first, float(state[COUNT]), float(state[SURE]))


@dataclass
class TaughtOnline:
    """The online form: both parts row by row."""

    model: Taught
    labels: Causal
    first: Causal

    def push(self, row: Array) -> Floats:
        """Take the next feature row; give its memberships (K,)."""
        return self.model.sure(self.labels.push(row)[None], self.first.push(row)[None]).ravel()


def mix(labels: Floats, found: Floats, labelled: float) -> Floats:
    """(n p_labels + p_found) / (n + 1) from what labels say and what was found without them, n labelled videos."""
    return np.asarray((labelled * labels + found) / (labelled + 1))


def cut_mixture(labels: Floats, found: Floats, labelled: float) -> Labels:
    """The step of every row from a posterior of K + 1 states (T, K + 1) and memberships found without labels (T, K)."""
    return strongest(mix(labels, np.pad(found, ((0, 0), (0, 1))), labelled), found.shape[1])
