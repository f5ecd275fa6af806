"""Methods: from features to steps. Choose one by name, or pass an object derived from `Method`.

    fit(videos, constraints) -> self   learn from (T, d) or maps (T, C, h, w) per video
    read(video) -> Reading             labels (T,), probabilities (T, K), novelty and embedding
    settings(), state()                JSON-able settings, and arrays
    restore(settings, state)           rebuild the method from them
    online()                           an object with `push(row) -> (K,)`, from the past only

A class declares `chooses_steps` (K may be "auto" or a range) and `learns_from` (parts of
`stepcut.methods.constraints.Constraint`). After `fit`: `labels_` (a list of (T,) step numbers) and
`steps_` (K).
"""

from collections.abc import Mapping
from typing import Any

from stepcut.errors import OptionError
from stepcut.methods.constraints import OPEN, Constraint, Constraints
from stepcut.methods.method import Method, Online, Reading, Window
from stepcut.methods.stepcut.method import StepCut
from stepcut.plugins import WING, Lazy, find
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


def find_method(method: Any, setting: str = "method") -> Any:
    """Return the class (or object) of that name, or the object itself; refuse what is no `Method`."""
    part = find("method", method, METHODS, setting) if isinstance(method, str) else method
    named = isinstance(part, type)
    if isinstance(part, Method) or (named and part is not method and issubclass(part, Method)):
        return part
    fix = (
        f"pass an object, {part.__name__}(...)"
        if named and part is method
        else (
            f"give a name ({', '.join(METHODS)}) or an object of a class derived from "
            "stepcut.methods.Method; see docs/extend.md"
        )
    )
    what = (
        f"{part.__name__} is a class" if part is method and named else f"{method!r} is not a method"
    )
    raise OptionError(f"{setting}={what}; {fix}.", setting=setting, value=method)


__all__ = [
    "BACKGROUND",
    "METHODS",
    "OPEN",
    "Constraint",
    "Constraints",
    "Method",
    "Online",
    "Reading",
    "StepCut",
    "Window",
    "find_method",
]
