"""Access control: requests need the token, a host name of this machine, and the same origin."""

import asyncio
import ipaddress
import secrets
import socket
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Sources that the page loads from this server only, and those that it never uses.
OWN = ("script", "style", "img", "media", "connect")
NONE = ("base-uri", "form-action", "frame-ancestors")
POLICY = [
    "default-src 'none'",
    *(f"{kind}-src 'self'" for kind in OWN),
    *(f"{kind} 'none'" for kind in NONE),
]
HEADERS = {
    "content-security-policy": "; ".join(POLICY),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
MEDIA = {"content-security-policy": "sandbox; default-src 'none'; media-src 'self'"}
"""Strangers may have made videos: opened alone, they can do nothing."""
LARGEST = 4 * 2**20
UPLOAD = "application/octet-stream"
PATIENCE = 5.0
"""Seconds for a JSON body to arrive, and between two pieces of an upload."""


def is_address(name: str, kind: str = "version") -> bool:
    try:
        return bool(getattr(ipaddress.ip_address(name), kind))
    except ValueError:
        return False


def impatient(scope: Scope, receive: Receive) -> Receive:
    upload = Headers(scope=scope).get("content-type", "").startswith(UPLOAD)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE
    whole = False

    async def receive_in_time() -> Message:
        nonlocal whole
        if whole:  # after the body, wait for the end of the connection without a limit
            return await receive()
        left = PATIENCE if upload else max(deadline - loop.time(), 0.0)
        try:
            message = await asyncio.wait_for(receive(), left)
        except TimeoutError as error:
            late = "The request body did not arrive in time."
            raise HTTPException(408, late, {"connection": "close"}) from error
        whole = not message.get("more_body", False)
        return message

    return receive_in_time


class Guard:
    """Refuse foreign requests, strip the token and add security headers."""

    def __init__(self, app: ASGIApp, token: str, host: str = "127.0.0.1") -> None:
        self.app, self.token, self.names = app, token, {host.lower()}
        self.any_address = is_address(host, "is_unspecified")
        if self.any_address:
            self.names.add(socket.gethostname().lower())
        if self.any_address or host == "localhost" or is_address(host, "is_loopback"):
            self.names |= {"127.0.0.1", "localhost", "::1"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        if refusal := self.refuse(scope):
            await JSONResponse({"error": refusal}, 403)(scope, receive, send_safely)
            return
        rest = scope["path"][len(self.token) + 1 :]
        inner: dict[str, Any] = {**scope, "path": rest, "raw_path": rest.encode()}
        await self.app(inner, impatient(scope, receive), send_safely)

    def refuse(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not self.accepts_host(host):
            return "Unknown host name. Use the address that stepcut printed."
        asks_only = scope["method"] in ("GET", "HEAD")
        own = headers.get("origin", f"http://{host}" if asks_only else "") == f"http://{host}"
        fetched = headers.get("sec-fetch-site", "none") in ("none", "same-origin")
        # Links in notebooks, and the file that opens the browser, come from another origin.
        followed = asks_only and headers.get("sec-fetch-dest") == "document"
        if not own or not (fetched or followed):
            return "Requests from other pages are refused."
        prefix = scope["path"][1 : len(self.token) + 2]
        if not secrets.compare_digest(prefix.encode(), f"{self.token}/".encode()):
            return "Wrong token. Use the address that stepcut printed."
        if not asks_only:
            length = headers.get("content-length", "0")
            kind = headers.get("content-type", "").partition(";")[0]
            if kind not in ("application/json", UPLOAD):
                return "Send application/json."
            if "transfer-encoding" in headers or not length.isdigit():
                return "Send the length of the request."
            if kind != UPLOAD and int(length) > LARGEST:
                return f"The request is too large; {LARGEST} bytes are allowed."
        return None

    def accepts_host(self, host: str) -> bool:
        """Prevent DNS rebinding, which needs a name: numbers reach an open server."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in self.names or (self.any_address and is_address(name))
