"""Parts of a user's own: found by a short name, by an entry point, or by `package.module:Class`."""

import os
import re
import sys
from collections import UserDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import entry_points
from pkgutil import resolve_name
from typing import Any, TypeVar, cast

from stepcut.errors import ExtraNeeded, OptionError, ProcedureError, unknown

T = TypeVar("T")

_trusted: ContextVar[bool] = ContextVar("trusted", default=False)


class Lazy(UserDict[str, Any]):
    """Parts by name, `module:attribute`, each imported when it is asked for: what it needs is loaded where it is used.

    A part that needs more than the plain install comes with an extra of its name.
    """

    def __getitem__(self, name: str) -> Any:
        with needs(name):
            return resolve_name(self.data[name])


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Inside, a package that is absent is named together with the extra that brings it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ExtraNeeded(
            f"{extra} needs {error.name}, which is not installed. Run: pip install 'stepcut[{extra}]'"
        ) from error


def find(kind: str, name: str, ours: Mapping[str, T]) -> T:
    """The part that `name` stands for.

    kind  what is looked for, "method" for example; entry points are those of the group `stepcut.methods`
    name  a name of `ours`, of an entry point, or `package.module:Class`
    ours  the parts that come with stepcut, by name

    A name of `package.module:Class` imports that module, so it must come from the user, never from a file.
    """
    if name in ours:
        return ours[name]
    installed = {point.name: point for point in entry_points(group=f"stepcut.{kind}s")}
    if name in installed:
        return cast(T, installed[name].load())
    if not is_own(name):
        own = "Or give your own as package.module:Class."
        raise unknown(kind, name, [*ours, *installed], hint=own)
    if (
        os.getcwd() not in sys.path
    ):  # a module that lies where the user is; last, so that it hides nothing installed
        sys.path.append(os.getcwd())
    try:
        return cast(T, resolve_name(name))
    except (ImportError, AttributeError) as error:
        raise OptionError(
            f"{kind}={name!r}: {error}. Give package.module:Class of something that Python can import from here."
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


def find_saved(kind: str, name: str, ours: Mapping[str, T]) -> T:
    """As `find(kind, name, ours)`, for a name that a saved file holds: foreign code runs only by the user's word."""
    if name not in ours and not _trusted.get():
        raise ProcedureError(
            f"its {kind} is {name}, code that is not stepcut's. If you trust it, load it with trust=True (--trust)."
        )
    try:
        return find(kind, name, ours)
    except OptionError as error:
        raise ProcedureError(
            f"its {kind} {name} cannot be found ({error}). Install it first."
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
    for point in entry_points(group=f"stepcut.{kind}s"):
        if point.value == place:
            return point.name
    return place


def _place(made: Any) -> str:
    return f"{made.__module__}:{made.__qualname__}"
