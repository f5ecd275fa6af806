"""The chain of states of one video: which may follow each other, and forward-backward along it.

States are the K steps and, last, background; any may follow any other. A transcript, or one click
in every occurrence of a step, makes a left-right chain, whose backgrounds may be skipped:

    background - step - background - step - ... - background
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stepcut.errors import AnnotationError
from stepcut.methods.arithmetic import Floats
from stepcut.methods.constraints import OPEN, Constraint
from stepcut.methods.inputs import Labels
from stepcut.parallel import compiled_later
from stepcut.timeline import BACKGROUND, runs

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Chain:
    """Nodes, each one state, with the transitions between them and where each is allowed."""

    states: Numbers  # (N,), of each node
    allowed: NDArray[np.bool_]  # (T, N), or (0, N) where every node is allowed at every row
    # (N,) each: probability to begin there; 1 where the video may end, otherwise 0
    ends: tuple[Floats, Floats]
    edges: Numbers  # (E, 2), of a left-right chain; none where any state may follow any other

    def posterior(self, evidence: Floats, stay: float) -> Floats:
        return self.run(evidence, stay)[0]

    def run(self, evidence: Floats, stay: float) -> tuple[Floats, float]:
        """The posterior (T, S) and the log-likelihood, from log-likelihoods of rows (T, S)."""
        jump = 0.0 if len(self.edges) else (1 - stay) / len(self.states)
        leave = np.bincount(self.edges[:, 0], minlength=len(self.states))
        weight = (1 - stay) / np.maximum(leave, 1)[self.edges[:, 0]]
        rows = np.ascontiguousarray(evidence)
        found, likelihood = _forward_backward(
            rows, self.states, self.allowed, *self.ends, self.edges, weight, stay, jump
        )
        if likelihood == -np.inf:
            raise AnnotationError(
                "the annotations of a video contradict each other: no sequence of steps fits all of "
                "them. Check its clicks and its transcript."
            )
        return np.asarray(found), float(likelihood)


def build_chain(constraint: Constraint | None, rows: int, states: int, stride: int = 1) -> Chain:
    """The chain of a video of `rows` rows, of which every `stride`-th is used."""
    count = -(-rows // stride)
    free = Chain(
        np.arange(states),
        np.ones((0, states), dtype=bool),
        (np.full(states, 1 / states), np.ones(states)),
        np.zeros((0, 2), dtype=np.int64),
    )
    if constraint is None:
        return free
    clicks = [(min(row // stride, count - 1), step) for row, step in constraint.clicks]
    in_order = [step for _, step in clicks if step != BACKGROUND]
    pinned = bool(in_order) and constraint.complete and constraint.transcript is None
    chain = free
    if pinned:
        chain = _in_order(in_order, frozenset(), frozenset(), states)
    elif constraint.transcript is not None:
        script = constraint.transcript
        chain = _in_order(list(script.steps), script.optional, script.anytime, states)
    allowed = np.ones((count, len(chain.states)), dtype=bool)
    if constraint.labels is not None:
        labels = stride_labels(constraint.labels, stride)
        state = np.where(labels == BACKGROUND, states - 1, labels)
        allowed &= (labels == OPEN)[:, None] | (state[:, None] == chain.states)
    place = 0
    for row, step in _apart(clicks, count):
        if step == BACKGROUND:
            allowed[row] &= chain.states == states - 1
        elif pinned:
            node, place = 2 * place + 1, place + 1
            allowed[row] = False
            allowed[row, node] = True
            allowed[:row, node + 1 :] = False
            allowed[row + 1 :, :node] = False
        else:
            allowed[row] &= chain.states == step
    return Chain(chain.states, allowed, chain.ends, chain.edges)


def stride_labels(labels: Labels, stride: int) -> Labels:
    """Every `stride`-th label (T,); one that lasts less still gets the row it lies in."""
    if stride == 1:
        return labels
    thin = labels[::stride].copy()
    for _, first, last in runs(labels).tolist():
        if -(-first // stride) == -(-last // stride) and labels[first] != OPEN:
            thin[min(first // stride, len(thin) - 1)] = labels[first]
    return thin


def _apart(clicks: list[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """Clicks that fall on one row take the next ones."""
    apart: list[tuple[int, int]] = []
    for place, (row, step) in enumerate(clicks):
        first = apart[-1][0] + 1 if apart else 0
        apart.append((min(max(row, first), count - len(clicks) + place), step))
    if apart and apart[0][0] < 0:
        what = (
            f"a video of {count} rows of features has {len(clicks)} clicks, more than it has rows."
        )
        fix = "Remove some, or extract features at a higher rate."
        raise AnnotationError(f"{what} {fix}", value=len(clicks), allowed=count)
    return apart


def _in_order(
    steps: list[int], optional: frozenset[int], anytime: frozenset[int], states: int
) -> Chain:
    """The left-right chain of `steps`; `anytime` steps may stand where background may."""
    gap = [states - 1, *sorted(anytime)]
    node_states = [*gap, *(state for step in steps for state in (step, *gap))]
    begin, end = np.zeros(len(node_states)), np.zeros(len(node_states))
    edges: list[tuple[int, int]] = []
    for place in range(len(steps) + 1):
        first = place * (len(gap) + 1)  # the first node of the gap before the step at this place
        within = range(first, first + len(gap))
        before = [first - 1] if place else []
        further = place
        while further in optional:
            further += 1
        following = [
            len(gap) + later * (len(gap) + 1)
            for later in range(place, min(further + 1, len(steps)))
        ]
        edges += [(a, b) for a in [*within, *before] for b in [*within, *following] if a != b]
        if not place:
            begin[[*within, *following]] = 1 / len([*within, *following])
        if further == len(steps):
            end[[*before, *within]] = 1
    return Chain(
        np.array(node_states),
        np.ones((0, len(node_states)), dtype=bool),
        (begin, end),
        np.array(edges, dtype=np.int64).reshape(-1, 2),
    )


def forward(belief: Floats | None, evidence: NDArray[Any], stay: float) -> Floats:
    """The posterior (S,) from the rows so far alone, where any state may follow any other."""
    states = len(evidence)
    before = np.full(states, 1 / states) if belief is None else stay * belief + (1 - stay) / states
    after = before * np.exp(evidence - evidence.max())
    return np.asarray(after / after.sum())


def soften(posterior: Floats, temperature: float) -> Floats:
    """p^(1 / temperature), rows sum to 1: rows are not independent, so it is overconfident."""
    power = np.maximum(posterior, 1e-300) ** (1 / temperature)
    return np.asarray(power / power.sum(axis=1, keepdims=True))


@compiled_later
def _forward_backward(
    evidence: Floats,
    states: Numbers,
    allowed: NDArray[np.bool_],
    begin: Floats,
    end: Floats,
    edges: Numbers,
    weight: Floats,
    stay: float,
    jump: float,
) -> tuple[Floats, float]:
    """a_t(n) = (stay a_{t-1}(n) + sum over edges m -> n of w a_{t-1}(m) + jump) L_t(n), b_t alike.

    Every a_t sums to 1 over the nodes, so that the jump to any node has one probability.
    """
    rows, nodes = len(evidence), len(states)
    masked = len(allowed) > 0
    likelihood, ahead = np.zeros((rows, nodes)), np.zeros((rows, nodes))
    found, log_likelihood = np.zeros(evidence.shape), 0.0
    for t in range(rows):
        top = -np.inf
        for n in range(nodes):
            if not masked or allowed[t, n]:
                top = max(top, evidence[t, states[n]])
        for n in range(nodes):
            if not masked or allowed[t, n]:
                likelihood[t, n] = np.exp(evidence[t, states[n]] - top)
                if t == rows - 1:
                    likelihood[t, n] *= end[n]
            ahead[t, n] = begin[n] if t == 0 else stay * ahead[t - 1, n] + jump
        if t > 0:
            for k in range(len(edges)):
                ahead[t, edges[k, 1]] += weight[k] * ahead[t - 1, edges[k, 0]]
        total = 0.0
        for n in range(nodes):
            ahead[t, n] *= likelihood[t, n]
            total += ahead[t, n]
        if not total > 0.0:
            return found, -np.inf
        log_likelihood += np.log(total) + top
        for n in range(nodes):
            ahead[t, n] /= total
    back, seen = np.ones(nodes), np.empty(nodes)
    for n in range(nodes):
        found[rows - 1, states[n]] += ahead[rows - 1, n]
    for t in range(rows - 2, -1, -1):
        total = 0.0
        for n in range(nodes):
            seen[n] = back[n] * likelihood[t + 1, n]
            total += seen[n]
        for n in range(nodes):
            back[n] = stay * seen[n] + jump * total
        for k in range(len(edges)):
            back[edges[k, 0]] += weight[k] * seen[edges[k, 1]]
        norm, most = 0.0, 0.0
        for n in range(nodes):
            norm += ahead[t, n] * back[n]
            most = max(most, back[n])
        if not norm > 0.0:
            return found, -np.inf
        for n in range(nodes):
            found[t, states[n]] += ahead[t, n] * back[n] / norm
            back[n] /= most
    return found, log_likelihood
