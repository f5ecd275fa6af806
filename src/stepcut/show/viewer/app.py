"""The routes of the viewer. Videos are asked for by their place in the list: no path of a request reaches the disk."""

from __future__ import annotations

import mimetypes
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from stepcut.colours import ink
from stepcut.errors import StepcutError, choose

# What reads videos is imported here: threads that answer requests would import it at once and find it half made.
from stepcut.features.video import probe
from stepcut.methods.contract import OPEN
from stepcut.procedure.corrections.document import Part, is_unnamed
from stepcut.procedure.corrections.log import StaleEdit
from stepcut.procedure.edits import Edits
from stepcut.procedure.taught import can_take_back, changes, take_back, teach_folder
from stepcut.progress import Hook
from stepcut.show.moments import picture_at
from stepcut.show.viewer.answers import http_error, read_body, read_pages, rows_of, stepcut_error
from stepcut.show.viewer.checks import CheckedVideo, Checker
from stepcut.show.viewer.exports import export, format_list
from stepcut.show.viewer.jobs import Job, Jobs, Work
from stepcut.show.viewer.proxy import KINDS, make_proxy
from stepcut.show.viewer.security import Guard
from stepcut.version import __version__


class Viewer:
    """What the routes share: the edits, the videos in their order, and the work in the background."""

    def __init__(
        self,
        folder: Path,
        checked: Sequence[CheckedVideo] = (),
        trust: bool = False,
        videos: Mapping[str, str] | None = None,
    ) -> None:
        """Read the folder.

        folder   of the procedure
        checked  new videos to show beside those that were learned from
        trust    run code of others that the procedure names
        videos   where videos lie now, by name: for procedures learned from features, or moved
        """
        self.folder, self.trust = folder, trust
        self.edits = Edits(folder)
        self.title = folder.resolve().name.removesuffix(".proc")
        self.checked = list(checked)
        learned = {**self.edits.outline.videos, **(videos or {})}
        self.names = [*learned, *(video.name for video in self.checked)]
        self.paths = [*learned.values(), *(video.path for video in self.checked)]
        self.jobs = Jobs()
        self.checker = Checker(folder, trust)
        self.pages = read_pages()
        self.picture = lru_cache(maxsize=256)(self._picture)

    def state(self) -> dict[str, Any]:
        """All that the page shows."""
        document, offered = self.edits.document, self.edits.outline.config.get("suggestions", {})
        videos = [
            {
                "name": name,
                "duration": document.durations[name],
                "parts": rows_of(parts),
                "editable": True,
                "known": [*self._taught(name), *document.known.get(name, ())],
                "corrected": bool(document.known.get(name)),
            }
            for name, parts in document.parts.items()
        ] + [
            {
                "name": new.name,
                "duration": new.duration,
                "parts": rows_of(new.parts),
                "editable": False,
                "check": new.report,
            }
            for new in self.checked
        ]
        for video, path in zip(videos, self.paths, strict=True):
            video["there"] = path is not None and Path(path).is_file()
        return {
            "title": self.title,
            "version": __version__,
            "revision": self.edits.revision,
            "undo": self.edits.next_undo,
            "redo": self.edits.next_redo,
            "taught": can_take_back(str(self.edits.outline.config.get("fingerprint", ""))),
            "steps": [
                {
                    "number": step.number,
                    "name": step.name,
                    "colour": step.colour,
                    "ink": ink(step.colour),
                    "suggested": offered.get(str(step.number), []) if is_unnamed(step.name) else [],
                }
                for step in document.steps
            ],
            "videos": videos,
            "formats": format_list(),
        }

    def _taught(self, name: str) -> list[tuple[float, float]]:
        """The stretches of a video, in seconds, that the procedure was taught."""
        rows = self.edits.outline.given.get(name)
        if rows is None:
            return []
        rate, duration = float(Fraction(self.edits.outline.config["rate"])), self.edits.document.durations[name]
        edges = np.flatnonzero(np.diff(np.concatenate([[False], rows != OPEN, [False]]).astype(int)))
        return [
            (int(start) / rate, duration if end == len(rows) else int(end) / rate)
            for start, end in edges.reshape(-1, 2)
        ]

    # ------------------------------------------------------------------ pages and state

    async def page(self, request: Request) -> Response:
        """One of the page's own files, from memory."""
        name = request.path_params.get("file", "index.html")
        if name not in self.pages:
            raise HTTPException(404, "There is no such file.")
        kind, data = self.pages[name]
        return Response(data, media_type=kind, headers={"cache-control": "no-cache"})

    async def show_state(self, _: Request) -> Response:
        """The whole state as JSON."""
        await run_in_threadpool(self.edits.refresh)
        return JSONResponse(self.state())

    async def edit(self, request: Request) -> Response:
        """Do, undo or redo one edit; the answer comes when it is on the disk."""
        body, verb = await read_body(request), request.url.path.rsplit("/", 1)[-1]
        revision = str(body.get("revision"))
        try:
            if verb == "edit":
                words = await run_in_threadpool(self.edits.do, body.get("edit", {}), revision)
            else:
                words = await run_in_threadpool(self.edits.undo if verb == "undo" else self.edits.redo, revision)
        except StaleEdit:
            sentence = "Changed in another window meanwhile: your change was not made. This is how it stands now."
            return JSONResponse({"error": sentence, "state": self.state()}, 409)
        return JSONResponse({"words": words, "state": self.state()})

    async def teach(self, request: Request) -> Response:
        """POST learns from the corrections, in the background; GET says how far it is, and at last what changed."""
        if request.method == "POST":
            await self._seen(request)
        job = self._job(request, self._teach, again=True)
        if job.state == "done":
            await run_in_threadpool(self.edits.refresh)
        return JSONResponse({**job.to_json(), "changes": job.result})

    async def suggest(self, request: Request) -> Response:
        """POST asks which videos to label next; GET says how far it is, and at last which, with the reasons."""
        job = self._job(request, lambda _: self.checker.procedure.suggest_why(), again=True)
        return JSONResponse({**job.to_json(), "videos": job.result})

    def _teach(self, hook: Hook) -> list[dict[str, Any]]:
        before, after = teach_folder(self.folder, trust=self.trust, progress=hook)
        shares = sorted(changes(before, after).items(), key=lambda item: -item[1])
        return [{"video": name, "share": share, "labelled": name in after.given} for name, share in shares]

    async def back(self, request: Request) -> Response:
        """Bring back the procedure as it was before it learned from corrections."""
        await self._seen(request)
        await run_in_threadpool(take_back, self.folder)
        await run_in_threadpool(self.edits.refresh)
        return JSONResponse({"words": "what was learned from corrections", "state": self.state()})

    async def _seen(self, request: Request) -> None:
        """The request must be made to the state as it is now."""
        await run_in_threadpool(self.edits.refresh)
        if (await read_body(request)).get("revision") != self.edits.revision:
            raise HTTPException(409, "Changed in another window meanwhile. Load the page again, then repeat it.")

    async def download(self, request: Request) -> Response:
        """The timelines in a format, as a file."""
        format, rate = request.query_params.get("format", ""), request.query_params.get("rate") or None
        timelines = self.edits.document.timelines()
        made = await run_in_threadpool(export, timelines, format, self.title, rate, self.edits.outline.videos)
        disposition = f"attachment; filename*=utf-8''{quote(made.name)}"
        return Response(made.data, media_type="application/octet-stream", headers={"content-disposition": disposition})

    # ------------------------------------------------------------------ videos

    async def video(self, request: Request) -> Response:
        """A video, whole or a range of bytes."""
        path = self._path(request)
        kind = mimetypes.guess_type(path.name)[0] or "video/mp4"
        return FileResponse(path, media_type=kind, headers={"cache-control": "private, max-age=3600"})

    def about(self, request: Request) -> Response:
        """What a video is: frame rate and codec."""
        info = probe(self._path(request))
        rate = float(info.rate) if info.rate else 25.0
        return JSONResponse({"rate": rate, "codec": info.codec, "width": info.width, "height": info.height})

    def poster(self, request: Request) -> Response:
        """A small picture from early in the video."""
        path, place = self._path(request), request.path_params["place"]
        headers = {"cache-control": "private, max-age=3600"}
        return Response(self.picture(str(path), self._poster_time(place)), media_type="image/jpeg", headers=headers)

    async def proxy(self, request: Request) -> Response:
        """POST asks for a copy that the browser can play; GET says how far it is."""
        path, kind = self._path(request), request.path_params["kind"]
        choose("kind", kind, KINDS)
        return JSONResponse(self._job(request, lambda hook: make_proxy(path, kind, hook)).to_json())

    async def proxy_file(self, request: Request) -> Response:
        """The finished copy."""
        job = self.jobs.get(f"/api{request.url.path}")
        if job is None or job.state != "done":
            raise HTTPException(404, "The copy is not ready.")
        return FileResponse(job.result, headers={"cache-control": "private, max-age=3600"})

    async def check(self, request: Request) -> Response:
        """POST asks for the check of a video; GET says how far it is, and at last what was found."""
        path = self._path(request)
        job = self._job(request, lambda hook: self.checker.check(str(path), hook))
        return JSONResponse({**job.to_json(), "report": job.result})

    def _job(self, request: Request, work: Work, again: bool = False) -> Job:
        path = request.url.path
        job = self.jobs.start(path, work, again) if request.method == "POST" else self.jobs.get(path)
        if job is None:
            raise HTTPException(404, "This work was not asked for.")
        return job

    def _path(self, request: Request) -> Path:
        place = request.path_params["place"]
        path = self.paths[place] if 0 <= place < len(self.paths) else None
        if path is None or not Path(path).is_file():
            raise HTTPException(404, "This video is not there.")
        return Path(path)

    def _poster_time(self, place: int) -> float:
        """The middle of the first segment: something is being done there."""
        parts = self.edits.outline.learned.parts.get(self.names[place], ()) or [Part(0, 2, 0)]
        return (parts[0].start + parts[0].end) / 2

    def _picture(self, path: str, time: float) -> bytes:
        return picture_at(path, time, height=200)


def make_app(viewer: Viewer, token: str, host: str = "127.0.0.1") -> Guard:
    """The whole application, guarded."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(viewer.jobs.close)

    routes = [
        Route("/", viewer.page),
        Route("/api/state", viewer.show_state),
        Route("/api/export", viewer.download),
        Route("/api/about/{place:int}", viewer.about),
        Route("/api/check/{place:int}", viewer.check, methods=["GET", "POST"]),
        Route("/api/proxy/{place:int}/{kind}", viewer.proxy, methods=["GET", "POST"]),
        Route("/api/teach", viewer.teach, methods=["GET", "POST"]),
        Route("/api/suggest", viewer.suggest, methods=["GET", "POST"]),
        Route("/api/back", viewer.back, methods=["POST"]),
        *(Route(f"/api/{verb}", viewer.edit, methods=["POST"]) for verb in ("edit", "undo", "redo")),
        Route("/video/{place:int}", viewer.video),
        Route("/poster/{place:int}", viewer.poster),
        Route("/proxy/{place:int}/{kind}", viewer.proxy_file),
        Route("/{file}", viewer.page),
    ]
    handlers: dict[Any, Any] = {HTTPException: http_error, StepcutError: stepcut_error}
    return Guard(Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan), token, host)
