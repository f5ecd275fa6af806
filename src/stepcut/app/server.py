"""Start the app or the viewer, open the browser, and stop on SIGINT and SIGTERM."""

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import tempfile
import threading
import webbrowser
from html import escape
from pathlib import Path
from typing import Any, Self

import msgspec
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from stepcut.app.checks import short_hash
from stepcut.app.routes import make_app
from stepcut.app.state import Viewer
from stepcut.app.workspace import Workspace
from stepcut.errors import OptionError, check_kind
from stepcut.files import cache_dir, state_folder, write_bytes
from stepcut.procedure.folder import is_procedure, new_folder
from stepcut.procedure.procedure import Procedure

PATIENCE = 5.0
TOKEN = re.compile(r"[\w-]{32}", re.ASCII)
REDIRECT = """<!doctype html><meta charset="utf-8"><title>stepcut</title>
<meta http-equiv="refresh" content="0; url=ADDRESS"><p><a href="ADDRESS">Open stepcut</a></p>
"""


class TimedProtocol(H11Protocol):
    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._asked = self.loop.time()
        self.loop.call_later(PATIENCE, self._close_idle)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._busy():
            self._asked = self.loop.time()

    def _busy(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _close_idle(self) -> None:
        if not self._busy() and self.loop.time() - self._asked >= PATIENCE:
            self.transport.close()
        if not self.transport.is_closing():
            self.loop.call_later(PATIENCE, self._close_idle)


class Running:
    def __init__(self, workspace: Workspace, port: int = 0, host: str = "127.0.0.1") -> None:
        self.workspace = workspace
        only = workspace.only
        page = "" if only is None else f"p/{workspace.id_of(only.folder)}/"
        place = (only.folder if only else workspace.files.root).resolve()
        self._socket, token = _listen_again(place, host, port)
        shown = f"[{host}]" if ":" in host else host
        self.address = f"http://{shown}:{self._socket.getsockname()[1]}/{token}/{page}"
        config = uvicorn.Config(
            make_app(workspace, token, host),
            http=TimedProtocol,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread: threading.Thread | None = None
        self._redirect: Path | None = None

    @property
    def viewer(self) -> Viewer:
        if self.workspace.only is None:
            raise AttributeError("the app has many procedures; see workspace.viewer(id).")
        return self.workspace.only

    def __repr__(self) -> str:
        if self.workspace.only is None:
            return f"<App at {self.address}, in {self.workspace.files.root}>"
        return f"<Viewer at {self.address}, edits are saved in {self.viewer.folder}>"

    def _repr_html_(self) -> str:
        link = (
            f'<a href="{escape(self.address)}" target="_blank" rel="noopener">Open the viewer</a>'
        )
        return f"<p>{link}; edits are saved in {escape(str(self.viewer.folder))}</p>"

    def open_browser(self, place: str = "") -> None:
        """Open a private file that redirects: all users can see the token in command lines."""
        folder = cache_dir() / "opening"
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, suffix=".html")  # readable by this user only
        self._redirect = Path(name)
        with open(handle, "w", encoding="utf-8") as file:
            file.write(REDIRECT.replace("ADDRESS", escape(self.address + place)))
        address = self._redirect.as_uri()
        threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()

    def run(self) -> None:
        try:
            with contextlib.closing(self._socket), contextlib.suppress(KeyboardInterrupt):
                self._server.run(sockets=[self._socket])
        finally:
            if self._redirect is not None:
                self._redirect.unlink(missing_ok=True)

    def start(self) -> Self:
        self._thread = threading.Thread(target=self.run, daemon=True)
        self._thread.start()
        return self

    def close(self) -> None:
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join()


def _listen_again(place: Path, host: str, port: int) -> tuple[socket.socket, str]:
    """Listen where the last server of this `place` did, so that open pages find it again."""
    digest = hashlib.sha256(os.fsencode(place)).hexdigest()[:16]
    file = state_folder() / "app" / f"{digest}.json"
    known: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        if file.lstat().st_mode & 0o077 == 0 and not file.is_symlink():
            known = msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    token, before = known.get("token"), known.get("port")
    if not isinstance(token, str) or not TOKEN.fullmatch(token):
        token = secrets.token_urlsafe(24)  # 192 bits
    if port == 0 and isinstance(before, int):
        try:
            return _listen(host, before), token
        except OptionError:  # another server of this place runs
            return _listen(host, 0), token
    listening = _listen(host, port)
    with contextlib.suppress(OSError):  # without a state folder, every start is new
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(0o600)
        now = {"port": listening.getsockname()[1], "token": token}
        write_bytes(file, msgspec.json.encode(now), follow=False)
    return listening, token


def _listen(host: str, port: int) -> socket.socket:
    try:
        if not 0 <= port < 65536:
            raise OverflowError("ports are numbers from 0 to 65535")
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        return socket.create_server(address, family=family, dualstack_ipv6=both)
    except (OSError, OverflowError, TypeError) as error:
        raise OptionError(
            f"host={host!r}, port={port}: cannot serve there ({error}). "
            "Choose another --port, or 0 for a free one.",
            setting="port",
            value=port,
        ) from error


def kept(shown: Procedure, whose: str = "") -> Path:
    """Save a procedure or labels without a folder; `whose` separates annotators."""
    check_kind("procedure", shown, Procedure, "a procedure, or the path of one")
    segments = {
        name: [(s.start, s.end, s.step) for s in timeline]
        for name, timeline in shown.timelines.items()
    }
    held = [shown.config.fingerprint, shown.steps, segments, *filter(None, [whose])]
    name = f"{short_hash(json.dumps(held, sort_keys=True))}.proc"
    folder, before = (place / "viewed" / name for place in (state_folder(), cache_dir()))
    if not folder.exists() and is_procedure(before):  # of version 0.3
        with new_folder(folder) as fresh:
            shutil.copytree(before, fresh / name)
            os.rename(fresh / name, folder)
    if not folder.exists():
        shown.save(folder)
    return folder
