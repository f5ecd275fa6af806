"""The text of label files: its encoding, its JSON, and errors that name the file and line."""

import functools
import json
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from stepcut.errors import AnnotationError, OptionError

log = logging.getLogger("stepcut")
LIMIT = 256 * 2**20
"""The largest label file in bytes; it excludes a video passed by mistake."""


def fail(path: str | os.PathLike[str], what: str, advice: str, line: int | None = None) -> NoReturn:
    """Raise an `AnnotationError` for the label file at `path`: problem, line and advice."""
    where = f"{path}, line {line}" if line is not None else f"{path}"
    raise AnnotationError(f"{where}: {what}. {advice}.", path=path, line=line)


@contextmanager
def refusals(path: Path, what: str) -> Iterator[None]:
    """Turn any error of a reader into an `AnnotationError` for the file at `path`."""
    try:
        yield
    except (AnnotationError, OptionError) as error:
        if str(path) in str(error):
            raise
        raise AnnotationError(f"{path}: {error}", path=path) from error
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        detail = f"{type(error).__name__} {str(error)[:200]}"
        raise AnnotationError(
            f"{path}: this is not valid as {what} ({detail}). Export it again.", path=path
        ) from error
    except RecursionError as error:
        raise AnnotationError(
            f"{path}: the file is nested too deeply. Export it again.", path=path
        ) from error


def read_text(path: str | os.PathLike[str], encoding: str | None = None) -> str:
    """Return the text of the label file at `path`, with `\\n` as line end.

    Without an `encoding`, it is detected; see `decode`.
    """
    place = Path(path)
    try:
        size = place.stat().st_size
        plain = place.is_file()
        data = place.read_bytes() if plain and size <= LIMIT else b""
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        fail(place, f"cannot be opened ({why})", "Check path and permissions")
    if not plain:
        what = "folder" if place.is_dir() else "pipe or a device"
        advice = "Give a file in it, or read all with read_folder()"
        fail(place, f"is a {what}, not a label file", advice)
    if size > LIMIT:
        most = f"the limit for label files is {LIMIT / 2**20:,.0f} MB"
        fail(place, f"has {size / 2**20:,.0f} MB; {most}", "Is it a video?")
    text = decode(data, place, encoding)
    if "\0" in text:
        advice = "Give a label file in one of the formats of docs/formats.md"
        fail(place, "contains zero bytes, so it is not text", advice)
    if not text.strip():
        fail(place, "is empty", "Export it again, or delete it if the video has no labels")
    return re.sub("\r\n?", "\n", text)


_DECLARED = re.compile(rb"""^\s*<\?xml[^>]*?encoding=["']([\w.-]+)["']""")


def decode(data: bytes, path: Path | None = None, encoding: str | None = None) -> str:
    """Return the bytes `data` of the file at `path` as text.

    The encoding is the argument, the byte order mark, UTF-8 or the XML declaration, in this order.
    Otherwise guess between Western European, Cyrillic and Japanese, with a warning.

    >>> decode("\\ufeffcrêpe".encode("utf-8")), decode("crêpe".encode("latin-1"))
    ('crêpe', 'crêpe')
    """
    marked = "utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig"
    declared = _DECLARED.match(data)
    for name in [encoding] if encoding else [marked, declared[1].decode() if declared else ""]:
        try:
            text = data.decode(name) if name else None
        except UnicodeDecodeError as error:
            if encoding:
                line = data.count(b"\n", 0, error.start) + 1
                fail(path or "text", f"is not {encoding}: {error.reason}", "Check --encoding", line)
        except LookupError:
            if encoding:
                raise OptionError(
                    f"encoding={encoding!r} is unknown; give utf-8, cp1252, cp1251, shift_jis, "
                    "gb18030 or another encoding of Python.",
                    setting="encoding",
                    value=encoding,
                ) from None
        else:
            if text is not None:
                return text.removeprefix("\ufeff")
    if b"\0" in data:
        return data.decode("latin-1")  # the caller reports that this is not text
    guess = _guess(data)
    if guess is None:
        advice = "Set it: encoding='gb18030' in Python, --encoding gb18030 on the command line"
        fail(path or "text", "is not UTF-8, and its encoding is unclear", advice)
    if path is not None:
        advice = "If names look wrong, add --encoding NAME."
        warn_once(path.parent, f"label files are not UTF-8; read as {guess}. {advice}")
    return data.decode(guess)


def _guess(data: bytes) -> str | None:
    """Guess the encoding of text that is not UTF-8, from words with non-ASCII letters.

    Western words have few such letters; in Russian and Japanese nearly all are. Japanese contains
    kana, and Russian capitals only at the start of words.
    """
    words = re.findall(rb"[A-Za-z\x80-\xff]{2,}", data)
    letters = b"".join(word for word in words if not word.isascii())
    high = sum(byte >= 0x80 for byte in letters)
    try:
        japanese = data.decode("cp932")
    except UnicodeDecodeError:
        japanese = ""
    if re.search("[\u3041-\u30fa]", japanese) and not re.search("[\uff61-\uff9f]", japanese):
        return "cp932"
    if 2 * high <= len(letters):
        return "latin-1" if re.search(rb"[\x81\x8d\x8f\x90\x9d]", data) else "cp1252"
    russian = re.findall(r"[^\x00-\x7f]+", data.decode("cp1251", errors="replace"))
    word = re.compile("[«„“—– ]*([А-ЯЁ]?[а-яё]+|[А-ЯЁ]+)?[»”“…—– ]*")
    return "cp1251" if all(word.fullmatch(each) for each in russian) else None


@functools.cache
def warn_once(folder: Path, what: str) -> None:
    log.warning("%s: %s", folder, what)


def parse_json(text: str, path: Path) -> Any:
    """Return the value of the JSON file at `path`; an error has the line."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", None)
        what = f"is not JSON: {getattr(error, 'msg', error)}"
        fail(path, what, "Correct it, or export the file again", line)


def read_json(path: Path) -> Any:
    return parse_json(read_text(path), path)
