"""The webhook of `watch` and `guide`: post each record as JSON, retry, and report what was lost."""

import json
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any, Self
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit

from stepcut.errors import OptionError

RETRY_AFTER = (2.0, 10.0, 60.0)
"""Seconds before the second, third and last attempt to deliver a record."""


def check_webhook(address: str) -> None:
    """Refuse an invalid web address without showing it, since it may contain secrets."""
    if "@" in address.partition("://")[2].partition("/")[0]:
        raise OptionError(
            "--webhook contains a user or a password before an @, which stepcut does not send. "
            "Remove them.",
            setting="webhook",
        )
    try:
        parts = urlsplit(address)
        fine = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        fine = False
    if not fine or not address.isascii() or not address.isprintable() or " " in address:
        raise OptionError(
            "--webhook is not a web address. Use http:// or https:// and a host, without spaces.",
            setting="webhook",
        )


def shown(address: str) -> str:
    """Return the scheme and host of an `address`; the rest may be a secret.

    >>> shown("https://example.org:8443/hook?token=abc")
    'https://example.org:8443'
    """
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc}"


@dataclass
class Deliveries:
    """Records to send to a web `address`, in the order in which they were added."""

    address: str
    waiting: list[tuple[float, int, Mapping[str, Any]]] = field(default_factory=list)
    """(time of the next attempt, number of attempts so far, record)."""

    def add(self, record: Mapping[str, Any]) -> None:
        self.waiting.append((time.monotonic(), 0, record))

    def attempt(self) -> Iterator[tuple[Mapping[str, Any], str, bool]]:
        """Send what is due; yield (record, error, whether it was the last attempt) per failure."""
        due = [one for one in self.waiting if one[0] <= time.monotonic()]
        for one in due:
            _, tried, record = one
            trouble = post(self.address, record)
            self.waiting.remove(one)
            if not trouble:
                continue
            last = tried == len(RETRY_AFTER)
            if not last:
                self.waiting.append((time.monotonic() + RETRY_AFTER[tried], tried + 1, record))
            yield record, trouble, last


class Sender(threading.Thread):
    """Delivers records in the background until the end of its block, and then what is left."""

    def __init__(self, address: str, say: Callable[[str], None]) -> None:
        super().__init__(name="stepcut-webhook", daemon=True)
        self.deliveries, self.say, self.lost = Deliveries(address), say, 0
        self._ending = threading.Event()

    def add(self, record: Mapping[str, Any]) -> None:
        self.deliveries.add(record)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self.join()

    def run(self) -> None:
        while self.deliveries.waiting or not self._ending.is_set():
            for _, trouble, given_up in self.deliveries.attempt():
                self.lost += given_up
                more = "This was the last attempt." if given_up else "It will be tried again."
                self.say(f"{trouble} {more}")
            self._ending.wait(0.2)
            if self._ending.is_set() and self.deliveries.waiting:
                time.sleep(0.2)


def post(address: str, record: Mapping[str, Any], patience: float = 10.0) -> str:
    """Post a `record` as JSON within `patience` seconds; return the error, or an empty string."""
    found = [f"{shown(address)}: no complete answer within {patience:g} s."]
    # In a thread, because the timeout of a connection restarts with every received byte.
    sender = threading.Thread(
        target=lambda: found.append(_send(address, record, patience)), daemon=True
    )
    sender.start()
    sender.join(patience)
    return found[-1]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirected POST would become an empty GET."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def _send(address: str, record: Mapping[str, Any], patience: float) -> str:
    headers = {"Content-Type": "application/json", "User-Agent": "stepcut"}
    request = urllib.request.Request(address, json.dumps(record).encode(), headers)
    opener = urllib.request.build_opener(_NoRedirects)
    try:
        with opener.open(request, timeout=patience):
            return ""
    except HTTPError as error:
        why = f"it answered {error.code} {error.reason}".rstrip()
        if 300 <= error.code < 400:
            why += "; stepcut does not follow redirects, so use the final address with --webhook"
        error.close()
    except URLError as error:
        why = f"{error.reason}"
    except (OSError, HTTPException) as error:  # the last, where no web server answers
        why = f"{error}"
    return f"{shown(address)}: the webhook was not delivered ({why})."
