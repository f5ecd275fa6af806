"""Learn the model from all videos together, with the annotations of some of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from stepcut.methods.arithmetic import Floats
from stepcut.methods.constraints import Constraint
from stepcut.methods.inputs import MANY, Labels
from stepcut.methods.stepcut.chain import Chain, build_chain
from stepcut.methods.stepcut.em import EM, Emission, Joined
from stepcut.methods.stepcut.model import Model, motion
from stepcut.methods.stepcut.restarts import pair_steps
from stepcut.methods.stepcut.slow_features import PER_STEP, smooth
from stepcut.timeline import BACKGROUND, runs

FINE = PER_STEP**2  # a step lasts this many widths of the finer of two Gaussians
MOTION = 1.0  # seconds before and after, between which motion is measured
PRIOR = 3.0  # of the time density, against one independent observation
ITERATIONS = 10  # of EM
# starts of the translation of discovered steps into those of transcripts and clicks
TRANSLATIONS = 10
TEMPERATURE = 8.0  # if no labelled video can be held out to measure it


@dataclass(frozen=True)
class Learned:
    """The outcome of EM; the last four are as in `Model`."""

    em: EM
    emission: Emission
    sigmas: Floats
    lag: int
    stay: float
    observation: float

    def model(self, directions: Floats, emission: Emission | None = None) -> Model:
        """The model of features (d,) whose principal `directions` (d, p) it was learned on."""
        emission = emission or self.emission
        parts = np.split(np.asarray(emission.weights, dtype=np.float64), 3)
        return Model(
            np.stack([directions @ part for part in parts]),
            np.asarray(emission.bias, dtype=np.float64),
            emission.timing,
            self.sigmas,
            float(self.lag),
            self.stay,
            self.observation,
            TEMPERATURE,
        )

    def without(self, places: Sequence[int], iterations: int) -> Emission:
        """Learned without the videos at these `places`, after so many more iterations."""
        gone = np.isin(self.em.videos.video, places)
        if not iterations:
            return self.em.maximise(gone)
        kept = [place for place in range(len(self.em.chains)) if place not in places]
        rows = self.em.videos.split(self.em.videos.rows)
        return replace(
            self.em,
            videos=Joined.of([rows[place] for place in kept]),
            chains=[self.em.chains[place] for place in kept],
            posterior=self.em.posterior[~gone],
            trust=self.em.trust[~gone],
        ).run(iterations)


def learn_model(
    videos: Sequence[Floats],
    rate: float,
    start: Sequence[Labels],
    count: int,
    constraints: Sequence[Constraint | None],
    lasts: float,
    background: float | None,
    prior: float,
    numbered: bool = False,
) -> Learned:
    """EM over all centred `videos` (T, p), from the steps (T,) of each at the `start`.

    A step lasts `lasts` rows where annotations do not show it; `numbered`: `start` has the numbers
    of the constraints already.
    """
    states = count + 1
    median = float(np.median([len(rows) for rows in videos]))
    usual = max(1.0, median / count)
    chains = {
        place: build_chain(one, len(videos[place]), states)
        for place, one in enumerate(constraints)
        if one is not None
    }
    alone = {  # what follows from the constraints without features
        place: chain.posterior(np.zeros((len(videos[place]), states)), _usual_stay(usual))
        for place, chain in chains.items()
    }
    begin = _begin(start, chains, alone, states, usual, numbered)
    determined = [
        _determined(alone[place]) if place in alone else np.zeros(len(rows))
        for place, rows in enumerate(videos)
    ]
    undetermined = sum(float((1 - one).sum()) for one in determined)
    # All open rows together count as one video: as much as one annotated video, and little beside ten.
    trust = 1 / max(1.0, undetermined / median)
    counts = [float(one.mean() + (1 - one.mean()) * trust) for one in determined]
    stay = 1 - min(0.5, 1 / lasts)
    if chains:
        lasts, stay = _durations(begin, counts, lasts, usual)
    share = np.full(states, median / states)
    for weight, one in zip(counts, begin, strict=True):
        share += weight * one.sum(axis=0)
    share /= share.sum()
    if background is not None:
        share = np.append(share[:-1] * (1 - background) / share[:-1].sum(), background)
    sigmas, lag = np.array([lasts / FINE, lasts / PER_STEP]), max(1, round(MOTION * rate))
    fine, coarse = sigmas.tolist()
    stride = max(1, int(fine / 2))
    observation = max(fine, correlated_rows([videos[place] for place in spread(videos)], lasts))

    def view(rows: Floats) -> Any:
        """Two scales, and motion at the finer one; (T / stride, 3 p)."""
        slow = smooth(rows, fine)
        parts = [slow, smooth(rows, coarse), motion(slow, lag)]
        return np.column_stack(parts)[::stride].astype(np.float32)

    em = EM(
        Joined.of([view(rows) for rows in videos]),
        [
            build_chain(one, len(rows), states, stride)
            for one, rows in zip(constraints, videos, strict=True)
        ],
        np.concatenate([one[::stride] for one in begin]),
        np.concatenate([(one + (1 - one) * trust)[::stride] for one in determined]),
        stay=max(0.5, 1 - stride * (1 - stay)),
        observation=observation / stride,
        shortest=coarse / stride,
        share=share,
        prior=prior * PRIOR,
        origin=0.0 if background == 0 else 1.0,
    )
    # From the current labels, steps without corrections stay where they are until whole videos are annotated.
    whole = sum(float(one.mean()) > 0.9 for one in determined)
    iterations = min(ITERATIONS, whole**2) if numbered else ITERATIONS
    return Learned(em, em.run(iterations), sigmas, lag, stay, observation)


def spread(videos: Sequence[Floats]) -> list[int]:
    """The places of at most `MANY` videos, evenly spread over their lengths."""
    by_length = sorted(range(len(videos)), key=lambda place: len(videos[place]))
    count = min(len(videos), MANY)
    return sorted(by_length[round(place)] for place in np.linspace(0, len(videos) - 1, count))


def precision(videos: Sequence[Floats]) -> Any:
    # Single precision for many videos halves the memory of arrays of all rows
    return np.float32 if len(videos) > MANY else np.float64


def _usual_stay(usual: float) -> float:
    return 1 - 1 / max(usual, 2.0)


def _durations(
    begin: Sequence[Floats], counts: Sequence[float], lasts: float, usual: float
) -> tuple[float, float]:
    """Rows that a step lasts, and the probability that a state continues in the next row.

    From the likeliest states of all videos, each of which counts so much, and one step of usual
    length.
    """
    time, steps, rows, segments = lasts, 1.0, usual, 1.0
    for weight, one in zip(counts, begin, strict=True):
        states, first, last = runs(one.argmax(axis=1)).T
        done = states < one.shape[1] - 1
        time += weight * float((last - first)[done].sum())
        steps += weight * float(done.sum())
        rows += weight * len(one)
        segments += weight * len(states)
    return time / steps, 1 - min(0.5, segments / rows)


def _determined(posterior: Floats) -> Floats:
    """(T,): 1 where constraints alone leave one state, 0 where they leave all: 1 - H(p) / log S."""
    entropy = -(posterior * np.log(np.maximum(posterior, 1e-300))).sum(axis=1)
    return np.asarray(1 - entropy / np.log(posterior.shape[1]))


def correlated_rows(videos: Sequence[Floats], lag: float) -> float:
    """Rows for which features stay correlated: the structure function is half its value at `lag`.

    D(l) = mean |x_(t+l) - x_t|^2, linear between whole l. Rows repeated n times give n times as
    many, so the model does not depend on the rate of the features.
    """
    far = max(1, round(lag))

    def structure(apart: int) -> float:
        count = sum(max(0, len(rows) - apart) for rows in videos)
        pairs = (rows[apart:] - rows[:-apart] for rows in videos if len(rows) > apart)
        return sum(float((one**2).sum()) for one in pairs) / count if count else 0.0

    half, before = structure(far) / 2, 0.0
    for apart in range(1, far + 1):
        now = structure(apart)
        if now >= half:
            return apart - 1 + (half - before) / (now - before) if now > before else 1.0
        before = now
    return float(far)


def _begin(
    start: Sequence[Labels],
    chains: dict[int, Chain],
    alone: dict[int, Floats],
    states: int,
    usual: float,
    numbered: bool,
) -> list[Floats]:
    """The discovered steps, in the numbers of the annotations, and within the constraints."""
    symbols = [np.where(labels == BACKGROUND, states - 1, labels) for labels in start]
    begin = [np.eye(states)[one] for one in symbols]
    if not chains:
        return begin
    within = alone
    if any(len(chain.edges) for chain in chains.values()):
        within = _translate({place: symbols[place] for place in chains}, chains, alone, usual)
    if not numbered:
        table = _dictionary(within, begin, usual)
        begin = [one @ table for one in begin]
    for place, chain in chains.items():
        if len(chain.edges):
            begin[place] = within[place]
        else:
            evidence = np.log(0.5 * begin[place] + 0.5 / states)
            begin[place] = chain.posterior(evidence, _usual_stay(usual))
    return begin


def _dictionary(within: dict[int, Floats], begin: Sequence[Floats], usual: float) -> Floats:
    """p(annotated state | discovered state), (S, S): how often they meet in the annotated videos.

    Each step is also paired with one discovered step, by F1, as if they met for one more width.
    """
    states = begin[0].shape[1]
    both, annotated, found = np.zeros((states, states)), np.zeros(states), np.zeros(states)
    for place, posterior in within.items():
        rows = _determined(posterior)[:, None]  # open rows do not show which steps meet
        both += begin[place].T @ (rows * posterior)
        annotated += (rows * posterior).sum(axis=0)
        found += (rows * begin[place]).sum(axis=0)
    f1 = 2 * both / np.maximum(found[:, None] + annotated, 1e-9)
    both[pair_steps(f1[:-1, :-1] + 1e-9 * np.eye(states - 1))] += usual / PER_STEP
    both[-1, -1] += usual / PER_STEP
    return np.asarray(both / both.sum(axis=1, keepdims=True))


def _translate(
    symbols: dict[int, Labels], chains: dict[int, Chain], alone: dict[int, Floats], usual: float
) -> dict[int, Floats]:
    """The posterior (T, S) of each annotated video by a hidden Markov model of discovered steps.

    A transcript gives the order of the steps, the discovered steps show where something changes:
    together they determine which is which. Baum-Welch from several starts; the likeliest is kept.
    """
    states = next(iter(alone.values())).shape[1]
    stay, block = _usual_stay(usual), max(1, int(usual / PER_STEP))
    observation = max(1.0, usual / PER_STEP)
    rng = np.random.default_rng(0)

    def shaken(place: int) -> Floats:  # by random evidence, constant for a quarter of a step
        rows = len(symbols[place])
        noise = 0.1 * rng.normal(size=(-(-rows // block), states))
        return chains[place].posterior(np.repeat(noise, block, axis=0)[:rows], stay)

    best: tuple[float, dict[int, Floats]] = (-np.inf, alone)
    for trial in range(TRANSLATIONS):
        posterior = {place: shaken(place) if trial else alone[place] for place in chains}
        for _ in range(2 * ITERATIONS):
            table = np.ones((states, states))
            for place, one in posterior.items():
                table += one.T @ np.eye(states)[symbols[place]] * states / len(one)
            table /= table.sum(axis=1, keepdims=True)
            gain = np.log(table / table.mean(axis=0)) / observation
            ran = {
                place: chain.run(gain[:, symbols[place]].T, stay) for place, chain in chains.items()
            }
            posterior = {place: one for place, (one, _) in ran.items()}
        likelihood = sum(one for _, one in ran.values())
        if likelihood > best[0]:
            best = (likelihood, posterior)
    return best[1]
