"""Methods: from features to steps. Choose one by name, or pass an object derived from `Method`."""

from collections.abc import Mapping
from typing import Any

from stepcut.errors import OptionError
from stepcut.methods.constraints import OPEN, Constraint, Constraints
from stepcut.methods.method import Method, Online, Reading, Window
from stepcut.methods.stepcut.method import StepCut
from stepcut.plugins import WING, Lazy, find
from stepcut.timeline import BACKGROUND

# all methods, imported on first use
METHODS: Mapping[str, Any] = Lazy(
    {
        "stepcut": "stepcut.methods.stepcut.method:StepCut",
        "kmeans": "stepcut.methods.baselines:KMeans",
        "asot": "stepcut.methods.baselines:Asot",
        "tw-finch": "stepcut.methods.baselines:TwFinch",
        "spectral": "stepcut.methods.baselines:Spectral",
        "random": "stepcut.methods.baselines:Random",
        "uniform": "stepcut.methods.baselines:Uniform",
        "one-cluster": "stepcut.methods.baselines:OneCluster",
        **WING["method"],
    }
)


def find_method(method: Any, setting: str = "method") -> Any:
    """The class (or object) of that name, or the object itself, if it is a `Method`."""
    part = find("method", method, METHODS, setting) if isinstance(method, str) else method
    given = part is method
    if isinstance(part, Method) or (
        not given and isinstance(part, type) and issubclass(part, Method)
    ):
        return part
    what = f"{method!r} is not a method; give a name ({', '.join(METHODS)}) or an object of a class"
    fix = f"{what} derived from stepcut.methods.Method; see docs/extend.md"
    if given and isinstance(part, type):
        fix = f"{part.__name__} is a class; pass an object, {part.__name__}(...)"
    raise OptionError(f"{setting}={fix}.", setting=setting, value=method)


__all__ = [
    "BACKGROUND", "METHODS", "OPEN", "Constraint", "Constraints", "Method", "Online", "Reading",
    "StepCut", "Window", "find_method",
]  # fmt: skip
