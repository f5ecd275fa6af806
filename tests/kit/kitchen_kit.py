"""A tiny task: four steps, the middle two in any order, with almost certain probabilities."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from stepcut.checking.calibrate import learn_expectations
from stepcut.checking.expectations import Expectations
from stepcut.methods.method import LeftOut, Reading
from stepcut.order import graph_of_labels
from stepcut.procedure.learned import Config, Learned
from stepcut.procedure.procedure import Procedure
from stepcut.timeline import Timeline

STEPS = ["open jar", "spread jam", "cut bread", "serve"]


def film(order, rng, seconds=20.0):
    parts = []
    for step in order:
        parts += [step] * max(3, round(seconds * float(np.exp(0.1 * rng.normal())))) + [-1] * int(
            rng.integers(0, 3)
        )
    return np.array(parts)


def shares(labels, steps=4):
    known = np.eye(steps)[np.maximum(labels, 0)] * (labels >= 0)[:, None]
    return np.asarray(0.9 * known + (1 - 0.9 * known.sum(axis=1, keepdims=True)) / steps)


class Echo:
    def push(self, row):
        return np.asarray(row, dtype=np.float64)


class Eye:
    """A network that detects which quarter of the picture is bright."""

    name, dim, size, fingerprint = "eye", 4, 16, "eye"

    def extract(self, frames):
        columns = frames.astype(float).mean(axis=(1, 3)).reshape(len(frames), 4, 4).mean(axis=2)
        return columns / columns.sum(axis=1, keepdims=True)


@dataclass
class Plain:
    """A method that uses rows as probabilities; a row of zeros is novel."""

    rate: float = 1.0
    steps_: int = 4
    why_steps_: str = ""
    curve_: None = None
    left_out_: None = None
    orders_by_mean: bool = False

    def read(self, rows):
        labels = np.where(rows.max(axis=1) > 0.5, rows.argmax(axis=1), -1)
        probabilities = (rows + 1e-3) / (rows + 1e-3).sum(axis=1, keepdims=True)
        novelty = 1.0 + 9.0 * (rows.max(axis=1) <= 0)
        return Reading(labels, probabilities, novelty, np.asarray(rows, dtype=np.float64))

    def online(self):
        return Echo()


@dataclass(frozen=True)
class Kitchen:
    labels: dict[str, NDArray[np.int64]]
    expectations: Expectations
    procedure: Procedure


def make_kitchen():
    rng = np.random.default_rng(0)
    orders = [[0, 1, 2, 3], [0, 2, 1, 3]]
    labels = {f"video{n}": film(orders[n % 2], rng) for n in range(24)}
    calm = [rng.uniform(0.8, 1.2, size=len(numbers)) for numbers in labels.values()]
    segmented = list(labels.values()), [shares(n) for n in labels.values()]
    expectations = learn_expectations(
        segmented[0], 1.0, segmented[1], left_out=LeftOut(*segmented, calm)
    )
    learned = Learned(
        steps=list(STEPS),
        timelines={n: Timeline.from_labels(labels[n], 1.0, STEPS, video=n) for n in labels},
        samples={name: len(numbers) for name, numbers in labels.items()},
        videos=dict.fromkeys(labels),
        rate=Fraction(1),
        method=Plain(),
        expectations=expectations,
        config=Config("plain", rate="1", shape=[4]),
    )
    assert graph_of_labels(labels, 1.0).edges == {(0, 1), (0, 2), (1, 3), (2, 3)}
    return Kitchen(labels, expectations, Procedure(learned))
