"""Routes of one procedure. Requests name videos by key, so their paths never reach the disk."""

import mimetypes
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Route

from stepcut.app.answers import (
    HANDLERS,
    JobRoutes,
    Json,
    attachment,
    file_routes,
    page_routes,
    read_body,
    text_of,
)
from stepcut.app.choice import below, upload
from stepcut.app.export import check_request, pack, preview
from stepcut.app.jobs import FINISHED, Job
from stepcut.app.security import Guard
from stepcut.app.state import Viewer
from stepcut.errors import OptionError, VideoError, as_items, choose
from stepcut.evaluation.budget import time_budget
from stepcut.evaluation.groups import compare_groups

# Imported here, because concurrent imports in request threads can see partial modules.
from stepcut.features.video.probe import probe
from stepcut.files.names import VIDEO_SUFFIXES, safe_name
from stepcut.procedure.corrections.log import StaleEdit
from stepcut.procedure.taught import take_back
from stepcut.show.video import KINDS, proxy_of

A_WHILE = {"cache-control": "private, max-age=3600"}
NEXT = 3
"""Number of suggested videos."""


class Routes:
    def __init__(self, viewer: Viewer) -> None:
        self.viewer, self.jobs = viewer, viewer.jobs

    # ------------------------------------------------------------------ document

    def show_state(self, request: Request) -> Response:
        """Return the whole state as JSON; nothing if its stamp is the one that is `known`."""
        self.viewer.edits.refresh()
        known = request.query_params.get("known") == self.viewer.stamp
        return Json({} if known else self.viewer.state())

    async def edit(self, request: Request) -> Response:
        """Apply, undo or redo one edit, or set a step's severity; answers when it is on disk."""
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
            sentence = "Another window changed the procedure, so your change was not saved."
            state = await run_in_threadpool(self.viewer.state)
            return JSONResponse({"error": sentence, "state": state}, 409)
        return Json({"words": words, "state": await run_in_threadpool(self.viewer.state)})

    async def teach(self, request: Request) -> Response:
        """Start a job that learns from the annotations."""
        await self._check_revision(request)
        return self._start("teach", {})

    async def suggest(self, request: Request) -> Response:
        """Start a job that suggests which videos to annotate next."""
        await read_body(request)
        revision = self.viewer.edits.revision  # the suggestion depends on the annotations
        return self._start("suggest", {"count": NEXT, "revision": revision})

    async def back(self, request: Request) -> Response:
        """Restore the procedure as it was before it learned from annotations."""
        await self._check_revision(request)
        await run_in_threadpool(take_back, self.viewer.folder)
        await run_in_threadpool(self.viewer.edits.refresh)
        checked = [video.path for video in self.viewer.checks.all() if Path(video.path).is_file()]
        if checked:
            self._start("check", {"videos": checked})
        state = await run_in_threadpool(self.viewer.state)
        return JSONResponse({"words": "what was learned from annotations", "state": state})

    async def _check_revision(self, request: Request) -> None:
        """Refuse requests to an outdated state."""
        await run_in_threadpool(self.viewer.edits.refresh)
        if (await read_body(request)).get("revision") != self.viewer.edits.revision:
            raise HTTPException(
                409, "Another window changed the procedure. Reload the page, then try again."
            )

    # ------------------------------------------------------------------ videos

    async def video(self, request: Request) -> Response:
        """Send a video, or a range of its bytes."""
        path = self._path(request)
        if path.resolve().suffix.lower() not in VIDEO_SUFFIXES:
            await run_in_threadpool(probe, path)  # untrusted procedures may name any file
        kind = mimetypes.guess_type(path.name)[0] or "video/mp4"
        return FileResponse(path, media_type=kind, headers=A_WHILE)

    def about(self, request: Request) -> Response:
        """Return the frame rate of a video."""
        return JSONResponse({"rate": float(probe(self._path(request)).rate or 25)})

    def poster(self, request: Request) -> Response:
        """Send a small picture from early in the video."""
        path, key = self._path(request), request.path_params["key"]
        return Response(
            self.viewer.picture(str(path), self.viewer.poster_time(key)),
            media_type="image/jpeg",
            headers=A_WHILE,
        )

    def signals(self, request: Request) -> Response:
        """Return the curves of a recording without a video, if its features are available."""
        key = request.path_params["key"]
        names = {str(place): name for place, name in enumerate(self.viewer.videos)}
        curves = self.viewer.curves(names[key]) if key in names else None
        return JSONResponse(curves or {"names": [], "curves": [], "every": 1.0})

    async def copies(self, request: Request) -> Response:
        """Start a job that makes copies of videos that the browser cannot play.

        `codecs` are those it can decode, and `videos` lists keys that need a copy in any case.
        Returns the keys that need a copy and those that have one.
        """
        body = await read_body(request)
        kind = text_of(body, "kind", "mp4")
        choose("kind", kind, KINDS)
        codecs = as_items("codecs", body.get("codecs", []), str, "a list of codecs, as h264")
        forced = as_items("videos", body.get("videos", []), str, "a list of keys")
        return JSONResponse(await run_in_threadpool(self._copies, kind, codecs, forced))

    def _copies(self, kind: str, codecs: list[str], forced: list[str]) -> dict[str, Any]:
        there = {
            key: path for key, path in self.viewer.paths.items() if path and Path(path).is_file()
        }
        needed = [key for key in forced if key in there]
        for key, path in there.items():
            try:
                if key not in needed and not self.viewer.playable(path, frozenset(codecs)):
                    needed.append(key)
            except VideoError:
                continue  # no copy is possible either; the page shows the error on opening it
        ready = [key for key in needed if proxy_of(there[key], kind).exists()]
        earlier = [job for job in self.jobs.all() if job.kind == "copies"]
        failed = {
            key: reason
            for job in earlier
            for key in needed
            if (reason := (job.result or {}).get(there[key]))
            and Path(there[key]).stat().st_mtime < job.request["created"]
        }
        missing = [there[key] for key in needed if key not in ready and key not in failed]
        job = next(
            (
                job
                for job in earlier
                if job.state["state"] not in FINISHED
                and set(missing) <= set(job.request["args"]["videos"])
            ),
            None,
        )
        if missing and job is None:
            about = {"videos": missing, "kind": kind}
            job = self.jobs.start("copies", about, self.viewer.folder, self.viewer.title)
        made = job.to_json() if missing and job else None
        return {"needed": needed, "ready": ready, "failed": failed, "job": made}

    async def copy(self, request: Request) -> Response:
        copy = proxy_of(self._path(request), request.path_params["kind"])
        if not copy.exists():
            raise HTTPException(404, "The copy is not ready.")
        return FileResponse(copy, headers=A_WHILE)

    # ------------------------------------------------------------------ check and compare

    async def check(self, request: Request) -> Response:
        """Start a job that checks videos, given by key or by path below the folder of the app."""
        body = await read_body(request)
        keys = as_items("keys", body.get("keys", []), str, "a list of keys")
        names = as_items("videos", body.get("videos", []), str, "a list of paths")
        paths = [str(self._path_of(key)) for key in keys]
        paths += [str(below(self.viewer.root, name)) for name in names]
        if not paths:
            raise OptionError("no video was selected. Choose one or more.", setting="videos")
        return self._start("check", {"videos": paths})

    async def forget(self, request: Request) -> Response:
        await read_body(request)
        self.viewer.checks.remove(request.path_params["key"])
        return JSONResponse({"state": await run_in_threadpool(self.viewer.state)})

    async def upload(self, request: Request) -> Response:
        """Save an uploaded video; return its path."""
        name = request.query_params.get("name", "")
        return JSONResponse({"path": await upload(self.viewer.root, name, request)})

    async def watch(self, request: Request) -> Response:
        """GET returns the watched folder; POST sets it, or stops watching with null."""
        if request.method == "POST":
            folder = (await read_body(request)).get("folder")
            chosen = None if folder is None else below(self.viewer.root, str(folder), folder=True)
            self.viewer.checks.watched = chosen
        watched = self.viewer.checks.watched
        name = None if watched is None or self.viewer.root is None else str(watched)
        return JSONResponse({"folder": name and self.viewer.shown(name)})

    async def compare(self, request: Request) -> Response:
        """Compare two groups of videos by key; return sentences, a table and the time budget."""
        body = await read_body(request)
        timelines = self.viewer.timelines
        groups = {}
        for name in ("a", "b"):
            keys = as_items(name, body.get(name, []), str, "a list of keys")
            for key in keys:
                choose(name, key, timelines)
            groups[name.upper()] = {key: timelines[key] for key in keys}
        steps = [step.name for step in self.viewer.edits.document.steps]
        first, second = (list(group.values()) for group in groups.values())
        table = await run_in_threadpool(compare_groups, first, second, steps)
        budget = time_budget(groups, steps, per_video=True)
        return JSONResponse(
            {
                "words": table.caption,
                "columns": table.columns,
                "rows": table.rows,
                "budget": {"columns": budget.columns, "rows": budget.rows},
            }
        )

    # ------------------------------------------------------------------ export

    async def export(self, request: Request) -> Response:
        """Start an export job; with `preview`, list the files instead."""
        body = await read_body(request)
        check_request(body)
        folder = self.viewer.folder.resolve()
        name = text_of(body, "folder", f"{self.viewer.title}-export")
        if Path(name) != Path(safe_name(name)) or len(Path(name).parts) != 1:
            raise OptionError(
                f"folder={name!r} is not a plain name. Give a name without slashes.",
                setting="folder",
                value=name,
            )
        target = folder.parent / name
        if (target / "config.json").exists():
            raise OptionError(
                f"folder={name!r} is a procedure. Choose another name.",
                setting="folder",
                value=name,
            )
        await run_in_threadpool(self.viewer.edits.refresh)
        outline, videos = self.viewer.edits.outline, self.viewer.videos
        files = await run_in_threadpool(preview, outline, videos, body)
        if body.get("preview"):
            return JSONResponse({"folder": self.viewer.shown(str(target)), "files": files})
        options = {key: body[key] for key in ("what", "formats", "rate") if key in body}
        return self._start("export", {"wish": options, "target": str(target), "videos": videos})

    def download(self, request: Request) -> Response:
        """Send the files of an export as one file."""
        job = self.jobs.get(request.path_params["id"])
        if job is None or job.kind != "export" or job.state["state"] != "done":
            raise HTTPException(404, "No such finished export.")
        return attachment(*pack(job.result))

    # ------------------------------------------------------------------ shared

    def _start(self, kind: str, args: dict[str, Any]) -> Response:
        viewer = self.viewer
        own = {"folder": str(viewer.folder.resolve()), "trust": viewer.trust}
        job: Job = self.jobs.start(kind, {**own, **args}, viewer.folder, viewer.title)
        return JSONResponse(job.to_json())

    def _path(self, request: Request) -> Path:
        return self._path_of(request.path_params["key"])

    def _path_of(self, key: str) -> Path:
        path = self.viewer.paths.get(key)
        if path is None or not Path(path).is_file():
            raise HTTPException(404, "This video is missing.")
        return Path(path)

    def routes(self) -> list[Route]:
        return [
            Route("/api/state", self.show_state),
            *(
                Route(f"/api/{verb}", self.edit, methods=["POST"])
                for verb in ("edit", "undo", "redo", "severity")
            ),
            Route("/api/teach", self.teach, methods=["POST"]),
            Route("/api/suggest", self.suggest, methods=["POST"]),
            Route("/api/back", self.back, methods=["POST"]),
            Route("/api/about/{key}", self.about),
            Route("/api/signals/{key}", self.signals),
            Route("/api/copies", self.copies, methods=["POST"]),
            Route("/api/check", self.check, methods=["POST"]),
            Route("/api/forget/{key}", self.forget, methods=["POST"]),
            Route("/api/upload", self.upload, methods=["POST"]),
            Route("/api/watch", self.watch, methods=["GET", "POST"]),
            Route("/api/compare", self.compare, methods=["POST"]),
            Route("/api/export", self.export, methods=["POST"]),
            Route("/api/download/{id}", self.download),
            Route("/video/{key}", self.video),
            Route("/poster/{key}", self.poster),
            Route("/copy/{key}/{kind}", self.copy),
        ]


def viewer_routes(viewer: Viewer) -> list[Route]:
    """All routes of one procedure: page, API and jobs; the app serves the static files."""
    return [
        *Routes(viewer).routes(),
        *JobRoutes(viewer.jobs).routes(),
        *page_routes("app", "api/state", "../../" if viewer.root else ""),
    ]


def make_app(viewer: Viewer, token: str, host: str = "127.0.0.1") -> Guard:
    """Return the guarded application of `stepcut view`."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        viewer.jobs.open()
        yield
        await run_in_threadpool(viewer.jobs.close)

    app = Starlette(
        routes=[*viewer_routes(viewer), *file_routes()],
        exception_handlers=dict(HANDLERS),
        lifespan=lifespan,
    )
    return Guard(app, token, host)
