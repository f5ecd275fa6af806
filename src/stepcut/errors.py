"""The errors that stepcut raises, as one tree below `StepcutError`.

A message names the problem, the place and the fix. The same facts are attributes, None if they do
not apply: setting, value, allowed; path, video, line (counted from 1).
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

MOST = 40


class StepcutError(Exception):
    """Base class; the command line prints the message in one line and exits with code 2.

    Parameters
    ----------
    *args
        The message.
    setting, value, allowed
        The wrong argument, its value, and the allowed values.
    path, video, line
        The place of the error: file or folder, name of the video, line counted from 1.

    Examples
    --------
    >>> error = AnnotationError("a.csv, line 3: 'x' is not a time.", path="a.csv", line=3)
    >>> error.line, error.video
    (3, None)
    """

    def __init__(
        self,
        *args: object,
        setting: str | None = None,
        value: object = None,
        allowed: object = None,
        path: object = None,
        video: str | None = None,
        line: int | None = None,
    ) -> None:
        super().__init__(*args)
        self.setting, self.value, self.allowed = setting, value, allowed
        self.path = None if path is None else str(path)
        self.video, self.line = video, line

    def __str__(self) -> str:
        return printable(super().__str__())


class OptionError(StepcutError, ValueError):
    """A setting has a value that is not allowed (`setting`, `value`, `allowed`)."""


class VideoError(StepcutError):
    """A video cannot be opened or decoded (`path`, `video`)."""


class FeatureError(StepcutError, ValueError):
    """Features are not usable: NaN, a wrong shape, a wrong dimension (`path`, `video`)."""


class AnnotationError(StepcutError):
    """A label file cannot be read or contradicts the video (`path`, `line`, `video`)."""


class DataError(StepcutError):
    """A data set is incomplete; the message names the missing files (`path`)."""


class OutputError(StepcutError, OSError):
    """A result cannot be written (`path`)."""


class ProcedureError(StepcutError):
    """A saved procedure cannot be read (`path`)."""


class NotLearned(StepcutError):
    """An object is used before it is fitted."""


class TrainingError(StepcutError):
    """Training diverged; the message names the iteration and the setting to change (`setting`)."""


class WorkerDied(StepcutError):
    """A worker process died repeatedly on one item; the message has the reason."""


class ExtraNeeded(StepcutError, ImportError):
    """An optional package is missing; the message contains the pip command."""


@contextmanager
def placed(**place: object) -> Iterator[None]:
    """Give an error of the block what it lacks of a `place`: path, video, setting."""
    try:
        yield
    except StepcutError as error:
        for name, value in place.items():
            if getattr(error, name) is None:
                setattr(error, name, value)
        raise


def printable(text: str) -> str:
    """Return `text` with invisible characters as %XX; line breaks and tabs stay."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else "".join(f"%{b:02X}" for b in _bytes(c))
        for c in text
    )


def _bytes(letter: str) -> bytes:
    # A lone surrogate is the undecodable byte of a file name.
    undecodable = "\udc80" <= letter <= "\udcff"
    return letter.encode(errors="surrogateescape" if undecodable else "surrogatepass")


def in_words(error: Exception) -> str:
    return str(error) if isinstance(error, StepcutError) else f"{type(error).__name__}: {error}"


def choose(setting: str, name: str, choices: Mapping[str, T]) -> T:
    if isinstance(name, str) and name in choices:
        return choices[name]
    raise unknown(setting, name, choices)


def wrong(setting: str, value: object, why: str, allowed: object = None) -> OptionError:
    """Return the error to raise: fps=0 is not a rate; give a number above 0."""
    text = f"{setting}={value!r}{'' if why[0] in ':,' else ' '}{why}"
    return OptionError(text, setting=setting, value=value, allowed=allowed)


def check_kind(setting: str, value: object, kinds: type | tuple[type, ...], wanted: str) -> None:
    if not isinstance(value, kinds):
        raise wrong(setting, value, f"is of type {type(value).__name__}; give {wanted}.", wanted)


def as_items(setting: str, value: Any, kinds: type | tuple[type, ...], wanted: str) -> list[Any]:
    alone = isinstance(value, str | bytes) or not isinstance(value, Iterable)
    items = [] if alone else list(value)
    if alone or not all(isinstance(one, kinds) for one in items):
        raise wrong(setting, value, f"is not allowed; give {wanted}.", wanted)
    return items


def unknown(
    setting: str, value: object, allowed: Iterable[str], where: str = "", hint: str = ""
) -> OptionError:
    """Return the error to raise; `where` precedes the message, `hint` follows it."""
    names = list(allowed)
    near = difflib.get_close_matches(str(value), names, n=1)
    meant = f"; did you mean {near[0]!r}?" if near else "."
    more = f" ... ({len(names)} in all)" if len(names) > MOST else ""
    listed = ", ".join(names[:MOST]) + more
    message = f"{setting}={value!r} is unknown{meant} Choose from {listed}."
    parts = (f"{where}:" if where else "", message, hint)
    text = " ".join(part for part in parts if part)
    return OptionError(text, setting=setting, value=value, allowed=names)
