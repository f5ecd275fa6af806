"""The random script of one toy video, and the true task graph."""

from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from stepcut.errors import check_kind, choose, unknown
from stepcut.settings import SEEDS, check_number
from stepcut.timeline import Segment, Timeline

# in a valid order
STEPS = ("cut bread", "spread butter", "add jam", "pour water", "stir tea", "wash dish")

# `(before, after)`, transitively reduced; tea and bread are independent
EDGES = frozenset((*pairwise((*STEPS[:3], STEPS[5])), STEPS[3:5]))
# the transitive closure
BEFORE = frozenset((*combinations((*STEPS[:3], STEPS[5]), 2), STEPS[3:5]))
PASTIMES = ("wander", "look", "phone", "fiddle")  # what the cook does between steps
GRID = 5  # shots start and end on fifths of a second, so on short decimals and on frames
_SECONDS = dict(zip(STEPS, (10, 8, 7, 6, 7, 9), strict=True))


@dataclass(frozen=True)
class Shot:
    start: float
    end: float
    act: str
    seed: int

    @property
    def step(self) -> str | None:
        return self.act if self.act in STEPS else None


@dataclass(frozen=True)
class Flaw:
    """A mistake in a video: `kind` is "skip", "swap" or "repeat"; `times` are its segments."""

    kind: str
    step: str
    times: tuple[tuple[float, float], ...]
    reason: str


@dataclass(frozen=True)
class Script:
    name: str
    seed: tuple[int, int]
    shots: tuple[Shot, ...]
    flaws: tuple[Flaw, ...] = ()

    @property
    def duration(self) -> float:
        return self.shots[-1].end

    @property
    def timeline(self) -> Timeline:
        segments = [Segment(shot.start, shot.end, shot.step) for shot in self.shots if shot.step]
        return Timeline(segments, duration=self.duration, steps=STEPS, video=self.name)


def write_script(
    seed: int = 0,
    video: int = 0,
    *,
    duration: float = 66.0,
    background: float = 0.2,
    skip: float = 0.1,
    repeat: float = 0.15,
    shuffle: float = 0.7,
    flaw: str | None = None,
) -> Script:
    """Draw what happens in one video of the kitchen with this `seed`.

    `duration` counts the seconds of a video without a mistake, varied by up to 15 %; `background`
    is the share of the time without a step. `skip` and `repeat` are the probabilities that a step
    is skipped, or done again later. `shuffle` varies the order, from 0 (always the same) to 1 (any
    valid order). `flaw` is one mistake: "skip:add jam", "swap:add jam" (done before its
    preconditions) or "repeat:add jam" (done three times). Then no other step is skipped or
    repeated.
    """
    check_number("seed", seed, 0, SEEDS, whole=True)
    check_number("video", video, 0, whole=True)
    check_number("duration", duration, 4, 3600)
    check_number("background", background, 0, 0.9)
    for name, share in {"skip": skip, "repeat": repeat, "shuffle": shuffle}.items():
        check_number(name, share, 0, 1)
    kind, wrong = _parse(flaw)
    rng = np.random.default_rng([seed, video, 1])
    sequence = _order(_choose(0.0 if kind else skip, rng), shuffle, rng)
    done = _spoil(sequence, kind, wrong) if kind else _repeat(sequence, repeat, rng)
    length = duration * rng.uniform(0.85, 1.15)
    if kind:  # a mistake changes the duration of the video, not of the other steps
        length *= sum(_SECONDS[step] for step in done) / sum(_SECONDS[step] for step in sequence)
    shots = _fill(done, length, background, rng)
    script = Script(f"kitchen-{seed}-{video:02d}", (seed, video), shots)
    flaws = (_describe(script.timeline, kind, wrong),) if kind else ()
    return replace(script, flaws=flaws)


DEFAULTS: dict[str, Any] = dict(write_script.__kwdefaults__ or {})  # settings of a plan


def _choose(skip: float, rng: np.random.Generator) -> list[str]:
    kept = {step for step in STEPS if rng.random() >= skip}
    while len(kept) < 3:  # the shortest video
        kept.add(STEPS[int(rng.integers(len(STEPS)))])
    return [step for step in STEPS if step in kept]


def _order(steps: list[str], shuffle: float, rng: np.random.Generator) -> list[str]:
    """A linear extension of the task graph; with probability `shuffle` the next step is random."""
    left, done = list(steps), []
    while left:
        ready = [b for b in left if not any((a, b) in BEFORE for a in left)]
        pick = ready[int(rng.integers(len(ready)))] if rng.random() < shuffle else ready[0]
        done.append(pick)
        left.remove(pick)
    return done


def _repeat(sequence: list[str], repeat: float, rng: np.random.Generator) -> list[str]:
    longer = list(sequence)
    for step in sequence:
        later = range(longer.index(step) + 2, len(longer) + 1)
        spots = [k for k in later if step not in longer[k - 1 : k + 1]]
        if rng.random() < repeat and spots:
            longer.insert(spots[int(rng.integers(len(spots)))], step)
    return longer


def _parse(flaw: str | None) -> tuple[str, str]:
    if flaw is None:
        return "", ""
    check_kind("flaw", flaw, str, "a mistake and a step, such as skip:add jam")
    kind, _, step = flaw.partition(":")
    choose("flaw", kind, {"skip": 0, "swap": 0, "repeat": 0})
    allowed = [b for b in STEPS if kind != "swap" or any(b == after for _, after in EDGES)]
    if step not in allowed:
        raise unknown(f"flaw={flaw!r}: step", step, allowed)
    return kind, step


def _spoil(sequence: list[str], kind: str, step: str) -> list[str]:
    rest = [other for other in sequence if other != step]
    needs = [other for other in rest if (other, step) in BEFORE]
    if kind == "skip":
        return rest
    if kind == "swap":
        first = min(rest.index(need) for need in needs)
        return [*rest[:first], step, *rest[first:]]
    others = [other for other in rest if other not in needs]
    return [*needs, step, others[0], step, others[1], step, *others[2:]]


def _describe(timeline: Timeline, kind: str, step: str) -> Flaw:
    times = tuple((s.start, s.end) for s in timeline if s.step == step)
    needs = " and ".join(repr(a) for a, b in sorted(EDGES) if b == step)
    repeated = f"done {len(times)} times"
    shown = {"skip": "missing", "swap": f"done before {needs}", "repeat": repeated}
    return Flaw(kind, step, times, f"{step!r} is {shown[kind]}")


def _fill(
    sequence: list[str], duration: float, background: float, rng: np.random.Generator
) -> tuple[Shot, ...]:
    acts: list[str] = []
    for step in [*sequence, ""]:
        if background > 0 and (not acts or step == "" or rng.random() < 0.45):
            acts.append(PASTIMES[int(rng.integers(len(PASTIMES)))])
        if step:
            acts.append(step)
    usual = np.array([_SECONDS.get(act, 6) for act in acts])
    lengths = usual * np.exp(0.3 * rng.standard_normal(len(acts)))
    idle = np.array([act in PASTIMES for act in acts])
    lengths[~idle] *= duration * (1 - background) / lengths[~idle].sum()
    if idle.any():
        lengths[idle] *= duration * background / lengths[idle].sum()
    bounds = np.round(np.cumsum([0.0, *lengths]) * GRID).astype(int)
    seeds = rng.integers(2**31, size=len(acts)).tolist()
    shots = zip(pairwise(bounds.tolist()), acts, seeds, strict=True)
    return tuple(Shot(a / GRID, b / GRID, act, seed) for (a, b), act, seed in shots if b > a)
