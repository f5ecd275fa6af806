"""Methods: from features to steps. Choose one by name, or pass an object derived from `Method`.

    fit(features, constraints) -> self   learn from (T, d) or maps (T, C, h, w) per video
    predict(features)                    (T,) per video: the step of each frame, -1 for background
    settings(), state()                  JSON-able settings, and arrays
    restore(settings, state)             rebuild the method from them

These have a default that a class may override:

    probabilities(features)              (T, K) per video: step probabilities, rows sum to 1
    novelty(features)                    (T,) per video: 0 for a familiar frame, higher if unusual
    embed(features)                      (T, D) per video: equal steps of different videos are close
    suggest(features, labelled, n)       up to n videos to label next, each with the reason
    online()                             object with `push(row) -> (K,)`, from the past only

A class declares `chooses_steps` (K may be "auto" or a range) and `learns_from` (parts of
`stepcut.methods.constraints.Constraint`). After `fit`: `labels_` (a list of (T,) step numbers) and
`steps_` (K); some methods also have `left_out_`, `why_steps_`, `chosen_` and `curve_`.
"""

from collections.abc import Mapping
from typing import Any

from stepcut.methods.constraints import OPEN, Constraint, Constraints
from stepcut.methods.method import Method, Online, Window, leave_out
from stepcut.methods.stepcut.method import StepCut
from stepcut.plugins import WING, Lazy
from stepcut.timeline import BACKGROUND

METHODS: Mapping[str, Any] = Lazy(
    {
        "stepcut": "stepcut.methods.stepcut.method:StepCut",
        "kmeans": "stepcut.methods.baselines.kmeans:KMeans",
        "asot": "stepcut.methods.baselines.asot:Asot",
        "tw-finch": "stepcut.methods.baselines.per_video:TwFinch",
        "spectral": "stepcut.methods.baselines.per_video:Spectral",
        "random": "stepcut.methods.baselines.trivial:Random",
        "uniform": "stepcut.methods.baselines.trivial:Uniform",
        "one-cluster": "stepcut.methods.baselines.trivial:OneCluster",
        **WING["method"],
    }
)
"""All methods by name, imported on first use."""

__all__ = [
    "BACKGROUND",
    "METHODS",
    "OPEN",
    "Constraint",
    "Constraints",
    "Method",
    "Online",
    "StepCut",
    "Window",
    "leave_out",
]
