"""Plugins: parts found by a short name, by an entry point, or by `package.module:Class`.

A package registers its parts in its pyproject.toml, under `[project.entry-points."stepcut.methods"]` for example. The
groups are `stepcut.methods`, `stepcut.backbones`, `stepcut.protocols`, `stepcut.datasets` and `stepcut.commands`.
"""

import os
import re
import shlex
import sys
from collections import UserDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, TypeVar, cast

from stepcut.errors import ExtraNeeded, OptionError, ProcedureError, unknown

T = TypeVar("T")

_trusted: ContextVar[bool] = ContextVar("trusted", default=False)

WING: dict[str, dict[str, str]] = {
    "method": {
        "cnc": "stepcut.paper.cnc.method:CnC",
        "procut": "stepcut.paper.cnc.procut:ProCut",
        "subset": "stepcut.paper.cnc.subset:Subset",
    },
    "dataset": {
        "egoprocel": "stepcut.paper.datasets:EGOPROCEL",
        "crosstask": "stepcut.paper.datasets:CROSSTASK",
        "procel": "stepcut.paper.datasets:PROCEL",
        "captaincook4d": "stepcut.paper.datasets:CAPTAINCOOK4D",
        "toy": "stepcut.paper.datasets:TOY",
        "folder": "stepcut.paper.datasets:FOLDER",
    },
    "backbone": {"frames": "stepcut.paper.cnc.tune:Frames"},
    "command": {
        "data": "stepcut.paper.commands.data",
        "experiment": "stepcut.paper.commands.experiment",
    },
}
"""The entry points of `stepcut.paper` in pyproject.toml, for a checkout that is not installed."""


class Lazy(UserDict[str, Any]):
    """Parts by name, `module:attribute`, each imported when it is asked for: what it needs is loaded where it is used.

    A part that needs more than the plain install comes with an extra of its name.
    """

    def __getitem__(self, name: str) -> Any:
        with needs(name):
            return resolve_name(self.data[name])


def drawing(name: str) -> Callable[..., str]:
    """The function of `stepcut.show.bars` that draws data in a notebook; data knows it by name only."""
    return cast(Callable[..., str], resolve_name(f"stepcut.show.bars:{name}"))


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Inside, a package that is absent is named together with the extra that brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ExtraNeeded(
            f"{extra} needs {error.name}, which is not installed. Run: {install_command(extra)}"
        ) from error


def install_command(extra: str) -> str:
    """The command that installs an `extra`, from the folder where the user is: of the package, or of a checkout."""
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / "pyproject.toml").is_file():
        return f"pip install 'stepcut[{extra}]'"
    place = "." if checkout == Path.cwd().resolve() else str(checkout)
    return f"pip install -e {shlex.quote(f'{place}[{extra}]')}"


def registered(kind: str) -> dict[str, str]:
    """Name -> `module:attribute` of all parts of a `kind` that packages register, in the group `stepcut.KINDs`."""
    from importlib.metadata import entry_points  # it is slow to load, and most commands need none

    points = entry_points(group=f"stepcut.{kind}s")
    return {**{point.name: point.value for point in points}, **WING.get(kind, {})}


def find(
    kind: str, name: str, ours: Mapping[str, T] | None = None, setting: str | None = None
) -> T:
    """The part that `name` stands for.

    kind  what is looked for, "method" for example; entry points are those of the group `stepcut.methods`
    name  a name of `ours`, of an entry point, or `package.module:Class`
    ours  the parts that come with stepcut, by name
    setting  what an error calls it, where that is not its kind

    A name of `package.module:Class` imports that module, so it must come from the user, never from a file.
    """
    ours = cast(Mapping[str, T], Lazy(WING.get(kind, {}))) if ours is None else ours
    if name in ours:
        return ours[name]
    installed = registered(kind)
    if name in installed:
        return cast(T, resolve_name(installed[name]))
    if not is_own(name):
        own = "Or give your own as package.module:Class."
        raise unknown(setting or kind, name, dict.fromkeys((*ours, *installed)), hint=own)
    if (
        os.getcwd() not in sys.path
    ):  # a module that lies where the user is; last, so that it hides nothing installed
        sys.path.append(os.getcwd())
    try:
        return cast(T, resolve_name(name))
    except (ImportError, AttributeError) as error:
        raise OptionError(
            f"{setting or kind}={name!r}: {error}. Give package.module:Class of something that Python can import from here."
        ) from error


def check_part(
    kind: str, name: object, part: object, needed: Iterable[str], ours: Iterable[str]
) -> None:
    """Refuse a `part` of one's own that lacks some of the names that are `needed` of its `kind`, beside `ours`.

    `name`: how it was given, a name, or the part itself, which must then be an object and no class.
    """
    if name is part and isinstance(part, type):
        raise OptionError(
            f"{kind}={part.__name__} is a class; hand over an object of it, {part.__name__}(...)."
        )
    if missing := [each for each in needed if not hasattr(part, each)]:
        raise OptionError(
            f"{kind}={name!r} has no {', '.join(missing)}. Give a name ({', '.join(ours)}) or such an object; see "
            "docs/extend.md."
        )


@contextmanager
def trusting(trust: bool) -> Iterator[None]:
    """Inside, where `trust` is true, what a file names may be imported although it is not stepcut's."""
    before = _trusted.set(trust)
    try:
        yield
    finally:
        _trusted.reset(before)


def find_saved(kind: str, name: str, ours: Mapping[str, T], setting: str | None = None) -> T:
    """As `find(kind, name, ours)`, for a name that a saved file holds: foreign code runs only by the user's word."""
    if name not in ours and not _trusted.get():
        raise ProcedureError(
            f"its {setting or kind} is {name}, code that is not stepcut's. If you trust it, load it "
            "with trust=True (--trust)."
        )
    try:
        return find(kind, name, ours, setting)
    except OptionError as error:
        raise ProcedureError(
            f"its {setting or kind} {name} cannot be found ({error}). Install it first."
        ) from error


def is_own(name: str) -> bool:
    """Whether a name has the form `package.module:Class`.

    >>> is_own("mine.parts:Method"), is_own("stepcut"), is_own("timm:resnet50")
    (True, False, True)
    """
    return re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", name) is not None


def name_of(kind: str, part: object, ours: Mapping[str, object]) -> str:
    """The name under which `find` gives the class of `part` again: one of `ours` of that `kind`, an entry point, or
    `module:Class`."""
    place = _place(type(part))
    for name in ours:
        if (ours.data[name] if isinstance(ours, Lazy) else _place(ours[name])) == place:
            return name
    return next((name for name, value in registered(kind).items() if value == place), place)


def _place(made: Any) -> str:
    return f"{made.__module__}:{made.__qualname__}"
