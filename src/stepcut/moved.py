"""Modules of 0.3 that the docs named, and where they are now: the old names work until 0.5, with a warning."""

import importlib
import sys
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False  # typing is slow to load, and this comes before Ctrl-C is handled
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any

MOVED = {
    "stepcut.features.files": "stepcut.features.features",
    "stepcut.guidance": "stepcut.checking",
    "stepcut.guidance.guide": "stepcut.checking.guide",
    "stepcut.order.plan": "stepcut.order.graph",
}


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
