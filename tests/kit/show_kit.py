"""Shared by several tests of pages."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from stepcut.procedure.edits import Edits
from stepcut.show.viewer.checks import CheckedVideo
from stepcut.show.viewer.server import Running, RunningViewer
from stepcut.show.viewer.state import Beside, Viewer


def parts_of(edits: Edits, video: str = "one") -> list[tuple[float, float, int]]:
    """The segments of one video without their confidence."""
    return [(part.start, part.end, part.step) for part in edits.document.parts[video]]


@dataclass(frozen=True)
class Answer:
    """A response of the server."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self) -> str:
        return self.content.decode()

    def json(self) -> Any:
        return json.loads(self.content)


class Served:
    """A running server with the requests of its page; paths are sent unchanged."""

    def __init__(self, running: Running) -> None:
        self.running = running
        address = urlsplit(self.running.address)
        self.host, self.token = address.netloc, address.path.strip("/")
        self.origin = f"http://{self.host}"

    def __enter__(self) -> Self:
        self.running.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.running.close()

    @property
    def workspace_root(self) -> Path:
        """The folder of the app."""
        return Path(self.get("api/home").json()["folder"])

    def ask(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> Answer:
        """Send one raw request on a new connection."""
        connection = http.client.HTTPConnection(self.host, timeout=20)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in {"host": self.host, **headers}.items():
                connection.putheader(name, value)
            if body is not None:
                connection.putheader("content-length", str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            return Answer(
                answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
            )
        finally:
            connection.close()

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self.ask("GET", f"/{self.token}/{path}", headers or {})

    def post(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Answer:
        named = {"origin": self.origin, "content-type": "application/json", **(headers or {})}
        return self.ask("POST", f"/{self.token}/{path}", named, json.dumps(body).encode())

    def upload(self, path: str, data: bytes) -> Answer:
        named = {"origin": self.origin, "content-type": "application/octet-stream"}
        return self.ask("POST", f"/{self.token}/{path}", named, data)


class Page(Served):
    """A running viewer."""

    def __init__(
        self, folder: Path, checked: Sequence[CheckedVideo] = (), beside: Beside | None = None
    ) -> None:
        self.viewer = Viewer(folder, checked, beside=beside)
        super().__init__(RunningViewer(self.viewer))

    @property
    def revision(self) -> str:
        """The revision that the page saw last."""
        return self.viewer.edits.revision

    def edit(self, change: Mapping[str, Any]) -> dict[str, Any]:
        """Make one edit that must succeed."""
        answer = self.post("api/edit", {"revision": self.revision, "edit": change})
        assert answer.status == 200, answer.text
        return dict(answer.json())


def wait(page: Served, job: Mapping[str, Any], state: str = "done") -> dict[str, Any]:
    """Wait for a job; it must end in this state."""
    now = dict(job)
    deadline = time.monotonic() + 120
    while now["state"] in ("waiting", "running") and time.monotonic() < deadline:
        time.sleep(0.05)
        now = dict(page.get(f"api/jobs/{job['id']}").json())
    assert now["state"] == state, now
    return now


def ask(page: Served, path: str, body: Any) -> dict[str, Any]:
    """Start a job and wait for it."""
    answer = page.post(path, body)
    assert answer.status == 200, answer.text
    return wait(page, answer.json())
