"""True timelines beside found ones: scores, and one colour for a true step and the found step it was matched with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stepcut.colours import colour
from stepcut.evaluation.clock import match_names, merge_names
from stepcut.evaluation.evaluate import Evaluation, evaluate, read_truth
from stepcut.procedure.procedure import Procedure
from stepcut.timeline import Timeline

Found = Procedure | Mapping[str, Timeline]


@dataclass(frozen=True)
class Compared:
    """What evaluating a procedure against the truth gives to pictures."""

    evaluation: Evaluation
    timelines: dict[str, Timeline]
    """The truth by the name that the procedure has for the video."""
    colours: dict[str, str]
    """By true step: the colour of the found step it was matched with, or one of its own where it was not found."""
    names: dict[str, str]
    """By found step: the true step it was matched with, where no other true step fills more of its time."""


def compare(found: Found, truth: Any) -> Compared:
    """Evaluate and match; `truth` is whatever `stepcut.evaluate` takes."""
    evaluation = evaluate(found, truth)
    true = read_truth(truth)[0]
    pairs, _ = match_names(timelines_of(found), true)
    canonical, _ = merge_names([true[theirs] for _, theirs in pairs])
    timelines = {ours: true[theirs].rename(canonical) for ours, theirs in pairs}
    score, count = evaluation.score, len(evaluation.clusters)
    paint = colours_of(found, evaluation.clusters)
    matched = {
        score.name(step): paint[evaluation.clusters[k]] for k, step in score.matching.items() if k >= 0 and step > 0
    }
    alone = [step for step in dict.fromkeys(canonical.values()) if step not in matched]
    colours = {**matched, **{step: colour(count + place) for place, step in enumerate(alone)}}
    counts = score.confusion[1:, 1:]  # without background
    names = {
        evaluation.clusters[k]: score.name(step)
        for k, step in score.matching.items()
        if k >= 0 and step > 0 and counts[step - 1, k] == counts[:, k].max() > 0
    }
    return Compared(evaluation, timelines, colours, names)


def colours_of(found: Found, steps: Sequence[str]) -> dict[str, str]:
    """The colours of the `steps` that were found: those that a person chose, or those of their numbers."""
    chosen = {} if isinstance(found, Mapping) else found.colours
    return {step: chosen.get(step, colour(number)) for number, step in enumerate(steps)}


def timelines_of(found: Found) -> Mapping[str, Timeline]:
    """The timelines of a procedure, or those that were given."""
    return found if isinstance(found, Mapping) else found.timelines
