"""Shared parts of routes: static files, JSON bodies, error responses, and the routes of jobs."""

import re
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from stepcut.app.jobs import Job, Jobs
from stepcut.errors import OptionError, OutputError, StepcutError

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
    """A JSON response that encodes large states quickly."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


class JobRoutes:
    """Routes that show, cancel and resume jobs; the token gives access to all jobs."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs

    def show_all(self, _: Request) -> Response:
        """Return all jobs, oldest first."""
        return JSONResponse({"jobs": [job.to_json() for job in self.jobs.all()]})

    def show(self, request: Request) -> Response:
        return JSONResponse(self._job(request).to_json())

    async def change(self, request: Request) -> Response:
        """Cancel, resume or forget a job."""
        await read_body(request)
        verbs = {
            "cancel": self.jobs.cancel,
            "resume": self.jobs.resume,
            "forget": self.jobs.forget,
        }
        verb = verbs.get(request.path_params["verb"])
        if verb is None:
            raise HTTPException(404, "A job can be cancelled, resumed or forgotten.")
        job = await run_in_threadpool(self._job, request)
        await run_in_threadpool(verb, job)
        return JSONResponse(job.to_json())

    def _job(self, request: Request) -> Job:
        job = self.jobs.get(request.path_params["id"])
        if job is None:
            raise HTTPException(404, "No such job.")
        return job

    def routes(self) -> list[Route]:
        return [
            Route("/api/jobs", self.show_all),
            Route("/api/jobs/{id}", self.show),
            Route("/api/jobs/{id}/{verb}", self.change, methods=["POST"]),
        ]


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
    """Return an error as a JSON message."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)
    return JSONResponse(
        {"error": " ".join(str(error).split())}, 507 if isinstance(error, OutputError) else 422
    )


HANDLERS: dict[Any, Any] = {HTTPException: error_response, StepcutError: error_response}
