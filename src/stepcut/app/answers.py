"""Shared parts of routes: pages and their files, JSON bodies, and error responses."""

import re
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stepcut.errors import OptionError, OutputError, StepcutError, in_words, printable

TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}


FOREVER = {"cache-control": "private, max-age=31536000, immutable"}


@cache
def static_files() -> dict[str, bytes]:
    """Static files of all pages, in memory."""
    files = (resources.files("stepcut.app") / "static").iterdir()
    return {file.name: file.read_bytes() for file in files if Path(file.name).suffix in TYPES}


@cache
def static_address() -> str:
    """Path of the static files; it changes with their content, so browsers can cache them."""
    return f"files/{sha256(b''.join(static_files().values())).hexdigest()[:12]}"


def page_routes(name: str, data: str, up: str = "") -> list[Route]:
    """Route of one page: `name.html` in the common frame, with `name.js` and all its imports.

    `data` is the first request of the page; `up` leads to the static files.
    """
    files, address = static_files(), up + static_address()
    kinds = {".css": "stylesheet", ".js": "modulepreload"}
    wanted = {*imports(f"{name}.js"), *(file for file in files if file.endswith(".css"))}
    # style.css is first, so that the other style sheets can override it
    ordered = sorted(wanted, key=lambda file: (file != "style.css", file))
    links = [f'<link rel="{kinds[Path(file).suffix]}" href="{address}/{file}">' for file in ordered]
    parts = {"links": "\n".join(links), "data": data, "script": f"{name}.js", "files": address}
    text = files["frame.html"].decode().replace("{body}", files[f"{name}.html"].decode().strip())
    for key, value in parts.items():
        text = text.replace(f"{{{key}}}", value)

    async def page(_: Request) -> Response:
        return Response(text, media_type="text/html", headers={"cache-control": "no-cache"})

    return [Route("/", page)]


def file_routes() -> list[Route]:
    async def file(request: Request) -> Response:
        name = request.path_params["file"]
        if name not in static_files():
            raise HTTPException(404, "No such file.")
        return Response(static_files()[name], media_type=TYPES[Path(name).suffix], headers=FOREVER)

    return [Route(f"/{static_address()}/{{file}}", file)]


def imports(script: str) -> set[str]:
    """A script and all scripts that it imports, directly or indirectly."""
    found, left = {script}, [script]
    while left:
        text = static_files()[left.pop()].decode()
        fresh = set(re.findall(r'from "\./(\w+\.js)"', text)) - found
        found |= fresh
        left += fresh
    return found


class Json(Response):
    """A JSON response; bytes of file names that are not UTF-8 are escaped."""

    media_type = "application/json"

    def __init__(
        self, content: Any, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(content, status, headers)

    def render(self, content: Any) -> bytes:
        try:
            return msgspec.json.encode(content)
        except UnicodeEncodeError:
            return msgspec.json.encode(_readable(msgspec.to_builtins(content)))


def _readable(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, dict):
        return {_readable(key): _readable(one) for key, one in value.items()}
    return [_readable(one) for one in value] if isinstance(value, list | tuple) else value


async def read_body(request: Request) -> dict[str, Any]:
    """Read the JSON object of a request."""
    try:
        body = await request.json()
    except (ValueError, RecursionError) as error:
        raise OptionError(f"the request is not JSON ({error}).") from error
    if not isinstance(body, dict):
        raise OptionError(f"the request is {body!r}; send a JSON object.", value=body)
    return body


def text_of(body: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = body.get(key, default)
    if not isinstance(value, str):
        raise OptionError(f"{key}={value!r} is not a string.", setting=key, value=value)
    return value


def attachment(name: str, data: bytes) -> Response:
    """Response that the browser saves as a file."""
    disposition = f"attachment; filename*=utf-8''{quote(name)}"
    return Response(
        data, media_type="application/octet-stream", headers={"content-disposition": disposition}
    )


async def error_response(_: Request, error: Exception) -> Response:
    """Return an error as a JSON message; any other than those of stepcut is a bug, and a 500."""
    if isinstance(error, HTTPException):
        return Json({"error": error.detail}, error.status_code, error.headers)
    status = 507 if isinstance(error, OutputError) else 422
    words = " ".join(in_words(error).split())
    if not isinstance(error, StepcutError):
        status, words = 500, f"This is a bug in stepcut; please report it ({words})."
    return Json({"error": words}, status)


HANDLERS: dict[Any, Any] = dict.fromkeys((HTTPException, StepcutError, Exception), error_response)
