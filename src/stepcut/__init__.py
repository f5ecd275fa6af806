"""Learn a procedure from videos: the steps they share, when each is done, in which orders, and how to check it.

>>> import stepcut as sc
>>> sc.Segment(0, 2, "pour").duration
2
"""

import importlib

from stepcut import moved as moved
from stepcut.version import __version__

# Not imported from typing, which is slow: `python -m stepcut` handles Ctrl-C only after this file.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from stepcut.annotations import Annotations as Annotations
    from stepcut.app import view as view
    from stepcut.evaluation.evaluate import evaluate as evaluate
    from stepcut.features.spec import FeatureSpec as FeatureSpec
    from stepcut.formats import read as read
    from stepcut.formats import write as write
    from stepcut.procedure.learning import learn as learn
    from stepcut.procedure.loading import load as load
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
    "load": "stepcut.procedure.loading",
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
