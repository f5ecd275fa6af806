"""Methods: how features become steps. Choose one by name, or hand over your own object with the same nine verbs.

    fit(features) -> self        takes a list of arrays (T, d) or maps (T, C, h, w), one per video, `rate` rows a second
    embed(features)              (T, D) per video: where the same step of different videos lies close
    probabilities(features)        (T, K) per video, rows sum to 1: how much a frame belongs to each step
    predict(features)            (T,) per video: the step of each frame, -1 for background
    novelty(features)            (T,) per video: 0 on a frame it knows well, growing with the distance from all steps
    online()                     an object whose `push(row) -> (K,)` gives probabilities from the past alone
    settings(), state()          JSON-able settings and arrays, from which
    restore(settings, state)     builds it again

`fit` also takes `progress` (a hook), `checkpoint` (a file where long training keeps its state, so that it resumes) and
`labels` (one entry per video: None, or the step number of each frame with -1 for background and -2 where nobody said
anything); a method that cannot learn from labels says so. After `fit`: `labels_` (a list of (T,) step numbers) and
`steps_` (K, also when `steps="auto"` chose it); where the method has them, `left_out_` (what it sees in the videos
learned from, in each as if it were new), `choice_` (how K was chosen), `chosen_` (other settings that were left open,
as they were chosen) and `curve_` (the loss of training). `__init__` only stores settings.
"""

from collections.abc import Mapping
from typing import Any

from stepcut.methods.contract import OPEN, Choice, Method, Online, Window, leave_out
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
    "Method",
    "Online",
    "StepCut",
    "Window",
    "leave_out",
]
