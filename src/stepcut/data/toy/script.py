"""What happens when: the script of one toy video, drawn from its seed, with the true task graph."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from stepcut.errors import OptionError, choose, unknown
from stepcut.timeline import Segment, Timeline

STEPS = ("cut bread", "spread butter", "add jam", "pour water", "stir tea", "wash dish")
"""The steps of the task, in the order in which a careful cook does them."""

EDGES = frozenset(
    {
        ("cut bread", "spread butter"),
        ("spread butter", "add jam"),
        ("add jam", "wash dish"),
        ("pour water", "stir tea"),
    }
)
"""The true task graph: `(before, after)`, transitively reduced. The tea and the bread do not wait for each other."""

PASTIMES = ("wander", "look", "phone", "fiddle")
"""What a cook does when none of the steps is going on."""

GRID = 5
"""Shots begin and end on fifths of a second, so that times are short decimals and fall on frames."""

_SECONDS = {"cut bread": 10, "spread butter": 8, "add jam": 7, "pour water": 6, "stir tea": 7, "wash dish": 9}


@dataclass(frozen=True)
class Shot:
    """One stretch of a video: a step, or a pastime while nothing of the task is done."""

    start: float
    end: float
    act: str
    seed: int

    @property
    def step(self) -> str | None:
        """The step that is done, if one is."""
        return self.act if self.act in STEPS else None


@dataclass(frozen=True)
class Flaw:
    """What is wrong in a video: `kind` is "skip", "swap" or "repeat"; `times` are the segments it shows in."""

    kind: str
    step: str
    times: tuple[tuple[float, float], ...]
    reason: str


@dataclass(frozen=True)
class Script:
    """The shots of one video from its first second to its last, and the seed of its looks."""

    name: str
    seed: tuple[int, int]
    shots: tuple[Shot, ...]
    flaws: tuple[Flaw, ...] = ()

    @property
    def duration(self) -> float:
        """The length of the video in seconds."""
        return self.shots[-1].end

    @property
    def timeline(self) -> Timeline:
        """The ground truth."""
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
    """Decide what happens in video number `video` of the kitchen `seed`; the settings are those of `make_kitchen`."""
    _check(seed, duration, background, skip, repeat, shuffle)
    rng = np.random.default_rng([seed, video, 1])
    kept = [step for step in STEPS if rng.random() >= skip]
    while len(kept) < 3:  # a video with next to nothing of the task teaches nothing
        kept.append(str(rng.choice([step for step in STEPS if step not in kept])))
    sequence = _order([step for step in STEPS if step in kept], shuffle, rng)
    for step in [step for step in sequence if rng.random() < repeat]:
        after = sequence.index(step) + 2  # something else comes between a step and its repetition
        if after <= len(sequence):
            sequence.insert(int(rng.integers(after, len(sequence) + 1)), step)
    kind, wrong = _parse(flaw)
    if kind:
        sequence = _spoil(sequence, kind, wrong, rng)
    sequence = [step for k, step in enumerate(sequence) if k == 0 or sequence[k - 1] != step]
    shots = _fill(sequence, duration * rng.uniform(0.85, 1.15), background, rng)
    script = Script(f"kitchen-{seed}-{video:02d}", (seed, video), shots)
    return Script(script.name, script.seed, shots, _describe(script.timeline, kind, wrong)) if kind else script


def plan_video(
    seed: int = 0,
    video: int = 0,
    *,
    duration: float = 66.0,
    background: float = 0.2,
    skip: float = 0.1,
    repeat: float = 0.15,
    shuffle: float = 0.7,
    flaw: str | None = None,
) -> Timeline:
    """The ground truth of one video without rendering it: the same as `make_kitchen(...)` has for it.

    >>> plan_video(0, shuffle=0, skip=0, repeat=0).sequence()
    ['cut bread', 'spread butter', 'add jam', 'pour water', 'stir tea', 'wash dish']
    """
    return write_script(
        seed,
        video,
        duration=duration,
        background=background,
        skip=skip,
        repeat=repeat,
        shuffle=shuffle,
        flaw=flaw,
    ).timeline


def must_precede(edges: Iterable[tuple[str, str]] = EDGES) -> set[tuple[str, str]]:
    """The transitive closure: every `(before, after)` that follows from the edges."""
    closure = set(edges)
    while more := {(a, d) for a, b in closure for c, d in closure if b == c} - closure:
        closure |= more
    return closure


def _order(steps: list[str], shuffle: float, rng: np.random.Generator) -> list[str]:
    """A linear extension of the task graph: with probability `shuffle` any step that is allowed comes next."""
    before, left, done = must_precede(), list(steps), []
    while left:
        ready = [b for b in left if not any((a, b) in before for a in left)]
        pick = ready[int(rng.integers(len(ready)))] if rng.random() < shuffle else ready[0]
        done.append(pick)
        left.remove(pick)
    return done


def _parse(flaw: str | None) -> tuple[str, str]:
    """`"skip:add jam"` to `("skip", "add jam")`."""
    if flaw is None:
        return "", ""
    kind, _, step = flaw.partition(":")
    choose("flaw", kind, {"skip": 0, "swap": 0, "repeat": 0})
    if step not in STEPS:
        raise OptionError(unknown(f"flaw={kind!r} of step", step, STEPS) + " Write for example 'skip:add jam'.")
    if kind == "swap" and not any(b == step for _, b in EDGES):
        later = ", ".join(step for step in STEPS if any(b == step for _, b in EDGES))
        raise OptionError(
            f"flaw={flaw!r}: no step must come before {step!r}, so it is never out of order. Choose from {later}."
        )
    return kind, step


def _spoil(sequence: list[str], kind: str, step: str, rng: np.random.Generator) -> list[str]:
    """Make one mistake: leave `step` out, do it before what it needs, or do it three times over."""
    others = [other for other in sequence if other != step]
    if kind == "skip":
        return others
    if kind == "swap":
        needs = [a for a, b in must_precede() if b == step]
        for need in needs:
            if (need, step) in EDGES and need not in others:  # what is done too early must be missed by someone
                others.append(need)
        first = min(others.index(need) for need in needs if need in others)
        return [*others[:first], step, *others[first:]]
    for _ in range(3):
        spots = [k for k in range(len(others) + 1) if step not in others[max(k - 1, 0) : k + 1]]
        others.insert(spots[int(rng.integers(len(spots)))], step)
    return others


def _describe(timeline: Timeline, kind: str, step: str) -> tuple[Flaw, ...]:
    """Say what is wrong, with the times at which it shows."""
    times = tuple((s.start, s.end) for s in timeline if s.step == step)
    if kind == "skip":
        return (Flaw(kind, step, (), f"{step!r} is left out"),)
    if kind == "swap":
        needs = " and ".join(repr(a) for a, b in sorted(EDGES) if b == step)
        return (Flaw(kind, step, times, f"{step!r} is done before {needs}"),)
    return (Flaw(kind, step, times, f"{step!r} is done {len(times)} times"),)


def _fill(
    sequence: list[str], duration: float, background: float, rng: np.random.Generator
) -> tuple[Shot, ...]:
    """Give every step its length and put pastimes before, between and after, `background` of the whole in all."""
    acts: list[str] = []
    for step in [*sequence, ""]:
        if background > 0 and (not acts or step == "" or rng.random() < 0.45):
            acts.append(PASTIMES[int(rng.integers(len(PASTIMES)))])
        if step:
            acts.append(step)
    lengths = np.array([_SECONDS.get(act, 6) for act in acts]) * np.exp(0.3 * rng.standard_normal(len(acts)))
    idle = np.array([act in PASTIMES for act in acts])
    lengths[~idle] *= duration * (1 - background) / lengths[~idle].sum()
    if idle.any():
        lengths[idle] *= duration * background / lengths[idle].sum()
    bounds = np.round(np.cumsum([0.0, *lengths]) * GRID).astype(int)
    seeds = rng.integers(2**31, size=len(acts))
    return tuple(
        Shot(first / GRID, last / GRID, act, int(seeds[k]))
        for k, ((first, last), act) in enumerate(zip(pairwise(bounds.tolist()), acts, strict=True))
        if last > first
    )


def _check(
    seed: int, duration: float, background: float, skip: float, repeat: float, shuffle: float
) -> None:
    if seed < 0:
        raise OptionError(f"seed={seed!r} is negative; a whole number from 0 is allowed. Try seed=0.")
    if not 4 <= duration <= 3600:
        raise OptionError(f"duration={duration!r} seconds is out of range; 4 to 3600 are allowed. Try duration=66.")
    if not 0 <= background <= 0.9:
        raise OptionError(f"background={background!r} is out of range; a share from 0 to 0.9 is allowed. Try 0.2.")
    for name, share in (("skip", skip), ("repeat", repeat), ("shuffle", shuffle)):
        if not 0 <= share <= 1:
            raise OptionError(f"{name}={share!r} is out of range; a probability from 0 to 1 is allowed. Try 0.2.")
