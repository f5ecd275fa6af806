"""The routes of the viewer. Videos are asked for by their place in the list: no path of a request reaches the disk."""

import mimetypes
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from stepcut.errors import OptionError, OutputError, StepcutError, choose

# What reads videos is imported here: threads that answer requests would import it at once and find it half made.
from stepcut.features.video.probe import probe
from stepcut.files.names import VIDEO_SUFFIXES
from stepcut.formats import FORMATS, write, write_folder
from stepcut.procedure.corrections.log import StaleEdit
from stepcut.procedure.taught import take_back
from stepcut.rate import as_rate
from stepcut.show.film import KINDS, make_proxy
from stepcut.show.viewer.jobs import Work
from stepcut.show.viewer.security import Guard
from stepcut.show.viewer.state import Viewer
from stepcut.timeline import Timeline

TYPES = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
LINKED = ("elan", "boris", "label-studio")
"""Formats whose program opens the video by the path that the file gives."""
A_WHILE = {"cache-control": "private, max-age=3600"}


class Routes:
    """What is answered to each request."""

    def __init__(self, viewer: Viewer) -> None:
        self.viewer, self.jobs = viewer, viewer.jobs
        files = (resources.files("stepcut.show.viewer") / "static").iterdir()
        self.pages = {
            file.name: file.read_bytes() for file in files if Path(file.name).suffix in TYPES
        }

    # ------------------------------------------------------------------ pages and state

    async def page(self, request: Request) -> Response:
        """One of the page's own files, from memory."""
        name = request.path_params.get("file", "index.html")
        if name not in self.pages:
            raise HTTPException(404, "There is no such file.")
        kind = TYPES[Path(name).suffix]
        return Response(self.pages[name], media_type=kind, headers={"cache-control": "no-cache"})

    def show_state(self, _: Request) -> Response:
        """The whole state as JSON."""
        self.viewer.edits.refresh()
        return JSONResponse(self.viewer.state())

    async def edit(self, request: Request) -> Response:
        """Do, undo or redo one edit, or say what a check makes of a step; the answer comes when it is on the disk."""
        body, verb = await read_body(request), request.url.path.rsplit("/", 1)[-1]
        edits = self.viewer.edits
        severity = partial(
            edits.do, {"do": "severity", "step": body.get("step"), "severity": body.get("severity")}
        )
        changes: dict[str, Callable[[str], str]] = {
            "undo": edits.undo,
            "redo": edits.redo,
            "severity": severity,
        }
        change = changes.get(verb, partial(edits.do, body.get("edit", {})))
        try:
            words = await run_in_threadpool(change, str(body.get("revision")))
        except StaleEdit:
            sentence = "Changed in another window meanwhile: your change was not made. This is how it stands now."
            return JSONResponse({"error": sentence, "state": self.viewer.state()}, 409)
        return JSONResponse({"words": words, "state": self.viewer.state()})

    async def teach(self, request: Request) -> Response:
        """POST learns from the corrections, in the background; GET says how far it is, and at last what changed."""
        if request.method == "POST":
            await self._seen(request)
        return self._job(request, self.viewer.teach, "changes")

    async def suggest(self, request: Request) -> Response:
        """POST asks which videos to label next; GET says how far it is, and at last which, with the reasons."""
        return self._job(request, lambda _: self.viewer.procedure.suggest_why(), "videos")

    async def back(self, request: Request) -> Response:
        """Bring back the procedure as it was before it learned from corrections."""
        await self._seen(request)
        await run_in_threadpool(take_back, self.viewer.folder)
        await run_in_threadpool(self.viewer.look_again)
        await run_in_threadpool(self.viewer.edits.refresh)
        return JSONResponse(
            {"words": "what was learned from corrections", "state": self.viewer.state()}
        )

    async def _seen(self, request: Request) -> None:
        """The request must be made to the state as it is now."""
        await run_in_threadpool(self.viewer.edits.refresh)
        if (await read_body(request)).get("revision") != self.viewer.edits.revision:
            raise HTTPException(
                409, "Changed in another window meanwhile. Load the page again, then repeat it."
            )

    def download(self, request: Request) -> Response:
        """The timelines in a format, as a file."""
        format, rate = (
            request.query_params.get("format", ""),
            request.query_params.get("rate") or None,
        )
        self.viewer.edits.refresh()
        timelines = self.viewer.edits.outline.timelines
        name, data = export(timelines, format, self.viewer.title, rate, self.viewer.videos)
        disposition = f"attachment; filename*=utf-8''{quote(name)}"
        return Response(
            data,
            media_type="application/octet-stream",
            headers={"content-disposition": disposition},
        )

    # ------------------------------------------------------------------ videos

    async def video(self, request: Request) -> Response:
        """A video, whole or a range of bytes."""
        path = self._path(request)
        if (
            path.resolve().suffix.lower() not in VIDEO_SUFFIXES
        ):  # a stranger's procedure may name any file
            await run_in_threadpool(probe, path)
        kind = mimetypes.guess_type(path.name)[0] or "video/mp4"
        return FileResponse(path, media_type=kind, headers=A_WHILE)

    def about(self, request: Request) -> Response:
        """What a video is: frame rate and codec."""
        info = probe(self._path(request))
        rate = float(info.rate) if info.rate else 25.0
        return JSONResponse(
            {"rate": rate, "codec": info.codec, "width": info.width, "height": info.height}
        )

    def poster(self, request: Request) -> Response:
        """A small picture from early in the video."""
        path, place = self._path(request), request.path_params["place"]
        return Response(
            self.viewer.picture(str(path), self.viewer.poster_time(place)),
            media_type="image/jpeg",
            headers=A_WHILE,
        )

    async def proxy(self, request: Request) -> Response:
        """POST asks for a copy that the browser can play; GET says how far it is."""
        path, kind = self._path(request), request.path_params["kind"]
        choose("kind", kind, KINDS)
        return self._job(request, lambda hook: make_proxy(path, kind, hook))

    async def proxy_file(self, request: Request) -> Response:
        """The finished copy."""
        job = self.jobs.get(f"/api{request.url.path}")
        if job is None or job.state != "done":
            raise HTTPException(404, "The copy is not ready.")
        return FileResponse(job.result, headers=A_WHILE)

    async def check(self, request: Request) -> Response:
        """POST asks for the check of a video; GET says how far it is, and at last what was found."""
        path = self._path(request)
        return self._job(
            request,
            lambda hook: self.viewer.procedure.check(path, progress=hook).to_json(),
            "report",
        )

    def _job(self, request: Request, work: Work, result: str = "") -> Response:
        """How the work of this request stands; one that gives a `result` of this name is done anew when asked again."""
        path = request.url.path
        job = (
            self.jobs.start(path, work, bool(result))
            if request.method == "POST"
            else self.jobs.get(path)
        )
        if job is None:
            raise HTTPException(404, "This work was not asked for.")
        return JSONResponse({**job.to_json(), **({result: job.result} if result else {})})

    def _path(self, request: Request) -> Path:
        place = request.path_params["place"]
        path = self.viewer.paths[place] if 0 <= place < len(self.viewer.paths) else None
        if path is None or not Path(path).is_file():
            raise HTTPException(404, "This video is not there.")
        return Path(path)


def make_app(viewer: Viewer, token: str, host: str = "127.0.0.1") -> Guard:
    """The whole application, guarded."""
    asked = Routes(viewer)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(viewer.jobs.close)

    routes = [
        Route("/", asked.page),
        Route("/api/state", asked.show_state),
        Route("/api/export", asked.download),
        Route("/api/about/{place:int}", asked.about),
        Route("/api/check/{place:int}", asked.check, methods=["GET", "POST"]),
        Route("/api/proxy/{place:int}/{kind}", asked.proxy, methods=["GET", "POST"]),
        Route("/api/teach", asked.teach, methods=["GET", "POST"]),
        Route("/api/suggest", asked.suggest, methods=["GET", "POST"]),
        Route("/api/back", asked.back, methods=["POST"]),
        *(
            Route(f"/api/{verb}", asked.edit, methods=["POST"])
            for verb in ("edit", "undo", "redo", "severity")
        ),
        Route("/video/{place:int}", asked.video),
        Route("/poster/{place:int}", asked.poster),
        Route("/proxy/{place:int}/{kind}", asked.proxy_file),
        Route("/{file}", asked.page),
    ]
    handlers: dict[Any, Any] = {HTTPException: tell, StepcutError: tell}
    return Guard(
        Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan), token, host
    )


def export(
    timelines: Mapping[str, Timeline],
    format: str,
    title: str,
    rate: str | None,
    videos: Mapping[str, str | None],
) -> tuple[str, bytes]:
    """Write timelines through `stepcut.formats`, tables safe for spreadsheets; gives a file name, after the `title`,
    and its bytes. `rate`: frames per second, where the format counts frames; `videos`: for programs that open them."""
    chosen = choose("format", format, FORMATS)
    if rate is not None:
        as_rate(rate, "rate")
    if format in LINKED:
        timelines = {
            name: replace(t, video=videos.get(name) or name) for name, t in timelines.items()
        }
    with tempfile.TemporaryDirectory() as folder:
        if chosen.many:
            path = Path(folder) / f"timelines{chosen.suffix}"
            write(path, timelines, format, rate, spreadsheet=True)
            return f"{title}-{format}{chosen.suffix}", path.read_bytes()
        write_folder(f"{folder}/files", timelines, format, rate, spreadsheet=True)
        packed = shutil.make_archive(f"{folder}/packed", "zip", f"{folder}/files")
        return f"{title}-{format}.zip", Path(packed).read_bytes()


async def read_body(request: Request) -> dict[str, Any]:
    """The JSON object that a request holds."""
    try:
        body = await request.json()
    except (ValueError, RecursionError) as error:
        raise OptionError(f"the request is not JSON ({error}).") from error
    if not isinstance(body, dict):
        raise OptionError(f"the request holds {body!r}; an object is wanted.")
    return body


async def tell(_: Request, error: HTTPException | StepcutError) -> Response:
    """What is not there, or not now, or wrong, as a sentence."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)
    return JSONResponse(
        {"error": " ".join(str(error).split())}, 507 if isinstance(error, OutputError) else 422
    )
