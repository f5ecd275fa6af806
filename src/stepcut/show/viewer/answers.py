"""What all routes share: the page's own files, JSON bodies, errors as sentences, and the routes of jobs."""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from stepcut.errors import OptionError, OutputError, StepcutError
from stepcut.show.viewer.jobs import Job, Jobs

TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}


class Pages:
    """The files of the page, from memory; `start` is the one at the root."""

    def __init__(self, start: str) -> None:
        files = (resources.files("stepcut.show.viewer") / "static").iterdir()
        self.start = start
        self.files = {
            file.name: file.read_bytes() for file in files if Path(file.name).suffix in TYPES
        }

    async def page(self, request: Request) -> Response:
        """One of the files."""
        name = request.path_params.get("file", self.start)
        if name not in self.files:
            raise HTTPException(404, "There is no such file.")
        kind = TYPES[Path(name).suffix]
        return Response(self.files[name], media_type=kind, headers={"cache-control": "no-cache"})

    def routes(self) -> list[Route]:
        """The page and its files."""
        return [Route("/", self.page), Route("/{file}", self.page)]


class JobRoutes:
    """Look at jobs, cancel and resume them; everybody with the token sees all of them."""

    def __init__(self, jobs: Jobs) -> None:
        self.jobs = jobs

    def show_all(self, _: Request) -> Response:
        """All jobs, the oldest first."""
        return JSONResponse({"jobs": [job.to_json() for job in self.jobs.all()]})

    def show(self, request: Request) -> Response:
        """One job."""
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
            raise HTTPException(404, "There is no such job.")
        return job

    def routes(self) -> list[Route]:
        """Their paths."""
        return [
            Route("/api/jobs", self.show_all),
            Route("/api/jobs/{id}", self.show),
            Route("/api/jobs/{id}/{verb}", self.change, methods=["POST"]),
        ]


async def read_body(request: Request) -> dict[str, Any]:
    """The JSON object that a request holds."""
    try:
        body = await request.json()
    except (ValueError, RecursionError) as error:
        raise OptionError(f"the request is not JSON ({error}).") from error
    if not isinstance(body, dict):
        raise OptionError(f"the request holds {body!r}; an object is wanted.")
    return body


def text_of(body: Mapping[str, Any], key: str, default: str | None = None) -> str:
    """A text that a request must hold, unless there is a default."""
    value = body.get(key, default)
    if not isinstance(value, str):
        raise OptionError(f"{key}={value!r} is not a text.")
    return value


def attachment(name: str, data: bytes) -> Response:
    """A file to be saved under this name."""
    disposition = f"attachment; filename*=utf-8''{quote(name)}"
    return Response(
        data, media_type="application/octet-stream", headers={"content-disposition": disposition}
    )


async def tell(_: Request, error: Exception) -> Response:
    """What is not there, or not now, or wrong, as a sentence."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)
    return JSONResponse(
        {"error": " ".join(str(error).split())}, 507 if isinstance(error, OutputError) else 422
    )


HANDLERS: dict[Any, Any] = {HTTPException: tell, StepcutError: tell}
