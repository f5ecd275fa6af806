"""Find parts by name, by entry point such as `stepcut.methods`, or by `package.module:Class`."""

import os
import re
import shlex
import shutil
import sys
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, TypeVar, cast

from stepcut.errors import ExtraNeeded, OptionError, ProcedureError, unknown, wrong

T = TypeVar("T")

_trusted: ContextVar[bool] = ContextVar("trusted", default=False)

WING: dict[str, dict[str, str]] = {
    "method": {
        "cnc": "stepcut.paper.cnc.method:CnC",
        "procut": "stepcut.paper.cnc.procut:ProCut",
        "subset": "stepcut.paper.cnc.procut:Subset",
        "asot-trained": "stepcut.paper.cnc.peers:AsotTrained",
    },
    "dataset": {
        "egoprocel": "stepcut.paper.datasets:EGOPROCEL",
        "crosstask": "stepcut.paper.datasets:CROSSTASK",
        "procel": "stepcut.paper.datasets:PROCEL",
        "captaincook4d": "stepcut.paper.datasets:CAPTAINCOOK4D",
        "toy": "stepcut.paper.datasets:TOY",
        "folder": "stepcut.paper.datasets:FOLDER",
        "segmentation": "stepcut.paper.datasets:SEGMENTATION",
    },
    "backbone": {"frames": "stepcut.paper.cnc.tune:Frames"},
    "command": {
        "data": "stepcut.paper.commands.data",
        "experiment": "stepcut.paper.commands.experiment",
    },
}
"""The entry points of `stepcut.paper` in pyproject.toml, for a checkout that is not installed."""


class Lazy(UserDict[str, Any]):
    """Each `module:attribute` is imported on first use; an extra has the name of its part."""

    def __getitem__(self, name: str) -> Any:
        with needs(name):
            return resolve_name(self.data[name])


def drawing(name: str) -> Callable[..., str]:
    return cast(Callable[..., str], resolve_name(f"stepcut.show:{name}"))


@contextmanager
def needs(extra: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise ExtraNeeded(
            f"{extra} needs {error.name}, which is not installed. Run: {install_command(extra)}"
        ) from error


def install_command(extra: str) -> str:
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / "pyproject.toml").is_file():
        return pip_install(f"stepcut[{extra}]")
    place = "." if checkout == Path.cwd().resolve() else str(checkout)
    return pip_install(f"{place}[{extra}]", "-e ")


def pip_install(package: str, options: str = "") -> str:
    """For the Python that is running."""
    pip, python = shutil.which("pip"), Path(sys.executable)
    ours = pip is not None and Path(pip).parent == python.parent
    program = "pip" if ours else f"{from_here(python)} -m pip"
    return f"{program} install {options}{shlex.quote(package)}"


def from_here(program: Path) -> str:
    below = program.is_relative_to(Path.cwd())
    return shlex.quote(os.path.relpath(program) if below else str(program))


def registered(kind: str) -> dict[str, str]:
    """Return the `module:attribute` of each plugin in the group `stepcut.KINDs`, by name."""
    from importlib.metadata import entry_points  # slow to import

    points = entry_points(group=f"stepcut.{kind}s")
    return {**{point.name: point.value for point in points}, **WING.get(kind, {})}


def find(
    kind: str, name: str, ours: Mapping[str, T] | None = None, setting: str | None = None
) -> T:
    """Import a part by name; `package.module:Class` must come from the user, not from a file."""
    ours = cast(Mapping[str, T], Lazy(WING.get(kind, {}))) if ours is None else ours
    if name in ours:
        return ours[name]
    installed = registered(kind)
    if name in installed:
        return cast(T, resolve_name(installed[name]))
    if not is_own(name):
        hint = f"Or give a custom {kind} as package.module:Class."
        raise unknown(setting or kind, name, dict.fromkeys((*ours, *installed)), hint=hint)
    if os.getcwd() not in sys.path:  # last, so that it hides no installed module
        sys.path.append(os.getcwd())
    try:
        return cast(T, resolve_name(name))
    except (ImportError, AttributeError) as error:
        fix = "Give package.module:Class that Python can import in this folder."
        raise wrong(setting or kind, name, f": {error}. {fix}") from error


def check_part(
    kind: str, name: object, part: object, needed: Iterable[str], ours: Iterable[str]
) -> None:
    """Refuse a custom `part` that lacks `needed` attributes; `name` may be the part itself."""
    if name is part and isinstance(part, type):
        what = f"{kind}={part.__name__} is a class; pass an object, {part.__name__}(...)."
        raise OptionError(what, setting=kind, value=part)
    if missing := [each for each in needed if not hasattr(part, each)]:
        fix = f"Give a name ({', '.join(ours)}) or an object with these attributes"
        raise wrong(kind, name, f"has no {', '.join(missing)}. {fix}; see docs/extend.md.")


@contextmanager
def trusting(trust: bool) -> Iterator[None]:
    before = _trusted.set(trust)
    try:
        yield
    finally:
        _trusted.reset(before)


def find_saved(kind: str, name: str, ours: Mapping[str, T], setting: str | None = None) -> T:
    """Find a part that a saved file names; other code than stepcut's needs `trusting`."""
    named = setting or kind
    if name not in ours and not _trusted.get():
        what = (
            f"the {named} {name} is not part of stepcut, so it is not imported. If you trust it, "
        )
        what += "load the procedure with trust=True (--trust)."
        raise ProcedureError(what, setting=named, value=name)
    try:
        return find(kind, name, ours, setting)
    except OptionError as error:
        what = f"the {named} {name} is missing ({error}). Install it first."
        raise ProcedureError(what, setting=named, value=name) from error


def is_own(name: str) -> bool:
    """Whether a name has the form `package.module:Class`.

    >>> is_own("mine.parts:Method"), is_own("stepcut"), is_own("timm:resnet50")
    (True, False, True)
    """
    return re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", name) is not None


def name_of(kind: str, part: object, ours: Mapping[str, object]) -> str:
    place = _place(type(part))
    for name in ours:
        if (ours.data[name] if isinstance(ours, Lazy) else _place(ours[name])) == place:
            return name
    return next((name for name, value in registered(kind).items() if value == place), place)


def _place(made: Any) -> str:
    return f"{made.__module__}:{made.__qualname__}"
