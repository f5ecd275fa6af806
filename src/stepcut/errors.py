"""The errors that stepcut raises, as one tree.

    StepcutError
      OptionError (ValueError)    a setting is wrong
      VideoError                  a video cannot be opened or decoded
      FeatureError (ValueError)   given features make no sense (NaN, shape, dimension)
      AnnotationError             a label file makes no sense (file, line)
      DataError                   a data set is incomplete (which files, how to get them)
      OutputError (OSError)       a result cannot be written (no space, something else stands there)
      ProcedureError              a saved procedure cannot be read (not one, damaged, made by a newer version)
      NotLearned                  predict before fit
      TrainingError               learning went wrong (a loss that is not a number)
      WorkerDied                  a worker process died on an item, more than once
      ExtraNeeded (ImportError)   an optional package is absent (the pip command)

A message has four parts: what, the value seen, what is allowed, what to do.
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

MOST = 40
"""Names that a sentence lists; a task may have hundreds of videos."""


class StepcutError(Exception):
    """Every error that stepcut raises on purpose; the command line prints it in one line and exits with 2."""

    def __str__(self) -> str:
        """The message, without characters that a terminal would obey: a file may be called anything."""
        return printable(super().__str__())


class OptionError(StepcutError, ValueError):
    """A setting is wrong."""


class VideoError(StepcutError):
    """A video cannot be opened or decoded."""


class FeatureError(StepcutError, ValueError):
    """Features that were given make no sense."""


class AnnotationError(StepcutError):
    """A label file makes no sense; the message names the file and the line."""


class DataError(StepcutError):
    """A data set is incomplete; the message names the files and how to get them."""


class OutputError(StepcutError, OSError):
    """A result cannot be written."""


class ProcedureError(StepcutError):
    """A saved procedure cannot be read."""


class NotLearned(StepcutError):
    """Something was asked of an object that has not been fitted yet."""


class TrainingError(StepcutError):
    """Learning went wrong; the message names the iteration and the setting to change."""


class WorkerDied(StepcutError):
    """A worker process died on an item each time it was tried; the message says how."""


class ExtraNeeded(StepcutError, ImportError):
    """An optional package is absent; the message holds the pip command."""


def printable(text: str) -> str:
    r"""The `text` with characters that cannot be seen as %XX; line breaks and tabs stay.

    >>> printable("a\x1b[2J b")
    'a%1B[2J b'
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else "".join(f"%{b:02X}" for b in _bytes(c))
        for c in text
    )


def _bytes(letter: str) -> bytes:
    """A letter as UTF-8; half a surrogate pair as the byte of a file name that it stands for, or as it is."""
    return letter.encode(
        errors="surrogateescape" if "\udc80" <= letter <= "\udcff" else "surrogatepass"
    )


def in_words(error: Exception) -> str:
    """What an `error` says; one that nobody foresaw is told with its kind."""
    return str(error) if isinstance(error, StepcutError) else f"{type(error).__name__}: {error}"


def choose(setting: str, name: str, choices: Mapping[str, T]) -> T:
    """Pick `choices[name]`; an unknown name is answered with the `setting`, the nearest name and the list.

    >>> choose("loss", "tc3i", {"tcc": 1, "tc3i": 2})
    2
    """
    if isinstance(name, str) and name in choices:
        return choices[name]
    raise OptionError(unknown(setting, name, choices))


def check_kind(setting: str, given: object, kinds: type | tuple[type, ...], wanted: str) -> None:
    """Refuse what is `given` for a `setting` and is of none of the `kinds`; `wanted` says in words what these are."""
    if not isinstance(given, kinds):
        raise OptionError(f"{setting}={given!r} is of type {type(given).__name__}; give {wanted}.")


def as_items(setting: str, given: Any, kinds: type | tuple[type, ...], wanted: str) -> list[Any]:
    """What is `given` for a `setting` as a list, each item known to be of one of the `kinds`; `wanted` in words.

    >>> as_items("names", ("pour", "stir"), str, "a list of names")
    ['pour', 'stir']
    """
    alone = isinstance(given, str | bytes) or not isinstance(given, Iterable)
    items = [] if alone else list(given)
    if alone or not all(isinstance(one, kinds) for one in items):
        raise OptionError(f"{setting}={given!r} is not allowed; give {wanted}.")
    return items


def unknown(setting: str, name: object, choices: Iterable[str]) -> str:
    """The sentence for a `name`, given for a `setting`, that is not among the `choices`."""
    known = list(choices)
    near = difflib.get_close_matches(str(name), known, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "."
    more = f" ... ({len(known)} in all)" if len(known) > MOST else ""
    return f"{setting}={name!r} is unknown{hint} Choose from {', '.join(known[:MOST])}{more}."
