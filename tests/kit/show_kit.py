"""Helpers of the viewer and app tests."""

import http.client
import json
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from stepcut.app.server import Running
from stepcut.app.workspace import Workspace


def parts_of(edits, video="one"):
    number = edits.document.numbers
    return [(one.start, one.end, number[one.step]) for one in edits.document.segments[video]]


def clicks_of(edits, video="one"):
    number = edits.document.numbers
    return [(one.start, number[one.step]) for one in edits.document.said.videos[video].clicks]


def covered_of(edits):
    said = edits.document.said.videos
    return {video: one.annotated for video, one in said.items() if one.annotated}


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def text(self):
        return self.content.decode()

    def json(self):
        return json.loads(self.content)


class Served:
    """A client of a running server that sends paths unchanged."""

    def __init__(self, running):
        self.running = running
        address = urlsplit(self.running.address)
        self.host, self.token = address.netloc, address.path.strip("/")  # with the page of `view`
        self.origin = f"http://{self.host}"

    def __enter__(self):
        self.running.start()
        return self

    def __exit__(self, *_):
        self.running.close()

    @property
    def workspace_root(self):
        return Path(self.get("api/home").json()["folder"])

    def ask(self, method, path, headers, body=None):
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

    def get(self, path, headers=None):
        return self.ask("GET", f"/{self.token}/{path}", headers or {})

    def post(self, path, body, headers=None):
        named = {"origin": self.origin, "content-type": "application/json", **(headers or {})}
        return self.ask("POST", f"/{self.token}/{path}", named, json.dumps(body).encode())

    def upload(self, path, data):
        named = {"origin": self.origin, "content-type": "application/octet-stream"}
        return self.ask("POST", f"/{self.token}/{path}", named, data)


def place_of(app, title="tea"):
    found = app.get("api/home").json()["procedures"]
    return f"p/{next(one['id'] for one in found if one['title'] == title)}"


class Page(Served):
    def __init__(self, folder, checked=(), beside=None, videos=None):
        space = Workspace.around(folder, checked=checked, beside=beside, videos=videos)
        super().__init__(Running(space))
        self.viewer = self.running.viewer

    @property
    def keys(self):
        return [video["key"] for video in self.get("api/state").json()["videos"]]

    @property
    def revision(self):
        return self.viewer.edits.revision

    def edit(self, change):
        answer = self.post("api/edit", {"revision": self.revision, "edit": change})
        assert answer.status == 200, answer.text
        return dict(answer.json())


def wait(page, job, state="done"):
    now = dict(job)
    deadline = time.monotonic() + 120
    while now["state"] in ("waiting", "running") and time.monotonic() < deadline:
        time.sleep(0.05)
        now = dict(page.get(f"api/jobs/{job['id']}").json())
    assert state in (None, now["state"]), now
    return now


def ask(page, path, body):
    answer = page.post(path, body)
    assert answer.status == 200, answer.text
    return wait(page, answer.json())
