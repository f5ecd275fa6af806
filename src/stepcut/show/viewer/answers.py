"""Reading requests and wording answers: JSON bodies, errors as sentences, the page's own files."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from stepcut.errors import OptionError, OutputError, StepcutError
from stepcut.procedure.corrections.document import Part

TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}


def rows_of(parts: Sequence[Part]) -> list[list[float | int | None]]:
    """Parts as the page takes them: start, end, step, confidence."""
    return [[part.start, part.end, part.step, part.confidence] for part in parts]


async def read_body(request: Request) -> dict[str, Any]:
    """The JSON object that a request holds."""
    try:
        body = await request.json()
    except (ValueError, RecursionError) as error:
        raise OptionError(f"the request is not JSON ({error}).") from error
    if not isinstance(body, dict):
        raise OptionError(f"the request holds {body!r}; an object is wanted.")
    return body


async def http_error(_: Request, error: HTTPException) -> Response:
    """What is not there, or not now, as a sentence."""
    return JSONResponse({"error": error.detail}, error.status_code)


async def stepcut_error(_: Request, error: StepcutError) -> Response:
    """An error of stepcut's own: its sentence."""
    return JSONResponse({"error": " ".join(str(error).split())}, 507 if isinstance(error, OutputError) else 422)


def read_pages() -> dict[str, tuple[str, bytes]]:
    """The page's own files, read once: name -> (type, bytes)."""
    folder = resources.files("stepcut.show.viewer") / "static"
    return {
        file.name: (TYPES[Path(file.name).suffix], file.read_bytes())
        for file in folder.iterdir()
        if Path(file.name).suffix in TYPES
    }
