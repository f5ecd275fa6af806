"""Methods: how features become steps. Choose one by name, or hand over an object of a class derived from `Method`.

    fit(features, constraints) -> self   learns from a list of arrays (T, d) or maps (T, C, h, w), one per video
    predict(features)                    (T,) per video: the step of each frame, -1 for background
    settings(), state()                  JSON-able settings and arrays, from which
    restore(settings, state)             builds it again

Every method has these besides, with a default where a class has no better way:

    probabilities(features)              (T, K) per video, rows sum to 1: how much a frame belongs to each step
    novelty(features)                    (T,) per video: 0 on a frame it knows well, more on one that resembles no step
    embed(features)                      (T, D) per video: where the same step of different videos lies close
    online()                             an object whose `push(row) -> (K,)` gives probabilities from the past alone

A class declares what else it can do: `chooses_steps` (K may be "auto" or a range) and `learns_from` (which parts of
`stepcut.methods.constraints.Constraint`). After `fit`: `labels_` (a list of (T,) step numbers) and `steps_` (K); where
the method has them, `left_out_`, `choice_`, `chosen_` and `curve_`. See `stepcut.methods.method.Method`.
"""

from collections.abc import Mapping
from typing import Any

from stepcut.methods.constraints import OPEN, Constraint, Constraints
from stepcut.methods.learned import Choice
from stepcut.methods.method import Method, Online, Window, leave_out
from stepcut.methods.stepcut.method import StepCut
from stepcut.plugins import WING, Lazy
from stepcut.timeline import BACKGROUND

METHODS: Mapping[str, Any] = Lazy(
    {
        "stepcut": "stepcut.methods.stepcut.method:StepCut",
        "kmeans": "stepcut.methods.baselines.kmeans:KMeans",
        "asot": "stepcut.methods.baselines.asot:Asot",
        "random": "stepcut.methods.baselines.trivial:Random",
        "uniform": "stepcut.methods.baselines.trivial:Uniform",
        "one-cluster": "stepcut.methods.baselines.trivial:OneCluster",
        **WING["method"],
    }
)
"""The methods by name, each imported when it is asked for: ours, then those of the paper."""

__all__ = [
    "BACKGROUND",
    "METHODS",
    "OPEN",
    "Choice",
    "Constraint",
    "Constraints",
    "Method",
    "Online",
    "StepCut",
    "Window",
    "leave_out",
]
