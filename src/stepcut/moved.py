"""Modules of 0.3 that the docs named, and where they are now: the old names work until 0.5, with a warning."""

import importlib
import sys
import warnings
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "stepcut.features.files": "stepcut.features.features",
    "stepcut.guidance": "stepcut.checking",
    "stepcut.guidance.guide": "stepcut.checking.guide",
}


class Moved(MetaPathFinder, Loader):
    """Finds a module of `MOVED` under its old name."""

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name in MOVED else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        new = MOVED[spec.name]
        message = f"{spec.name} is now {new}; the old name ends with 0.5."
        warnings.warn(message, FutureWarning, stacklevel=2)
        module = importlib.import_module(new)
        self.own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.own  # the import system has just replaced it


sys.meta_path.insert(0, Moved())
