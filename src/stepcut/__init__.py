"""Learn a procedure from videos: the steps they share, when each is done, in which orders, and how to check it.

>>> import stepcut as sc
>>> sc.Segment(0, 2, "pour").duration
2
"""

import importlib
import sys
from importlib.machinery import ModuleSpec

from stepcut.version import __version__

# Not imported from typing, which is slow: `python -m stepcut` handles Ctrl-C only after this file.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

    from stepcut.annotations import Annotations as Annotations
    from stepcut.app import view as view
    from stepcut.evaluation.evaluate import evaluate as evaluate
    from stepcut.features.spec import FeatureSpec as FeatureSpec
    from stepcut.formats import read as read
    from stepcut.formats import write as write
    from stepcut.procedure.learning import learn as learn
    from stepcut.procedure.learning import load as load
    from stepcut.procedure.procedure import Procedure as Procedure
    from stepcut.timeline import Segment as Segment
    from stepcut.timeline import Timeline as Timeline

# Where each public name lives; it is imported when first used, so that `import stepcut` stays quick and loads no torch.
_HOMES = {
    "Annotations": "stepcut.annotations",
    "FeatureSpec": "stepcut.features.spec",
    "Procedure": "stepcut.procedure.procedure",
    "Segment": "stepcut.timeline",
    "Timeline": "stepcut.timeline",
    "evaluate": "stepcut.evaluation",
    "learn": "stepcut.procedure.learning",
    "load": "stepcut.procedure.learning",
    "read": "stepcut.formats",
    "view": "stepcut.app",
    "write": "stepcut.formats",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> "Any":
    if name not in _HOMES:
        raise AttributeError(f"module 'stepcut' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)


MOVED = {
    "stepcut.features.files": "stepcut.features.features",
    "stepcut.guidance": "stepcut.checking",
    "stepcut.guidance.guide": "stepcut.checking.guide",
    "stepcut.order.plan": "stepcut.order.graph",
    "stepcut.procedure.loading": "stepcut.procedure.learning",
}
"""Modules of 0.3 that the docs named: the old names work until 0.5, with a warning."""


class Moved:
    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        loader: Any = self
        return ModuleSpec(name, loader, is_package=True) if name in MOVED else None

    def create_module(self, spec: ModuleSpec) -> "ModuleType":
        import warnings

        new = MOVED[spec.name]
        message = f"{spec.name} is now {new}; the old name ends with 0.5."
        warnings.warn(message, FutureWarning, stacklevel=2)
        module = importlib.import_module(new)
        self.own = module.__spec__
        return module

    def exec_module(self, module: "ModuleType") -> None:
        module.__spec__ = self.own  # the import system has just replaced it


_finder: "Any" = Moved()
sys.meta_path.insert(0, _finder)
